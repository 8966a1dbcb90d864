#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/classification_settings.sh"

title="MTSA, Table 2: SNLI and MultiNLI, from word vectors only"
about="An analogous study: the paper's models have a pre-trained language model below them, ours have
GloVe, so its numbers are not for ours to reach. Those of MultiNLI are of the mismatched set; its labels
for testing are not public, so the matched development set is for validation here, and the mismatched one
for testing. Training is as on SNLI."

datasets=(snli multinli)
row Multi-head "86.6 75.7" "${multi_head[@]}"
row MTSA "86.9 76.4" --arch mtsa_classifier
run_recipe "$@"
