#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="MPSAN, Table 6: classification of sentences"
about="Accuracies are the mean of five runs on TREC, of ten folds elsewhere. The paper's for the other
models are those of the Bi-BloSAN paper; its table has models, too, that are not here."

datasets=(trec cr mpqa subj)
row Bi-LSTM "94.4±0.3 84.6±1.6 90.2±0.9 94.7±0.7" --arch bilstm_classifier
row Multi-head "93.4±0.4 82.6±1.9 89.8±1.2 94.0±0.8" "${multi_head[@]}"
row DiSAN "94.2±0.1 84.8±2.0 90.1±0.4 94.2±0.6" --arch disan_classifier
row MPSAN "94.8±0.2 85.4±1.4 90.4±0.8 94.6±0.7" --arch mpsan_classifier
run_recipe "$@"
