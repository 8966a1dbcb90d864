# The settings of the DA-Transformer paper on classification (section 4.1): Adam, learning rate 1e-3,
# GloVe of 300 features, one layer of 16 heads of 16 features, means of five runs; Amazon's reviews go
# through words, sentences and document. It names no dropout (that of the architectures is taken), no
# batch size (64) and no number of epochs (10). Documents are cut to 512 words.
source "$(dirname "${BASH_SOURCE[0]}")/../classification.sh"

configure() { # DATASET ROW
    batch_size=64 epochs=10 metrics=(accuracy macro_f1)
    training=(--optimizer adam --lr-scheduler fixed --lr 1e-3)
    [[ "$1" != amazon_electronics ]] || training+=(--hierarchical)
    [[ "$regime" != ratings ]] || regress
}

compare_transformers() { # PAPER...: of the Transformer, RPR, XL, the adapted one and DA-Transformer
    row Transformer "$1" --arch transformer_classifier
    row Transformer-RPR "$2" --arch rpr_classifier
    row Transformer-XL "$3" --arch transformer_xl_classifier
    row "Adapted Transformer" "$4" --arch tener_classifier
    row DA-Transformer "$5" --arch da_transformer_classifier
}
