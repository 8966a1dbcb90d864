#!/usr/bin/env bash
# Tatoeba, all mechanisms side by side. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" tatoeba/mechanisms "$@"
