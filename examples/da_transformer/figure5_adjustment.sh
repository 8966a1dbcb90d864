#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="DA-Transformer, Figure 5 on translation: adjustments of attention (IWSLT14)"
about="An analogous study: the paper's (section 4.4) is on classification, in a figure without
numbers. There, early is better than late, and multiplying better than adding. DA is in the encoder,
which has no position embeddings. German to English, tokenised, case-insensitive BLEU."

row Transformer - --arch transformer_iwslt_de_en
for adjustment in late_add late_multiply early_add early_multiply; do
    row "$adjustment" - --arch da_transformer_iwslt_de_en --da-adjustment "$adjustment"
done
run_recipe "$@"
