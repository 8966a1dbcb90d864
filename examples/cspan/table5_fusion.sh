#!/usr/bin/env bash
# CSPAN, Table 5: how meanings and positions meet (AG News). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" cspan/table5_fusion "$@"
