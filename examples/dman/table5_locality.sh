#!/usr/bin/env bash
# DMAN, Table 5: attention within 1, 2 and 4 tokens (IWSLT14 German to English). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" dman/table5_locality "$@"
