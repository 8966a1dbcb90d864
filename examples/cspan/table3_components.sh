#!/usr/bin/env bash
# CSPAN, Table 3: ablation of components (AG News). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" cspan/table3_components "$@"
