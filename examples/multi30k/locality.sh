#!/usr/bin/env bash
# Multi30k, attention near the query. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" multi30k/locality "$@"
