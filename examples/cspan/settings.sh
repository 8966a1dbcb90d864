# The settings of the CSPAN paper (section 3.2): Adam, learning rate 1e-3, a tenth of that after 20
# epochs and a hundredth after 25, weight decay 1e-4, batches of 64, 30 epochs, GloVe of 300 features;
# the big model trains for 60 epochs, with the rate presumably lowered at twice the epochs as well. The
# paper names no dropout: it is that of cspan_classifier. Documents are cut to 512 words, of which it
# says nothing either. A tenth of the training set is held out for validation.
#
# fairseq's --weight-decay is decoupled from Adam, PyTorch's is L2.
source "$(dirname "${BASH_SOURCE[0]}")/../classification.sh"

configure() { # DATASET ROW
    batch_size=64 epochs=30 seeds=1
    [[ "$2" != *big* ]] || epochs=60
    training=(
        --optimizer adam --weight-decay 1e-4 --lr-scheduler fixed
        --lr "$(rates $((epochs * 2 / 3)) $((epochs * 5 / 6)))"
    )
}

rates() { # FIRST SECOND: of the epochs until the first is over, until the second is over, afterwards
    local epoch list=""
    for ((epoch = 0; epoch < $1; epoch++)); do list+=1e-3,; done
    for ((; epoch < $2; epoch++)); do list+=1e-4,; done
    echo "${list}1e-5"
}
