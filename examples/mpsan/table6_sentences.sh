#!/usr/bin/env bash
# MPSAN, Table 6: classification of sentences. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" mpsan/table6_sentences "$@"
