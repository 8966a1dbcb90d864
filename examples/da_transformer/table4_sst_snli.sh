#!/usr/bin/env bash
# DA-Transformer, Table 4: SST with two classes, and SNLI. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" da_transformer/table4_sst_snli "$@"
