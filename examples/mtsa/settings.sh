# The settings of MTSA's Table 6 (section 4.4, appendix B.1): those of tensor2tensor's
# transformer_base, in fairseq's flags. The learning rate of tensor2tensor, 2 / sqrt(512) /
# sqrt(warm-up) at its peak, is worked out; its length penalty, ((5 + length) / 6) ** 0.6, is
# fairseq's length ** 0.6.
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

corpus=wmt14_en_de preparation="prepare_translation.py wmt14_en_de" source=en target=de
training=(
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1
    --optimizer adam --adam-betas '(0.9, 0.997)' --adam-eps 1e-9 --clip-norm 0
    --lr-scheduler inverse_sqrt --encoder-normalize-before --decoder-normalize-before
    --dropout 0.1 --attention-dropout 0.1 --activation-dropout 0.1 --share-all-embeddings
)
averaged=1 decoding=(--beam 4 --lenpen 0.6) subwords=subword_nmt
scoring=(score_bleu.py --forms tokenised compound-split sacrebleu --detokenize de)
metrics=bleu metric="tokenised, cased BLEU"

# The published run's form of MTSA, which is not quite the paper's: no direction masks, identity for
# the token2token scores, and source2token scores of the value through one affine map.
published_mtsa=(
    --arch mtsa_transformer_wmt_en_de --mtsa-masks none --mtsa-token-scale identity
    --mtsa-source value --mtsa-source-layers 1 --mtsa-source-bias 5
    --mtsa-divide-source --mtsa-source-scale log_sigmoid
)
