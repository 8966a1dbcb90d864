#!/usr/bin/env bash
usage() {
    cat <<EOF
Trains a plain Transformer and a DMAN Transformer on Multi30k (German to English) with the same
settings and the same number of updates, and prints the BLEU score of each on the 2016 Flickr test.

    bash examples/multi30k/run.sh [OPTIONS] [-- FLAGS]

    --small              models that a CPU core trains in half an hour each: $small_sizes
    --source FOLDER      text that is here already, see prepare_translation.py multi30k --help
    --data FOLDER        where it goes, prepared (default: data-bin/multi30k in the checkout)
    --merges N           byte-pair merges (default: 10000, or 4000 with --small)
    --out FOLDER         checkpoints, translations and results (default: checkpoints/multi30k in
                         the checkout, or checkpoints/multi30k-small)
    --models LIST        architectures, with commas between (default: $models)
    --seed N             (default: $seed)
    --max-update N       updates that each model is trained for (default: 2500, or 2800 with --small)
    --dry-run            print the commands for training and translating, and stop
    --help               this text
    -- FLAGS             go to fairseq-train, for every model, after the recipe's own

Of each run the last $averaged checkpoints, one each 125 updates (200 with --small), are averaged; the
average translates with a beam of $beam. What is finished is not done again, and training that was stopped
goes on from its last checkpoint, so the same command takes up a run that was interrupted; with a
greater --max-update it prolongs one. Models can be trained at the same time by runs with one of
--models each; the same command without it then puts the scores side by side.
EOF
}
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)"
here="$root/examples/multi30k"
averaged=5 beam=5
models=transformer_iwslt_de_en,dman_iwslt_de_en
small_sizes="3+3 layers, 256 wide"
seed=1 small="" dry_run="" max_update="" merges="" data="$root/data-bin/multi30k" out=""
source="" extra=()

say() { printf 'multi30k: %s\n' "$*" >&2; }
die() {
    say "error: $*"
    exit 1
}

while (($#)); do
    case "$1" in
        --help | -h) usage && exit ;;
        --small) small=yes && shift ;;
        --dry-run) dry_run=yes && shift ;;
        --source | --data | --merges | --out | --models | --seed | --max-update)
            [[ -n "${2:-}" ]] || die "$1 needs a value"
            case "$1" in
                --max-update) max_update="$2" ;;
                *) declare "${1#--}=$2" ;;
            esac
            shift 2
            ;;
        --) shift && extra=("$@") && break ;;
        *) die "unknown option $1; --help lists the options" ;;
    esac
done

# --- Settings, the same for every model --------------------------------------------------------

if [[ -n "$small" ]]; then
    max_update="${max_update:-2800}" merges="${merges:-4000}"
    out="${out:-$root/checkpoints/multi30k-small}"
    regime=(--max-tokens 1024 --lr 1e-3 --warmup-updates 400 --save-interval-updates 200
        --dropout 0.2 --attention-dropout 0 --activation-dropout 0)
else
    max_update="${max_update:-2500}" merges="${merges:-10000}"
    out="${out:-$root/checkpoints/multi30k}"
    regime=(--max-tokens 8192 --lr 1e-3 --warmup-updates 1000 --save-interval-updates 125
        --dropout 0.3 --attention-dropout 0.1 --activation-dropout 0.1)
fi
for option in max_update merges; do
    [[ "${!option}" =~ ^[1-9][0-9]*$ ]] ||
        die "--${option/_/-} ${!option}: must be a positive whole number"
done
[[ "$seed" =~ ^[0-9]+$ ]] || die "--seed $seed: must be a whole number"

settings=(
    --task translation --source-lang de --target-lang en
    --encoder-normalize-before --decoder-normalize-before --share-all-embeddings
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1
    --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 1e-4
    --lr-scheduler inverse_sqrt "${regime[@]}" --seed "$seed"
)
saving=(
    --keep-interval-updates "$averaged" --no-epoch-checkpoints --update-epoch-batch-itr True
    --log-format simple --log-interval 50
)

sizes() { # ARCHITECTURE: with --small, the flags that make it small
    [[ -n "$small" ]] || return 0
    # A DMAN layer has one attention sublayer more: half the feed-forward width makes it even.
    local side ffn=512
    [[ "$1" != dman_* ]] || ffn=256
    for side in encoder decoder; do
        echo "--$side-layers" 3 "--$side-embed-dim" 256 "--$side-ffn-embed-dim" "$ffn"
    done
}

check_models() { # LIST: prints where fairseq will train them
    PYTHONPATH="$root" python - "$1" <<'EOF'
import sys

import torch

import fairseq_posattn
from fairseq.models import ARCH_MODEL_REGISTRY

for name in sys.argv[1].split(","):
    if name not in ARCH_MODEL_REGISTRY:
        sys.exit(f"multi30k: error: --models {sys.argv[1]}: {name!r} is no architecture")
print("cuda" if torch.cuda.is_available() else "cpu")
EOF
}

# --- Data and environment ----------------------------------------------------------------------

if [[ -z "$dry_run" ]]; then
    commands="$(bash "$root/scripts/environment.sh")"
    export PATH="$commands:$PATH"
    python "$root/scripts/prepare_translation.py" multi30k ${source:+--source "$source"} \
        --dest "$data/bpe$merges" --bpe-operations "$merges" >/dev/null
    mkdir -p "$out" || die "--out $out cannot be made a folder"
    data="$(cd "$data" && pwd -P)" out="$(cd "$out" && pwd -P)"
fi
binarised="$data/bpe$merges"
plugin="$root/fairseq_posattn"

precision=()
export PYTHONWARNINGS="${PYTHONWARNINGS:-ignore}" # fairseq's use of old interfaces brings hundreds
if [[ -z "$dry_run" ]]; then
    device="$(check_models "$models")" || exit 1
    if [[ "$device" == cuda ]]; then
        precision=(--fp16)
    elif [[ -z "$small" ]]; then
        say "no GPU is here: these models will take hours; --small trains smaller ones"
    fi
fi

# --- Steps -------------------------------------------------------------------------------------

show() {
    printf '+'
    printf ' %q' "$@"
    printf '\n'
}

run() { # COMMAND...: shown as it can be typed, and run
    if [[ -n "$dry_run" ]]; then
        show "$@"
    else
        show "$@" >&2
        "$@"
    fi
}

progress() { # of all that fairseq-train says, the lines that tell of it
    sed --unbuffered --quiet --regexp-extended \
        's/^.* \| (INFO|ERROR) \| ([a-z_.]+ \| )?(train_inner|valid|num\. shared|Loaded checkpoint)/\3/p'
}

train() { # ARCHITECTURE
    local directory="$out/$1" flags command until
    read -r -d '' -a flags < <(sizes "$1") || true
    command=(
        fairseq-train "$binarised" --user-dir "$plugin" --arch "$1" "${flags[@]}"
        "${settings[@]}" "${precision[@]}" "${saving[@]}" "${extra[@]}"
    )
    until=(--max-update "$max_update" --save-dir "$directory")
    if [[ -n "$dry_run" ]]; then
        show "${command[@]}" "${until[@]}"
        return
    fi
    if [[ -e "$directory/checkpoint_last.pt" ]]; then
        show "${command[@]}" | cmp --quiet - "$directory/command" ||
            die "$directory was trained with other settings, see command there: give another --out"
    fi
    [[ ! -e "$directory/average-$max_update.pt" ]] || return 0
    show "${command[@]}" >"$directory/command"
    say "training $1"
    show "${command[@]}" "${until[@]}" >&2
    "${command[@]}" "${until[@]}" 2>&1 | tee -a "$directory/train.log" | progress ||
        die "fairseq-train failed: $(tail -n 1 "$directory/train.log")"
}

average() { # ARCHITECTURE
    local directory="$out/$1"
    run python "$root/scripts/average_checkpoints.py" --inputs "$directory" \
        --num-update-checkpoints "$averaged" --checkpoint-upper-bound "$max_update" \
        --output "$directory/average-$max_update.pt"
}

translate() { # ARCHITECTURE
    run fairseq-generate "$binarised" --user-dir "$plugin" --gen-subset test \
        --path "$out/$1/average-$max_update.pt" --beam "$beam" --remove-bpe \
        --max-len-a 2 --max-len-b 10 --max-tokens 4096 "${precision[@]}" --log-format none
}

results=()
for model in ${models//,/ }; do
    directory="$out/$model"
    if [[ -n "$dry_run" ]]; then
        train "$model" && average "$model" && translate "$model"
        continue
    fi
    mkdir -p "$directory"
    exec 9<"$directory" # two runs of one model: the second waits
    ! command -v flock >/dev/null || flock 9
    train "$model"
    [[ -e "$directory/average-$max_update.pt" ]] || average "$model"
    translation="$directory/translation-$max_update.txt"
    if [[ ! -e "$translation" ]]; then
        say "translating the test set with $model"
        translate "$model" >"$translation.part" 2>"$directory/translate.log" ||
            die "fairseq-generate failed, see $directory/translate.log"
        mv "$translation.part" "$translation"
    fi
    exec 9<&-
    results+=("$directory/average-$max_update.pt" "$translation")
done
[[ -n "$dry_run" ]] || python "$here/score.py" "$binarised/text/test.en" "$out/results-$max_update.json" \
    "${results[@]}"
