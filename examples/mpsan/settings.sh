# The settings of the MPSAN paper ("Experiments and Results"): Adadelta, learning rate 0.5, L2 1e-7,
# batches of 64, GloVe of 300 features, tuned; on SICK learning rate 0.7 and L2 5e-4. Its dropout
# ratios, 0.7 and on SICK 0.55, are read as what is kept, as in the papers that it builds on.
# rho and epsilon are the defaults of its TensorFlow 1.4. It does not say how long it trains: here, so
# long that the best validation lies well before the end.
#
# fairseq's --weight-decay is L2 for Adadelta, of the word vectors too.
source "$(dirname "${BASH_SOURCE[0]}")/../classification.sh"

configure() { # DATASET ROW
    batch_size=64
    training=(
        --optimizer adadelta --adadelta-rho 0.95 --adadelta-eps 1e-8 --lr-scheduler fixed
        --lr 0.5 --weight-decay 1e-7 --dropout 0.3
    )
    case "$1" in
        sst5) epochs=20 seeds=10 ;; # with phrases, 18 times as many examples as sentences
        sick)
            epochs=60
            training+=(--lr 0.7 --weight-decay 5e-4 --dropout 0.45)
            ;;
        *) epochs=60 ;;
    esac
    ((folds == 0)) || seeds=1
}

# What the paper calls multi-head has no feed-forward sublayer; a Transformer's layer has.
multi_head=(
    --arch transformer_classifier --encoder-hidden-dim 600 --encoder-attention-heads 8
    --encoder-ffn-embed-dim 600 --pooling source2token --head-dim 300
)
both_directions=(--mpsan-masks past,future)
