#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/../recipe.sh"

arguments=() small="" dman_sizes=() stock_sizes=()
for argument in "$@"; do
    [[ "$argument" == --small ]] && small=yes || arguments+=("$argument")
done

title="Multi30k, German to English${small:+, small models}"
about="A plain Transformer and a DMAN Transformer with the same settings and as many updates. The data is
prepared first, which downloads it if there is no --source. --small takes models that a CPU core
trains in half an hour each: 3+3 layers, 256 wide. BLEU on the 2016 Flickr test."

source=de target=en subwords=subword_nmt averaged=5 batches=1
training=(
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1
    --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 1e-4
    --lr-scheduler inverse_sqrt --lr 1e-3
    --encoder-normalize-before --decoder-normalize-before --share-all-embeddings
)
decoding=(--beam 5 --max-len-a 2 --max-len-b 10)
scoring=(score_bleu.py --forms tokenised sacrebleu --detokenize en)
metrics=bleu metric="BLEU of tokenised, lower-cased text"

if [[ -n "$small" ]]; then
    regime=small corpus=multi30k-4000
    preparation="prepare_translation.py multi30k --bpe-operations 4000"
    training+=(--warmup-updates 400 --dropout 0.2 --attention-dropout 0 --activation-dropout 0)
    max_tokens=1024 max_update=2800 save_interval=200
    for side in encoder decoder; do
        sizes=("--$side-layers" 3 "--$side-embed-dim" 256 "--$side-ffn-embed-dim")
        # A DMAN layer has one attention sublayer more: half the feed-forward width makes it even.
        stock_sizes+=("${sizes[@]}" 512)
        dman_sizes+=("${sizes[@]}" 256)
    done
else
    regime=full corpus=multi30k preparation="prepare_translation.py multi30k"
    training+=(--warmup-updates 1000 --dropout 0.3)
    training+=(--attention-dropout 0.1 --activation-dropout 0.1)
    max_tokens=8192 max_update=2500 save_interval=125
fi

row Transformer - --arch transformer_iwslt_de_en "${stock_sizes[@]}"
row DMAN - --arch dman_iwslt_de_en "${dman_sizes[@]}"
run_recipe --prepare "${arguments[@]}"
