#!/usr/bin/env bash
# DA-Transformer, Figure 5 on translation: adjustments of attention (IWSLT14). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" da_transformer/figure5_adjustment "$@"
