#!/usr/bin/env bash
# DA-Transformer, Figure 4: mappings of the distance (AG News, Amazon). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" da_transformer/figure4_classification "$@"
