#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="MPSAN, Table 1: sentiment of the Stanford Sentiment Treebank, five classes"
about="The paper's numbers are the best of ten runs for MPSAN and DiSAN, others' are from other papers:
compare the column 'best'. Its table has models, too, that are not here (RNNs, CNNs and LSTMs over
trees, Bi-BloSAN). Without word vectors MPSAN has 1.1m parameters, Multi-head 1.5m, Bi-LSTM 2.2m, DiSAN
1.8m. The time that it gives for an epoch shows that it trains on the phrases of the trees."

datasets=(sst5)
row "Multi-head" 49.41 "${multi_head[@]}"
row "CNN" 48.0 --arch cnn_classifier --encoder-hidden-dim 300
row "Bi-LSTM" 49.95 --arch bilstm_classifier
row DiSAN 51.72 --arch disan_classifier
row MPSAN 52.53 --arch mpsan_classifier
run_recipe "$@"
