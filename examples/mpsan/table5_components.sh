#!/usr/bin/env bash
# MPSAN, Table 5: without one component after the other (SST, five classes). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" mpsan/table5_components "$@"
