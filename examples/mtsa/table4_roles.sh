#!/usr/bin/env bash
# MTSA, Table 4: semantic roles with given predicates, CoNLL-2005. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" mtsa/table4_roles "$@"
