#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/classification_settings.sh"

title="DA-Transformer, Figure 4: mappings of the distance (AG News, Amazon)"
about="The paper's numbers are in a figure: the learnable sigmoid is better than the sigmoid, both are
better than the exponential, and clip and linear fall short."

datasets=(ag_news amazon_electronics)
for mapping in clip linear exponential sigmoid learnable_sigmoid; do
    row "$mapping" - --arch da_transformer_classifier --da-mapping "$mapping"
done
run_recipe "$@"
