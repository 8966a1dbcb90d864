#!/usr/bin/env bash
# DA-Transformer, Figure 3: ratings of Amazon reviews as numbers. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" da_transformer/figure3_ratings "$@"
