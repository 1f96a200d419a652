#!/usr/bin/env bash
# Stops what start.sh has started in DIR, the jobs first.
set -uo pipefail
dir=${1:?usage: stop.sh DIR}
export SLURM_CONF=$dir/slurm.conf
mapfile -t jobs < <(squeue --noheader --format=%i)
if ((${#jobs[@]})); then scancel "${jobs[@]}"; fi
for _ in $(seq 150); do
  if [ -z "$(squeue --noheader)" ]; then break; fi
  sleep 0.2
done
for name in slurmd.pid slurmctld.pid munge/pid; do
  if [ -s "$dir/$name" ]; then kill "$(cat "$dir/$name")"; fi
done
