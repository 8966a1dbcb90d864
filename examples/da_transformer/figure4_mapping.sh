#!/usr/bin/env bash
# DA-Transformer, Figure 4 on translation: mappings of the distance (IWSLT14). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" da_transformer/figure4_mapping "$@"
