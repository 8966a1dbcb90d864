#!/usr/bin/env bash
# A DMAN Transformer learns to translate German numbers into English, in about a minute on a CPU.
set -euo pipefail

usage() {
    cat <<'END'
usage: bash examples/quickstart/run.sh [--out DIR] [fairseq-train options]

Makes a Python environment if there is none, generates a German-English corpus of written-out
numbers, trains a small DMAN Transformer on it, translates numbers that it has not seen, and
prints BLEU and some of the translations. It needs no GPU: about a minute on a CPU core,
after the environment is made.

  --out DIR   where everything goes (default: data-bin/quickstart in the checkout):
              corpus/           the text in word pieces
              binarised/        what fairseq-preprocess makes of it
              checkpoints/      the model
              translations.txt  what fairseq-generate wrote
              *.log             all that the steps said
              Files of an earlier run are replaced.
  --help      shows this.

Whatever else is given goes to fairseq-train and comes before what is set here. To compare:

  run.sh --encoder-sublayers san,ffn                              a plain Transformer
  run.sh --encoder-sublayers san,san,ffn                          about as many parameters as DMAN
  run.sh --encoder-sublayers sman,san,ffn                         masks that are not learned
  run.sh --decoder-sublayers dman,san,cross,ffn                   DMAN in the decoder, too
  run.sh --seed 2 --max-update 400                                another seed, fewer updates
END
}

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)"
quickstart="$root/examples/quickstart"

die() {
    printf 'quickstart: error: %s\n' "$*" >&2
    exit 1
}

headline() { printf '\n== %s\n' "$*"; }

logged() { # COMMAND...: runs it and keeps a copy of all that it says
    local log="$out/$1.log"
    "$@" 2>&1 | tee "$log" || die "$1 failed: $(tail -n 1 "$log") (the whole of it: $log)"
}

training_progress() { # of fairseq-train's log, a short line for each that tells of progress
    local line total='?'
    update() { printf '   update %4s of %s   %s loss %s\n' "$2" "$total" "$3" "$1"; }
    while IFS= read -r line; do
        if [[ $line =~ "'max_update': "([0-9]+) ]]; then
            total="${BASH_REMATCH[1]}"
        elif [[ $line =~ 'num. shared model params: '([0-9,]+) ]]; then
            printf '   %s parameters\n' "${BASH_REMATCH[1]}"
        elif [[ $line =~ '| train_inner |'.*' loss='([^,]+).*num_updates=([0-9]+) ]]; then
            update "${BASH_REMATCH[@]:1}" training
        elif [[ $line =~ 'valid on'.*'| loss '([^ ]+).*'num_updates '([0-9]+) ]]; then
            update "${BASH_REMATCH[@]:1}" validation
        fi
    done
}

out="$root/data-bin/quickstart"
options=()
while (($#)); do
    case "$1" in
        --help | -h)
            usage
            exit
            ;;
        --out)
            [[ -n "${2:-}" ]] || die "--out needs a directory"
            out="$2"
            shift
            ;;
        --out=*) out="${1#--out=}" ;;
        --save-dir | --save-dir=*) die "say --out instead of --save-dir: the model goes there, too" ;;
        *) options+=("$1") ;;
    esac
    shift
done

commands="$(bash "$root/scripts/environment.sh")"
SECONDS=0 # only now: an environment is made once
export PATH="$commands:$PATH"
export PYTHONUTF8=1                            # umlauts, whatever the locale
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" # tensors this small gain nothing from a second core
mkdir -p "$out" 2>/dev/null || die "$out cannot be made: choose another directory with --out"
out="$(cd "$out" && pwd -P)"

headline "1/4 Corpus: German and English numbers in word pieces"
PYTHONPATH="$root" python -m fairseq_posattn.recipes.tiny text "$out/corpus" \
    --train 30000 --valid 500 --test 500
paste -d '\n' "$out/corpus/train.de" "$out/corpus/train.en" | sed -n 's/^/   /; 1,4p'

headline "2/4 Binarise: fairseq-preprocess"
rm -f "$out"/binarised/dict.{de,en}.txt # which it would not replace
logged fairseq-preprocess \
    --source-lang de --target-lang en --joined-dictionary \
    --trainpref "$out/corpus/train" --validpref "$out/corpus/valid" --testpref "$out/corpus/test" \
    --destdir "$out/binarised" |
    sed -n 's/.*corpus\/\([a-z]*\.[a-z]*: [0-9]* sents, [0-9]* tokens\).*/   \1/p'

headline "3/4 Train: fairseq-train"
model=(
    --user-dir "$root/fairseq_posattn" --arch dman_iwslt_de_en --share-all-embeddings
    --encoder-layers 2 --encoder-embed-dim 64 --encoder-ffn-embed-dim 128
    --decoder-layers 2 --decoder-embed-dim 64 --decoder-ffn-embed-dim 128
    --dropout 0.1
)
training=(
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1
    --lr 3e-3 --lr-scheduler cosine --warmup-updates 100
    --max-tokens 1000 --max-update 700
)
computing=(--cpu --distributed-world-size 1 --num-workers 0)
saving=(--save-dir "$out/checkpoints" --restore-file '' --no-epoch-checkpoints) # always from scratch
reporting=(--log-format simple --log-interval 50)
logged fairseq-train "$out/binarised" \
    "${model[@]}" "${training[@]}" "${computing[@]}" "${saving[@]}" "${reporting[@]}" \
    ${options[@]+"${options[@]}"} |
    training_progress

headline "4/4 Translate the test set: fairseq-generate"
fairseq-generate "$out/binarised" \
    --user-dir "$root/fairseq_posattn" --path "$out/checkpoints/checkpoint_last.pt" \
    --cpu --distributed-world-size 1 --max-tokens 4000 \
    --beam 5 --post-process subword_nmt --scoring sacrebleu \
    >"$out/translations.txt" 2>"$out/fairseq-generate.log" ||
    die "fairseq-generate failed: $(tail -n 1 "$out/fairseq-generate.log")"
python "$quickstart/show_translations.py" "$out/translations.txt"
printf '\nThe model is %s (%d s in all).\n' "$out/checkpoints/checkpoint_last.pt" "$SECONDS"
