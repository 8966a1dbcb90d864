# The settings of the MTSA paper on classification (appendix B): Adadelta, on CR, MPQA and SUBJ Adam;
# how much is dropped, the L2 factors and the numbers of updates are there, and the batch of 128 on SNLI.
# Where it is silent, the settings are those of the papers that it follows, as MPSAN gives them: learning
# rate 0.5 for Adadelta and batches of 64; for Adam 1e-3. rho and epsilon are TensorFlow's defaults. It
# scores TREC on "the dev set", which TREC has not: here a tenth of the training set is held out, and
# of each fold's.
source "$(dirname "${BASH_SOURCE[0]}")/../classification.sh"

configure() { # DATASET ROW
    batch_size=64
    training=(
        --optimizer adadelta --adadelta-rho 0.95 --adadelta-eps 1e-8 --lr-scheduler fixed --lr 0.5
    )
    case "$1" in
        snli | multinli)
            batch_size=128 updates=600000 interval=4000 seeds=1
            training+=(--dropout 0.35 --l2 5e-5)
            ;;
        cr | mpqa | subj)
            updates=1000 interval=50 seeds=1
            training=(
                --optimizer adam --lr-scheduler fixed --lr 1e-3 --dropout 0.5 --l2 1e-4
            )
            [[ "$1" == subj ]] || training+=(--attention-dropout 0.2)
            ;;
        trec)
            updates=80000 interval=400
            training+=(--dropout 0.5 --l2 1e-4)
            ;;
        sst5)
            updates=120000 interval=1000
            training+=(--dropout 0.3 --l2 1e-4)
            ;;
    esac
}
