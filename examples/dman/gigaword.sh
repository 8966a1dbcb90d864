#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="DMAN, Table 2: Gigaword"
about="Headlines of first sentences. As cnn_dailymail.sh, on shorter text."

gigaword
row Transformer "37.57 18.90 34.69" "${stock_summarization[@]}"
row DMAN "38.28 19.46 35.46" --arch dman_summarization
run_recipe "$@"
