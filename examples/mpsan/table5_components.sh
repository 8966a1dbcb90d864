#!/usr/bin/env bash
# MPSAN, Table 5: ablation of components (SST, five classes). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" mpsan/table5_components "$@"
