#!/usr/bin/env bash
# Trains on all GPUs of a Slurm job, with one torchrun on each machine. Submit it from the checkout:
#
#     sbatch examples/distributed/slurm.sh DATA FLAGS...
#
# DATA and FLAGS are those of fairseq-train on one GPU; the options of torchrun.sh may precede them.
# Edit the lines below for your cluster. Options of sbatch on the command line override them.

#SBATCH --job-name=fairseq
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32        # all cores that the processes of a machine share
#SBATCH --time=24:00:00
##SBATCH --partition=gpu          # remove one "#" to use it
##SBATCH --account=project

#SBATCH --ntasks-per-node=1       # torchrun starts the processes of a machine
#SBATCH --requeue                 # a requeued job resumes from its last checkpoint,
#SBATCH --open-mode=append        # and its output continues; --save-dir must be a shared folder
set -euo pipefail
: "${SLURM_JOB_ID:?is not set. Submit this script: sbatch examples/distributed/slurm.sh DATA FLAGS}"

# sbatch runs a copy of this script, so the checkout is the folder it was submitted from.
cd "$SLURM_SUBMIT_DIR"
bash scripts/environment.sh >/dev/null # once, before all machines need it

# The first machine, with a port that depends on the job, so that two jobs can share a machine.
first="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"
port=$((20000 + SLURM_JOB_ID % 20000))

# NCCL may need the network interface of your cluster:
# export NCCL_SOCKET_IFNAME=ib0

# A machine that fails ends the job. srun does not take --cpus-per-task from sbatch by itself.
exec srun --ntasks="$SLURM_NNODES" --ntasks-per-node=1 --kill-on-bad-exit=1 \
    ${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"} \
    bash examples/distributed/torchrun.sh --nodes "$SLURM_NNODES" \
    --rendezvous "$first:$port" --job "$SLURM_JOB_ID" "$@"
