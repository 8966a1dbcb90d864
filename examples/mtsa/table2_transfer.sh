#!/usr/bin/env bash
# MTSA, Table 2: SNLI and MultiNLI, from a pre-trained language model. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" mtsa/table2_transfer "$@"
