#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="DMAN, Table 1: WMT14 English to German (base)"
about="DMAN, SAN, FFN on both sides with half the Transformer's feed-forward width: 63M parameters
to its 62M. The other two are alternatives in the same table, from their own papers: a Gaussian
window that the encoder learns, and relative positions. Tokenised, cased BLEU."

wmt14_base
stock_ffn=(--encoder-ffn-embed-dim 2048 --decoder-ffn-embed-dim 2048)
row Transformer 27.3 --arch transformer_wmt_en_de
row "Local Transformer" 28.5 --arch dman_wmt_en_de "${stock_ffn[@]}" \
    --encoder-sublayers gaussian,ffn --decoder-sublayers san,cross,ffn
row "Relative Transformer" 26.8 --arch dman_wmt_en_de "${stock_ffn[@]}" \
    --encoder-sublayers rpr,ffn --decoder-sublayers rpr,cross,ffn
row DMAN 29.1 --arch dman_wmt_en_de
run_recipe "$@"
