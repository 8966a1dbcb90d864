#!/usr/bin/env bash
# DMAN, Table 2: CNN/Daily Mail. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" dman/cnn_dailymail "$@"
