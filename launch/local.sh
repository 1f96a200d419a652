#!/usr/bin/env bash
# Runs one training command in N processes on this machine.
#
#   launch/local.sh 2 --config=configs/mtg_mt5.py --config.mesh.data=2
#
# Each process sees all devices of a CPU; to share GPUs, give each its own: GPUS=1 launch/local.sh 4 ...
# If one process ends badly, the others are stopped, and the command ends with its exit code.
set -euo pipefail
count=${1:?how many processes? usage: launch/local.sh N --config=...}
shift
python=${PYTHON:-.venv/bin/python}
port=${PORT:-$((20000 + RANDOM % 20000))}
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true' EXIT
for ((i = 0; i < count; i++)); do
  export XLBENCH_COORDINATOR="127.0.0.1:$port" XLBENCH_PROCESSES="$count" XLBENCH_PROCESS="$i"
  if [ -n "${GPUS:-}" ]; then export CUDA_VISIBLE_DEVICES="$i"; fi
  "$python" -m xlbench.train "$@" &
  pids+=($!)
done
for ((i = 0; i < count; i++)); do
  wait -n
done
