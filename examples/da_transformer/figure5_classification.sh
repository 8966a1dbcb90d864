#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/classification_settings.sh"

title="DA-Transformer, Figure 5: adjustments of attention (AG News, Amazon)"
about="The paper's numbers are in a figure: early is better than late, and multiplying better than
adding."

datasets=(ag_news amazon_electronics)
for adjustment in late_add late_multiply early_add early_multiply; do
    row "$adjustment" - --arch da_transformer_classifier --da-adjustment "$adjustment"
done
run_recipe "$@"
