#!/usr/bin/env bash
#SBATCH --job-name=fairseq
#SBATCH --ntasks-per-node=1
#SBATCH --requeue
#SBATCH --open-mode=append
usage() {
    cat <<'TEXT'
Trains on all GPUs of a Slurm job: one torchrun on each of its machines.

    sbatch --nodes 2 --gpus-per-node 8 --cpus-per-task 32 examples/distributed/slurm.sh DATA FLAGS...

from the checkout's folder, with options of sbatch as your cluster wants them (--partition, --time,
...). DATA and FLAGS are those of fairseq-train on one GPU, and may be preceded by the options of
torchrun.sh, such as --fully-sharded; torchrun.sh --help explains what becomes of them. In a job
that is running already, bash examples/distributed/slurm.sh DATA FLAGS... does the same.

The checkpoints must lie where all machines see them. A job that is requeued, or submitted again,
goes on from the last one.

    --dry-run        as the first word, in a job or outside: print the exact command and stop
    --help           this text
TEXT
}
set -euo pipefail

say() { printf 'slurm: %s\n' "$*" >&2; }
die() {
    say "error: $*"
    exit 1
}

dry_run=""
case "${1:-}" in
    --help | -h) usage && exit ;;
    --dry-run) dry_run=yes && shift ;;
esac

# sbatch runs a copy of this script from a folder of its own.
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
[[ -e "$here/torchrun.sh" ]] || here="${SLURM_SUBMIT_DIR:-.}/examples/distributed"
[[ -e "$here/torchrun.sh" ]] || die "there is no $here/torchrun.sh: submit from the checkout's folder"

if [[ -n "$dry_run" ]]; then
    : "${SLURM_JOB_ID:=JOB}" "${SLURM_NNODES:=NODES}" "${SLURM_GPUS_ON_NODE:=GPUS}"
fi
[[ -n "${SLURM_JOB_ID:-}" ]] ||
    die "this is no Slurm job: sbatch $0 DATA FLAGS..., or torchrun.sh where there is no Slurm"

host=FIRST_NODE port=PORT
if [[ -n "${SLURM_JOB_NODELIST:-}" ]]; then
    host="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"
    port=$((20000 + SLURM_JOB_ID % 20000)) # two jobs on a machine get different ones
fi
command=(
    srun --nodes "$SLURM_NNODES" --ntasks "$SLURM_NNODES" --ntasks-per-node 1 --kill-on-bad-exit=1
    ${SLURM_CPUS_PER_TASK:+--cpus-per-task "$SLURM_CPUS_PER_TASK"}
    bash "$here/torchrun.sh" --nodes "$SLURM_NNODES"
    --rendezvous "$host:$port" --job "$SLURM_JOB_ID" "$@"
)
if [[ -n "$dry_run" ]]; then
    line="$(printf ' %q' "${command[@]}")"
    echo "${line# }"
    exit
fi
bash "$(dirname "$here")/../scripts/environment.sh" >/dev/null # once, before all machines want it
exec "${command[@]}"
