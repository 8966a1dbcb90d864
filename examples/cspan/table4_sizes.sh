#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="CSPAN, Table 4: layers of the Bi-LSTM and queries of the pooling (AG News)"
about="All for as many epochs as the base model."

datasets=(ag_news)
size() { # LAYERS QUERIES PAPER
    row "$1 layers, $2 queries" "$3" --arch cspan_classifier --lstm-layers "$1" --pooling-queries "$2"
}
size 1 1 92.84
size 1 8 92.95
size 1 16 93.68
size 2 8 93.05
size 2 16 92.88
size 2 32 93.04
size 3 32 92.92
size 3 64 92.71
size 3 128 93.14
run_recipe "$@"
