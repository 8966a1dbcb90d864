#!/usr/bin/env bash
usage() {
    cat <<'TEXT'
Trains with one process for each GPU, on one machine or several, through torchrun.

    bash examples/distributed/torchrun.sh [OPTIONS] DATA FLAGS...

DATA and FLAGS are those of fairseq-train on one GPU. An update stays as large as they say,
--update-freq batches of --max-tokens tokens (or --batch-size sentences), however many processes share
it; how they do is printed.

    --workers N              processes on this machine (default: one for each of its GPUs; with
                             --cpu among FLAGS, or with --dry-run, 1)
    --nodes N                machines (default: 1); give the same command on each of them
    --rendezvous HOST:PORT   where they meet: one of them, and a port that is free there
    --job NAME               the same on all machines, another for another run that meets at the
                             same place (default: fairseq)
    --fully-sharded          each GPU holds a share of weights, gradients and the optimiser's
                             state; needs fairscale, see README.md
    --dry-run                print the exact command and stop
    --help                   this text

If one process ends, all do; the same command goes on from the last checkpoint, with as many
processes or with others.
TEXT
}
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
root="$(cd "$here/../.." && pwd -P)"
source "$root/examples/share_update.sh"

say() { printf 'torchrun: %s\n' "$*" >&2; }
die() {
    say "error: $*"
    exit 1
}

# --- Options -----------------------------------------------------------------------------------

workers="" nodes=1 rendezvous="" job=fairseq fully_sharded="" dry_run=""
while (($#)); do
    case "$1" in
        --help | -h) usage && exit ;;
        --fully-sharded) fully_sharded=yes && shift ;;
        --dry-run) dry_run=yes && shift ;;
        --workers | --nodes | --rendezvous | --job)
            [[ -n "${2:-}" ]] || die "$1 needs a value"
            declare "${1#--}=$2"
            shift 2
            ;;
        --) shift && break ;;
        -*) die "unknown option $1; fairseq-train's flags stand after DATA, --help lists the options" ;;
        *) break ;;
    esac
done
(($#)) || die "DATA, the folder of binarised data, is missing; --help explains"
for option in workers nodes; do
    [[ "${!option}" =~ ^([1-9][0-9]*)?$ ]] ||
        die "--$option ${!option}: must be a positive whole number"
done
((nodes == 1)) || [[ "$rendezvous" =~ ^[^:]+:[0-9]+$ ]] ||
    die "--nodes $nodes needs --rendezvous HOST:PORT, one of the machines and a free port there"

given() { # FLAG...: the value that fairseq-train would take for it, the last
    local word previous="" value="" name
    for word in "${flags[@]}"; do
        for name in "$@"; do
            [[ "$previous" != "$name" ]] || value="$word"
            [[ "$word" != "$name="* ]] || value="${word#*=}"
        done
        previous="$word"
    done
    printf '%s' "$value"
}

flags=("$@") on_cpu=""
[[ " $* " != *" --cpu "* ]] || on_cpu=yes
[[ -z "$fully_sharded" || -z "$on_cpu" ]] || die "--fully-sharded needs GPUs, not --cpu"
if [[ -z "$dry_run" ]]; then
    commands="$(bash "$root/scripts/environment.sh")"
    export PATH="$commands:$PATH"
    export PYTHONUTF8=1 PYTHONWARNINGS="${PYTHONWARNINGS:-ignore}"
    export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" # what torchrun does, with a warning
    if [[ -z "$on_cpu" ]]; then
        gpus="$(python -c 'import torch; print(torch.cuda.device_count())')"
        ((gpus > 0)) || die "there is no GPU here; with --cpu among FLAGS the CPU trains"
        workers="${workers:-$gpus}"
        ((workers <= gpus)) || die "--workers $workers: there are $gpus GPUs here"
    fi
    [[ -z "$fully_sharded" ]] || python -c 'import fairscale' 2>/dev/null ||
        die "--fully-sharded needs fairscale: pip install --no-build-isolation fairscale"
fi
workers="${workers:-1}"
all_workers=$((nodes * workers))

# --- The update, shared ------------------------------------------------------------------------

batches="$(given --update-freq)" batches="${batches:-1}"
[[ "$batches" =~ ^[1-9][0-9]*$ ]] ||
    die "--update-freq $batches: only one number can be shared among workers"
shared=()
share() { # FLAG UNIT NAMES...: what an update has of it, if FLAGS say
    local size frequency
    size="$(given "$1" "${@:3}")"
    [[ -n "$size" ]] || return 0
    describe_update "$size" "$batches" "$all_workers" "$2"
    share_update "$size" "$batches" "$all_workers"
    shared+=("$1" "$size" --update-freq "$frequency")
}
share --max-tokens tokens
share --batch-size sentences --max-sentences
((${#shared[@]})) || die "FLAGS must say how large a batch is: --max-tokens or --batch-size"

# --- The command -------------------------------------------------------------------------------

meeting=(--standalone)
((nodes == 1)) ||
    meeting=(--rdzv-backend c10d --rdzv-endpoint "$rendezvous" --rdzv-id "$job")
backend=()
[[ -z "$on_cpu" ]] || backend=(--distributed-backend gloo --ddp-backend legacy_ddp)
[[ -z "$fully_sharded" ]] || backend=(--ddp-backend fully_sharded --min-params-to-wrap 100000)
command=(
    python -m torch.distributed.run --nnodes "$nodes" --nproc-per-node "$workers" "${meeting[@]}"
    "$here/worker.py" "${flags[@]}" "${shared[@]}" "${backend[@]}"
)
line="$(printf ' %q' "${command[@]}")"
if [[ -n "$dry_run" ]]; then
    echo "${line# }"
    exit
fi
echo "+$line" >&2

"${command[@]}" &
torchrun=$!
trap 'kill "$torchrun" 2>/dev/null' INT TERM # to the workers, too
status=0
wait "$torchrun" || status=$?
wait "$torchrun" 2>/dev/null || true # a signal to this script ends the first wait early
((status)) || exit 0

folder="$(given --save-dir)"
last="${folder:-checkpoints}/checkpoint_last.pt"
if [[ -e "$last" ]]; then
    die "training stopped (exit code $status, why is said above); its last checkpoint is $last:" \
        "the same command goes on from there"
fi
die "training stopped (exit code $status, why is said above) before its first checkpoint"
