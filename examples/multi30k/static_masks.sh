#!/usr/bin/env bash
# Multi30k, DMAN's Table 4: static and dynamic masks. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" multi30k/static_masks "$@"
