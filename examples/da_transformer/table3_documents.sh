#!/usr/bin/env bash
# DA-Transformer, Table 3: AG News and the ratings of Amazon's reviews of electronics. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" da_transformer/table3_documents "$@"
