#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/../classification.sh"

title="All classifiers side by side, with the same settings"
about="The models of the papers and those that they compare with, each with its own size and dropout
(see classifier_architectures.py), trained alike: Adam, learning rate 1e-3, batches of 64, at most 15
epochs, no longer than 3 without a better validation. The settings are no paper's, so there are no
paper's numbers."

regime=compare
datasets=("${known_datasets[@]}")
configure() {
    training=(--optimizer adam --lr 1e-3 --lr-scheduler fixed --clip-norm 5 --patience 3)
    batch_size=64 epochs=15 seeds=3
    [[ "$1" != amazon_electronics ]] || training+=(--hierarchical)
}

for name_of_row in mpsan mtsa cspan da_transformer dman transformer rpr gaussian transformer_xl \
    tener disan bilstm cnn; do
    row "$name_of_row" - --arch "${name_of_row}_classifier"
done
run_recipe "$@"
