#!/usr/bin/env bash
# MTSA, Table 6, setup 2: WMT14 English to German, four GPUs, 6144 tokens on each. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" mtsa/table6_setup2 "$@"
