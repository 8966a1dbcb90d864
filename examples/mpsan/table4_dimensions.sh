#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="MPSAN, Table 4: one score for a pair of words, or one for each feature (SST, five classes)"
about="M-D has a score for each feature, 1-D a single one. The paper counts 1.09m, 0.73m, 1.81m and 1.09m
parameters; its accuracies are the best of ten runs: compare the column 'best'."

datasets=(sst5)
row "M-D + B&F + TPW" 51.95 --arch mpsan_classifier "${both_directions[@]}" --mpsan-multi-dimensional
row "1-D + B&F + TPW" 51.76 --arch mpsan_classifier "${both_directions[@]}"
row "M-D + mul + TPW" 52.67 --arch mpsan_classifier --mpsan-multi-dimensional
row "1-D + mul + TPW" 52.53 --arch mpsan_classifier
run_recipe "$@"
