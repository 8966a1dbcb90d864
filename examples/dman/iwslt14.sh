#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="DMAN, Table 1: IWSLT14 German to English (small)"
about="The encoder's layers are DMAN, SAN, FFN with half the Transformer's feed-forward width: 37M
parameters to its 36M. Tokenised, case-insensitive BLEU. The paper takes the Transformer's number
from others; to train that row as fairseq documents it:
    --rows Transformer --out ANOTHER -- --lr 5e-4 --warmup-updates 4000"

iwslt14
row Transformer 34.4 --arch transformer_iwslt_de_en
row DMAN 36.3 --arch dman_iwslt_de_en
run_recipe "$@"
