#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="DA-Transformer, Figure 5, on translation: adjustments of attention (IWSLT14 German to English)"
about="An analogous study: the paper's Figure 5 (section 4.4) is about text classification and a figure
without numbers, so there is nothing to compare ours with but the order. There, early is better than
late and multiplying better than adding. DA is in the encoder, without position embeddings there.
Tokenised, case-insensitive BLEU."

row Transformer - --arch transformer_iwslt_de_en
for adjustment in late_add late_multiply early_add early_multiply; do
    row "$adjustment" - --arch da_transformer_iwslt_de_en --da-adjustment "$adjustment"
done
run_recipe "$@"
