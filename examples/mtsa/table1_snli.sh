#!/usr/bin/env bash
# MTSA, Table 1: natural language inference, SNLI. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" mtsa/table1_snli "$@"
