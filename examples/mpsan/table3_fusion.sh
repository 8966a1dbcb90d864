#!/usr/bin/env bash
# MPSAN, Table 3: fusion of the masks' outputs (SST, five classes). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" mpsan/table3_fusion "$@"
