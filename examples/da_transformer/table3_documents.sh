#!/usr/bin/env bash
# DA-Transformer, Table 3: AG News and ratings of Amazon reviews. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" da_transformer/table3_documents "$@"
