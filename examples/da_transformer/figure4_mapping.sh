#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="DA-Transformer, Figure 4, on translation: mappings of the distance (IWSLT14 German to English)"
about="An analogous study: the paper's Figure 4 (section 4.3) is about text classification and a figure
without numbers, so there is nothing to compare ours with but the order. There, the learnable sigmoid
comes first, then the sigmoid, the exponential and, behind them, clip and linear. DA is in the
encoder, without position embeddings there. Tokenised, case-insensitive BLEU."

row Transformer - --arch transformer_iwslt_de_en
for mapping in clip linear exponential sigmoid learnable_sigmoid; do
    row "$mapping" - --arch da_transformer_iwslt_de_en --da-mapping "$mapping"
done
run_recipe "$@"
