#!/usr/bin/env bash
# MTSA, Table 3: ablations (SNLI). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" mtsa/table3_ablations "$@"
