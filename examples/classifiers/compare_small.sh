#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="All classifiers side by side, as small as each other"
about="As compare.sh, but every encoder has as many features as a word vector (disan twice as many), 2 heads
if it has heads, 200 features within a feed-forward sublayer, and every head a layer of 50: models that a
CPU trains in minutes, and that differ in their mechanism more than in their size."

regime=compare_small
datasets=("${known_datasets[@]}")
size=(
    --encoder-hidden-dim 0 --encoder-attention-heads 2 --encoder-ffn-embed-dim 200 --head-dim 50
    --cnn-widths 3,5 # which any even number of features is divided by
)
run_recipe "$@"
