#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="MPSAN, Table 7: semantic relatedness of SICK's pairs"
about="Pearson's r, Spearman's rho and the mean squared error of the relatedness from 1 to 5, means of
five runs; the objective is the Kullback-Leibler divergence of distributions over the five. The checkpoint
is that with the best Pearson's r in validation. The paper's table has models, too, that are not here."

datasets=(sick)
row Bi-LSTM "0.8473 0.7913 0.3276" --arch bilstm_classifier
row Multi-CNN "0.8374 0.7793 0.3395" --arch cnn_classifier --head-dim 300
row Multi-head "0.8521 0.7942 0.3258" "${multi_head[@]}"
row DiSAN "0.8695 0.8139 0.2879" --arch disan_classifier
row MPSAN "0.8674 0.8119 0.2612" --arch mpsan_classifier
run_recipe "$@"
