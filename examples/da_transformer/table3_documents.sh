#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/classification_settings.sh"

title="DA-Transformer, Table 3: AG News and the ratings of Amazon's reviews of electronics"
about="Accuracy and macro-F of test sets; the paper does not say which 50,000 reviews it takes."

datasets=(ag_news amazon_electronics)
compare_transformers \
    "93.01±0.13 93.00±0.13 65.15±0.40 42.14±0.41" "93.14±0.12 93.13±0.13 65.29±0.38 42.40±0.40" \
    "93.35±0.10 93.34±0.11 65.50±0.40 42.88±0.43" "93.28±0.13 93.27±0.14 65.47±0.39 42.69±0.42" \
    "93.72±0.11 93.70±0.12 66.38±0.39 44.29±0.40"
run_recipe "$@"
