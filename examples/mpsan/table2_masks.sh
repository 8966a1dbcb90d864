#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="MPSAN, Table 2: masks (SST, five classes)"
about="The rows are called as in the paper. Its backward mask (BW) lets a word see those before it, its
forward mask (FW) those after it; FA are windows without the word itself. Its numbers are the best of ten
runs: compare the column 'best'."

datasets=(sst5)
arch=(--arch mpsan_classifier)
row 0 49.19 "${arch[@]}" --encoder none
row 1 51.54 "${arch[@]}" --mpsan-masks past,future
row 2 51.81 "${arch[@]}" --mpsan-masks past+scaled_distance,future+scaled_distance
row 3 51.13 "${arch[@]}" --mpsan-masks window:2,window:3
row 4 51.99 "${arch[@]}" --mpsan-masks window:2,window:3,past,future
row 5 52.48 "${arch[@]}" --mpsan-masks \
    window:2+scaled_distance,window:3+scaled_distance,past+scaled_distance,future+scaled_distance
row 6 52.17 "${arch[@]}" --mpsan-masks window:2,window:3,past+distance,future+distance
row MPSAN 52.53 "${arch[@]}" # window:2,window:3,past+scaled_distance,future+scaled_distance
run_recipe "$@"
