#!/usr/bin/env bash
# DA-Transformer, Figure 4: mappings of the distance (MIND). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" da_transformer/figure4_news "$@"
