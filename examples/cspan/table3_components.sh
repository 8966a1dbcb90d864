#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="CSPAN, Table 3: its components, one after the other (AG News)"
about="The models before the last are pooled with one query; of the Bi-LSTM the paper does not say how
it is. The third is that with one query in Table 4, too, where it has another accuracy, 92.84."

datasets=(ag_news)
row "Bi-LSTM" 89.36 --arch cspan_classifier --encoder bilstm --pooling-queries 1
row "+ self-att" 92.61 --arch cspan_classifier --cspan-no-residual --pooling-queries 1
row "+ residual" 93.03 --arch cspan_classifier --pooling-queries 1
row "+ multi-query" 93.68 --arch cspan_classifier
run_recipe "$@"
