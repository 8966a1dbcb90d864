#!/usr/bin/env bash
# DA-Transformer, Figure 5: adjustments of attention (MIND). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" da_transformer/figure5_news "$@"
