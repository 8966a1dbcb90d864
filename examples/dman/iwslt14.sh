#!/usr/bin/env bash
# DMAN, Table 1: IWSLT14 German to English (small). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" dman/iwslt14 "$@"
