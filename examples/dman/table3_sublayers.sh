#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="DMAN, Table 3: the order of the sublayers (IWSLT14 German to English)"
about="The encoder's layers vary; the decoder's are SAN, cross attention, FFN, as in the published
configuration, whose score is that of C#5. Tokenised, case-insensitive BLEU."

iwslt14
row "C#1" 35.51 --arch dman_iwslt_de_en --encoder-sublayers ffn,san,ffn
row "C#2" 35.66 --arch dman_iwslt_de_en --encoder-sublayers san,san,ffn
row "C#3" 35.86 --arch dman_iwslt_de_en --encoder-sublayers dman,dman,ffn
row "C#4" 35.91 --arch dman_iwslt_de_en --encoder-sublayers san,dman,ffn
row "C#5" 36.35 --arch dman_iwslt_de_en # dman,san,ffn
run_recipe "$@"
