# What the comparisons of all classifiers share.
source "$(dirname "${BASH_SOURCE[0]}")/../classification.sh"

size=() # flags that make all models as large as each other, if any
configure() { # DATASET ROW
    training=(--optimizer adam --lr 1e-3 --lr-scheduler fixed --clip-norm 5 --patience 3)
    training+=("${size[@]}")
    batch_size=64 epochs=15 seeds=3
    [[ "$1" != amazon_electronics ]] || training+=(--hierarchical)
}

for name_of_row in mpsan mtsa cspan da_transformer dman transformer rpr gaussian transformer_xl \
    tener disan bilstm cnn; do
    row "$name_of_row" - --arch "${name_of_row}_classifier"
done
