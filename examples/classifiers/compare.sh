#!/usr/bin/env bash
# All classifiers side by side, with the same settings. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" classifiers/compare "$@"
