#!/usr/bin/env bash
# All classifiers, small models. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" classifiers/compare_small "$@"
