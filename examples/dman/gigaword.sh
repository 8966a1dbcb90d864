#!/usr/bin/env bash
# DMAN, Table 2: Gigaword. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" dman/gigaword "$@"
