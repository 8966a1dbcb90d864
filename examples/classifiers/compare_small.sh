#!/usr/bin/env bash
# All classifiers side by side, as small as each other. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" classifiers/compare_small "$@"
