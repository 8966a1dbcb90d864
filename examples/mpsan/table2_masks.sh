#!/usr/bin/env bash
# MPSAN, Table 2: masks (SST, five classes). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" mpsan/table2_masks "$@"
