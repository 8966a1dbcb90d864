#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="DA-Transformer, Figure 4 on translation: mappings of the distance (IWSLT14)"
about="An analogous study: the paper's (section 4.3) is on classification, in a figure without
numbers. There, the learnable sigmoid is better than the sigmoid, both are better than the
exponential, and clip and linear fall short. DA is in the encoder, which has no position embeddings.
German to English, tokenised, case-insensitive BLEU."

row Transformer - --arch transformer_iwslt_de_en
for mapping in clip linear exponential sigmoid learnable_sigmoid; do
    row "$mapping" - --arch da_transformer_iwslt_de_en --da-mapping "$mapping"
done
run_recipe "$@"
