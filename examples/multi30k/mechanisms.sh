#!/usr/bin/env bash
# Multi30k, all mechanisms side by side. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" multi30k/mechanisms "$@"
