#!/bin/bash
#SBATCH --job-name=cohort
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --requeue
# sbatch examples/cluster/slurm.sh rlvr.yaml output_dir=/shared/out
# One task per host; each is told its rank by Slurm. All exit with the run's result.
set -euo pipefail
export COHORT_KEYS=${COHORT_KEYS:-$HOME/cohort-keys}
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR
export MASTER_PORT=${MASTER_PORT:-6379}
export WORLD_SIZE=$SLURM_NNODES
# Words that are expanded on each host, not here.
# shellcheck disable=SC2016
exec srun --kill-on-bad-exit=1 bash -c 'RANK=$SLURM_NODEID exec actor-node run "$@"' actor-node "$@" \
  resume_from_checkpoint=true
