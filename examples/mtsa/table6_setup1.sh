#!/usr/bin/env bash
# MTSA, Table 6, setup 1: WMT14 English to German, one GPU, 2048 tokens an update. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" mtsa/table6_setup1 "$@"
