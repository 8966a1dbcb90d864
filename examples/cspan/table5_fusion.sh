#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="CSPAN, Table 5: how meanings and positions meet (AG News)"
about="The rows are called as in the paper, see its Figure 2."

datasets=(ag_news)
row "(a) embedding" 92.38 --arch cspan_classifier --cspan-fusion none
row "(b) + position" 92.71 --arch cspan_classifier --cspan-fusion position
row "(c) + relative-position" 92.39 --arch cspan_classifier --cspan-fusion relative_position
row "(d) + Bi-LSTM" 93.03 --arch cspan_classifier --cspan-fusion parallel
row "(e) // Bi-LSTM" 93.68 --arch cspan_classifier # cascaded
run_recipe "$@"
