#!/usr/bin/env bash
# Multi30k, DMAN's Table 3: the order of the sublayers. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" multi30k/stackings "$@"
