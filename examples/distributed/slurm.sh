#!/usr/bin/env bash
#SBATCH --job-name=fairseq
#SBATCH --ntasks-per-node=1
#SBATCH --requeue
#SBATCH --open-mode=append
# Trains on all GPUs of a Slurm job; --help explains.
set -euo pipefail

# sbatch runs a copy of this script from a folder of its own.
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
[[ -e "$here/launch.py" ]] || here="${SLURM_SUBMIT_DIR:-.}/examples/distributed"
[[ -e "$here/launch.py" ]] || {
    echo "slurm: error: there is no $here/launch.py: submit from the checkout's folder" >&2
    exit 1
}
commands="$(bash "$here/../../scripts/environment.sh")" # once, before all machines want it
export PATH="$commands:$PATH"
exec python "$here/launch.py" slurm "$@"
