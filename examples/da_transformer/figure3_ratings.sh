#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/classification_settings.sh"

title="DA-Transformer, Figure 3: the ratings of Amazon's reviews of electronics as numbers"
about="Root mean squared error and mean absolute error; the lower, the better. The paper's are in a figure
without numbers, in which DA-Transformer's are the lowest and Transformer's the highest."

datasets=(amazon_electronics)
regime=ratings
compare_transformers - - - - -
run_recipe "$@"
