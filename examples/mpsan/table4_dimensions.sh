#!/usr/bin/env bash
# MPSAN, Table 4: one score for a pair of words, or one for each feature (SST, five classes). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" mpsan/table4_dimensions "$@"
