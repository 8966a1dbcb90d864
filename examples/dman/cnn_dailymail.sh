#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="DMAN, Table 2: CNN/Daily Mail"
about="Summaries of news. DMAN, SAN, FFN on both sides with half the Transformer's feed-forward width,
without copying or coverage. The paper takes the Transformer's numbers from others."

cnn_dailymail
row Transformer "39.50 16.06 36.63" "${stock_summarization[@]}"
row DMAN "40.98 18.29 37.88" --arch dman_summarization
run_recipe "$@"
