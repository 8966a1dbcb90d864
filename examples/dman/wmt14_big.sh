#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="DMAN, Table 1: WMT14 English to German (big)"
about="As wmt14_base.sh, with twice the widths and heads: 215M parameters to the Transformer's
213M. Tokenised, cased BLEU."

wmt14_big
stock_ffn=(--encoder-ffn-embed-dim 4096 --decoder-ffn-embed-dim 4096)
row Transformer 28.4 --arch transformer_wmt_en_de_big
row "Local Transformer" 29.2 --arch dman_wmt_en_de_big "${stock_ffn[@]}" \
    --encoder-sublayers gaussian,ffn --decoder-sublayers san,cross,ffn
row "Relative Transformer" 29.2 --arch dman_wmt_en_de_big "${stock_ffn[@]}" \
    --encoder-sublayers rpr,ffn --decoder-sublayers rpr,cross,ffn
row DMAN 30.4 --arch dman_wmt_en_de_big
run_recipe "$@"
