#!/usr/bin/env bash
# DA-Transformer, Table 5: news recommendation (MIND). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" da_transformer/table5_mind "$@"
