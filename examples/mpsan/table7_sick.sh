#!/usr/bin/env bash
# MPSAN, Table 7: semantic relatedness of SICK's pairs. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" mpsan/table7_sick "$@"
