# The DA-Transformer paper compares its choices on classification only; these recipes make the same
# comparisons on translation, where it has no numbers. The sizes are those of fairseq's
# transformer_iwslt_de_en and the settings those that fairseq documents for it, alike for all rows.
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

regime=iwslt14 corpus=iwslt14 preparation="prepare_translation.py iwslt14" source=de target=en
training=(
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 0 --weight-decay 1e-4
    --lr-scheduler inverse_sqrt --lr 5e-4 --warmup-updates 4000 --dropout 0.3
)
max_tokens=4096 batches=1 max_update=50000
averaged=5 decoding=(--beam 5 --lenpen 1.0) subwords=subword_nmt
scoring=(score_bleu.py --forms tokenised-lowercase tokenised sacrebleu --detokenize en)
metrics=bleu metric="tokenised, case-insensitive BLEU"
