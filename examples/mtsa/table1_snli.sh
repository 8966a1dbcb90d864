#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/classification_settings.sh"

title="MTSA, Table 1: natural language inference, SNLI"
about="Its sentences are encoded apart. Without word vectors the paper counts 2.9m parameters for
Bi-LSTM, 1.4m for Multi-CNN, 2.0m for multi-head (ours has a feed-forward sublayer more), 2.3m for DiSA
and 2.9m for MTSA; its table has models, too, that are not here."

datasets=(snli)
row Bi-LSTM 85.0 --arch bilstm_classifier
row Multi-CNN 83.2 --arch cnn_classifier --head-dim 300
row Multi-head 84.2 "${multi_head[@]}"
row DiSA 85.6 --arch disan_classifier
row MTSA 86.3 --arch mtsa_classifier
run_recipe "$@"
