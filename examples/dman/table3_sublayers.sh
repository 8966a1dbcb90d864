#!/usr/bin/env bash
# DMAN, Table 3: the order of the sublayers (IWSLT14 German to English). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" dman/table3_sublayers "$@"
