#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="CSPAN, Table 2: classification of documents"
about="The paper's numbers for DiSAN are from another paper; its table has models, too, that are not here."

datasets=(ag_news yelp_polarity yelp_full yahoo_answers)
row DiSAN "92.51 94.39 62.08 76.15" --arch disan_classifier
row "CSPAN (base)" "93.68 96.11 65.93 77.61" --arch cspan_classifier
row "CSPAN (big)" "93.62 96.18 65.95 77.75" --arch cspan_big_classifier
run_recipe "$@"
