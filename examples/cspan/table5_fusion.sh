#!/usr/bin/env bash
# CSPAN, Table 5: fusion of semantics and positions (AG News). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" cspan/table5_fusion "$@"
