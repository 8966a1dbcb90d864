# The settings of the DMAN paper (section 3.1) and of its published training scripts.
#
# All rows of a table are trained alike, the Transformer too, whose number the paper takes from
# others. The norms before each sublayer, the dropouts and the shared embeddings are those of the
# dman_* architectures, given as flags for the sake of the Transformer. The paper does not say which
# checkpoints it scores; here the last five are averaged, 1/40 of the training apart.
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

shared=(
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 0 --lr-scheduler inverse_sqrt
    --encoder-normalize-before --decoder-normalize-before --share-all-embeddings
    --attention-dropout 0.1 --activation-dropout 0.1
)
averaged=5

# "small". The warm-up is the published script's; the text says 8000. It also says that there were
# two GPUs, and not whether each had as many tokens.
iwslt14() {
    regime=iwslt14 corpus=iwslt14 source=de target=en lowercase=yes
    training=("${shared[@]}" --dropout 0.3 --lr 7e-3 --warmup-updates 16000 --weight-decay 1e-4)
    max_tokens=8192 batches=1 max_update=80000
    beam=5 lenpen=1.0
}

wmt14_base() {
    regime=wmt14_base corpus=wmt14_en_de source=en target=de lowercase=""
    training=("${shared[@]}" --dropout 0.1 --lr 1e-2 --warmup-updates 8000)
    max_tokens=12288 batches=24 max_update=80000
    beam=4 lenpen=0.6
}

wmt14_big() {
    regime=wmt14_big corpus=wmt14_en_de source=en target=de lowercase=""
    training=("${shared[@]}" --dropout 0.3 --lr 1.5e-2 --warmup-updates 8000)
    max_tokens=4096 batches=128 max_update=50000
    beam=4 lenpen=0.6
}
