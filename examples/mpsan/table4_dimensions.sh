#!/usr/bin/env bash
# MPSAN, Table 4: one score per pair of tokens or per feature (SST, five classes). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" mpsan/table4_dimensions "$@"
