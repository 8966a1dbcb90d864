#!/usr/bin/env bash
# Multi30k, DMAN of the published code and of the paper's text. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" multi30k/forms "$@"
