#!/usr/bin/env bash
# Multi30k, German to English. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" multi30k/run "$@"
