#!/usr/bin/env bash
# DMAN, Table 4: static and dynamic masks (IWSLT14 German to English). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" dman/table4_static_masks "$@"
