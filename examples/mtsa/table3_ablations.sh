#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/classification_settings.sh"

title="MTSA, Table 3: without one of its parts (SNLI)"
about="The paper counts 2.9m, 2.9m, 2.5m, 2.5m and 1.8m parameters."

datasets=(snli)
row MTSA 86.3 --arch mtsa_classifier
row "w/o fw&bw masks" 85.3 --arch mtsa_classifier --mtsa-masks none
row "w/o token2token" 85.8 --arch mtsa_classifier --mtsa-scores source2token
row "w/o source2token" 84.9 --arch mtsa_classifier --mtsa-scores token2token
row "w/o proposed modules" 84.3 --arch mtsa_classifier --mtsa-scores none
run_recipe "$@"
