# The settings of the MPSAN paper ("Experiments and Results"): Adadelta, learning rate 0.5, L2 1e-7,
# batches of 64, GloVe of 300 features, tuned; on SICK learning rate 0.7 and L2 5e-4. Its dropout
# ratios, 0.7 and on SICK 0.55, are read as what is kept, as in the papers that it builds on.
# rho and epsilon are the defaults of its TensorFlow 1.4. It does not say how long it trains: on SST and
# TREC here as long as MTSA's paper says, whose settings are alike, elsewhere for 20,000 updates.
source "$(dirname "${BASH_SOURCE[0]}")/../classification.sh"

configure() { # DATASET ROW
    batch_size=64
    training=(
        --optimizer adadelta --adadelta-rho 0.95 --adadelta-eps 1e-8 --lr-scheduler fixed
        --lr 0.5 --l2 1e-7 --dropout 0.3
    )
    case "$1" in
        sst5) updates=120000 interval=1000 seeds=10 ;;
        trec) updates=80000 interval=400 ;;
        sick)
            updates=20000 interval=200
            training+=(--lr 0.7 --l2 5e-4 --dropout 0.45)
            ;;
        *) updates=20000 interval=200 ;;
    esac
    ((folds == 0)) || seeds=1
}
both_directions=(--mpsan-masks past,future)
