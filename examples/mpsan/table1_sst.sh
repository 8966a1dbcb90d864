#!/usr/bin/env bash
# MPSAN, Table 1: sentiment of the Stanford Sentiment Treebank, five classes. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" mpsan/table1_sst "$@"
