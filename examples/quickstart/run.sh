#!/usr/bin/env bash
# A DMAN Transformer learns to translate German numbers into English, in about a minute on a CPU.
set -euo pipefail

usage() {
    cat <<'END'
usage: bash examples/quickstart/run.sh [--out DIR] [--pairs N] [fairseq-train options]

Creates a Python environment if there is none, and then takes the way of your own corpus: plain
text, posattn prepare, posattn train, posattn translate, posattn score. The corpus is generated:
numbers, written out in German and English. No GPU is needed: about a minute on a CPU.

  --out DIR   folder of all results (default: data-bin/quickstart in the checkout):
              text/         plain text, a number a line
              numbers/      prepared data
              checkpoints/  the model and train.log
              Files of an earlier run are replaced.
  --pairs N   pairs of numbers to train on (default: 30000)
  --help      show this.

Other options go to fairseq-train. To compare:

  run.sh --encoder-sublayers san,ffn                              a plain Transformer
  run.sh --encoder-sublayers san,san,ffn                          about as many parameters as DMAN
  run.sh --encoder-sublayers sman,san,ffn                         fixed masks
  run.sh --decoder-sublayers dman,san,cross,ffn                   DMAN in the decoder, too
  run.sh --seed 2 --max-update 400                                another seed, fewer updates
END
}

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)"

die() {
    printf 'quickstart: error: %s\n' "$*" >&2
    exit 1
}

headline() { printf '\n== %s\n' "$*"; }

out="$root/data-bin/quickstart"
options=() pairs=30000
while (($#)); do
    case "$1" in
        --help | -h)
            usage
            exit
            ;;
        --out)
            [[ -n "${2:-}" ]] || die "--out: needs a directory"
            out="$2"
            shift
            ;;
        --out=*) out="${1#--out=}" ;;
        --pairs)
            [[ -n "${2:-}" ]] || die "--pairs: needs a number"
            pairs="$2"
            shift
            ;;
        --pairs=*) pairs="${1#--pairs=}" ;;
        --save-dir | --save-dir=*) die "--save-dir: give --out, which also holds the model" ;;
        *) options+=("$1") ;;
    esac
    shift
done

commands="$(bash "$root/scripts/environment.sh")"
SECONDS=0 # the environment is created once
activate=""
[[ "$(command -v posattn)" == "$commands/posattn" ]] || printf -v activate 'source %q' "$commands/activate"
export PATH="$commands:$PATH"
export PYTHONUTF8=1                            # umlauts in any locale
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" # tensors this small gain nothing from a second core
mkdir -p "$out" 2>/dev/null || die "--out $out: cannot be created; choose another directory"
[[ "$(cd "$out" && pwd -P)" == "$(pwd -P)"/* ]] && out="$(realpath --relative-to . "$out")"
text="$out/text" data="$out/numbers" model="$out/checkpoints"

headline "1/5 Plain text, a number a line"
PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" python -m fairseq_posattn.recipes.tiny text "$text" \
    --train "$pairs" --valid 500 --test 500
paste "$text/train.de" "$text/train.en" | sed -n 's/^/   /; 1,3p'

headline "2/5 Tokens, subwords, binarized data: posattn prepare translation own"
posattn prepare translation own --train "$text/train.de" "$text/train.en" \
    --valid "$text/valid.de" "$text/valid.en" --test "$text/test.de" "$text/test.en" \
    --subwords subword_nmt --bpe-operations 100 --dest "$data" >"$out/prepare.log" 2>&1 ||
    die "$(tail -n 1 "$out/prepare.log") (log: $out/prepare.log)"
grep '^\(split\|train\|valid\|test\) ' "$out/prepare.log"

headline "3/5 Train: posattn train"
settings=(--restore-file '' --max-update 700 --lr-scheduler cosine --lr 3e-3 --warmup-updates 100)
for side in encoder decoder; do
    settings+=("--$side-embed-dim" 64 "--$side-ffn-embed-dim" 128)
done
posattn train "$data" --size tiny --cpu --save-dir "$model" -- \
    "${settings[@]}" ${options[@]+"${options[@]}"}

headline "4/5 Translate the test set: posattn translate"
posattn translate "$model" --cpu --input "$data/test.de" --output "$model/test.en"
paste "$data/test.de" "$model/test.en" | sed -n 's/^/   /; 1,5p'

headline "5/5 Score: posattn score bleu"
posattn score bleu --hypotheses "$model/test.en" --references "$data/test.en" --language en
exact="$(paste "$model/test.en" "$data/test.en" | awk -F '\t' '$1 == $2 { n++ } END { print n + 0 }')"
printf '%s of %s translations are exact\n' "$exact" "$(wc -l <"$data/test.en")"

printf '\nDone in %s s. Try the model:\n' "$SECONDS"
[[ -z "$activate" ]] || printf '    %s\n' "$activate"
printf '    echo "dreiundzwanzig" | posattn translate %q\n' "$model"
printf '    posattn look %q --serve\n' "$model"
