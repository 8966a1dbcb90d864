#!/usr/bin/env bash
# DMAN, Table 1: WMT14 English to German (base). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" dman/wmt14_base "$@"
