#!/usr/bin/env bash
# MTSA, Table 5: classification of sentences. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" mtsa/table5_sentences "$@"
