#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="DMAN, Table 4: static and dynamic masks (IWSLT14 German to English)"
about="SMAN sees as many tokens each way as the square root of half the sentence's length (1), or
four (2). Tokenised, case-insensitive BLEU."

iwslt14
sman=(--arch dman_iwslt_de_en --encoder-sublayers sman,san,ffn)
row Transformer 34.40 --arch transformer_iwslt_de_en
row SMAN1 35.52 "${sman[@]}" --sman-radius sqrt
row SMAN2 35.55 "${sman[@]}" --sman-radius 4
row DMAN 36.35 --arch dman_iwslt_de_en
run_recipe "$@"
