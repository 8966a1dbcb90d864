#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="All classifiers side by side, with the same settings"
about="The models of the papers and those that they compare with, each with its own size and dropout
(see classifier_architectures.py), trained alike: Adam, learning rate 1e-3, batches of 64, at most 15
epochs, no longer than 3 without a better validation. The settings are no paper's, so there are no
paper's numbers."

regime=compare
datasets=("${known_datasets[@]}")
run_recipe "$@"
