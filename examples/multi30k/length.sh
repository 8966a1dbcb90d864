#!/usr/bin/env bash
# Multi30k, tests of up to four times the length of training. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" multi30k/length "$@"
