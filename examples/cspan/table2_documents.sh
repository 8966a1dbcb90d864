#!/usr/bin/env bash
# CSPAN, Table 2: classification of documents. --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" cspan/table2_documents "$@"
