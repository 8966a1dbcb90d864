#!/usr/bin/env bash
# CSPAN, Table 4: layers of the Bi-LSTM and queries of the pooling (AG News). --help explains.
exec bash "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh" cspan/table4_sizes "$@"
