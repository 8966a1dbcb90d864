#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/classification_settings.sh"

title="MTSA, Table 5: classification of sentences"
about="Accuracies are the mean of ten folds on CR, MPQA and SUBJ, of five runs on TREC and SST-5. The
paper's table has models, too, that are not here."

datasets=(cr mpqa subj trec sst5)
row Bi-LSTM "84.6±1.6 90.2±0.9 94.7±0.7 94.4±0.3 49.9±0.8" --arch bilstm_classifier
row Multi-head "82.6±1.9 89.8±1.2 94.0±0.8 93.4±0.4 48.2±0.6" "${multi_head[@]}"
row DiSA "84.8±2.0 90.1±0.4 94.2±0.6 94.2±0.1 51.0±0.7" --arch disan_classifier
row MTSA "84.9±2.4 90.5±0.6 94.5±0.6 95.3±0.3 51.3±0.7" --arch mtsa_classifier
run_recipe "$@"
