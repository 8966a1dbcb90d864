#!/usr/bin/env bash
# Tatoeba, eight models side by side. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" tatoeba/mechanisms "$@"
