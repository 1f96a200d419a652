#!/usr/bin/env bash
# Runs one training command in N processes on this machine.
#
#   launch/local.sh 2 --config=configs/mtg_mt5.py --config.mesh.data=2
#
# What may be set before it:
#   GPUS=1      process i gets GPU i alone; otherwise each process sees all devices
#   RESTARTS=5  a run of which a process ends with code 75 (xlbench/parallel/), or is killed by a
#               signal, is started again, so often; 0
#   LOGS=DIR    what process i prints is kept, too, in DIR/attempt-A/process-i.log
#   GRACE=60    seconds for the others to end when one has ended badly, then they are killed
#   MODULE=xlbench.fewshot   what is run in place of xlbench.train
#   PYTHON, PORT             of .venv, and of process 0; a random one below 32768 by default
#
# If one process ends badly, the others end, too, and the command ends with its exit code. TERM,
# HUP and Ctrl-C reach all processes, which may save what they have; a second one kills them.
set -uo pipefail

count=${1:-}
if ! [[ $count =~ ^[1-9][0-9]*$ ]]; then
  echo "error: how many processes? usage: launch/local.sh N --config=..." >&2
  exit 2
fi
shift
python=${PYTHON:-.venv/bin/python}
running=()
stopped=0 # Signals from outside.

tell() { # tell SIGNAL: to all that still run.
  if ((${#running[@]})); then kill -s "$1" "${running[@]}" 2>/dev/null; fi
}

stop() {
  stopped=$((stopped + 1))
  if ((stopped == 1)); then tell TERM; else tell KILL; fi
}
trap stop TERM INT HUP

run() { # run ATTEMPT ARGUMENTS...: sets `code`.
  local attempt=$1 port=${PORT:-$((20000 + RANDOM % 12768))} deadline=0 i result
  shift
  code=0
  export XLBENCH_COORDINATOR=127.0.0.1:$port XLBENCH_PROCESSES=$count
  for ((i = 0; i < count; i++)); do
    export XLBENCH_PROCESS=$i
    if [ -n "${GPUS:-}" ]; then export CUDA_VISIBLE_DEVICES=$i; fi
    if [ -n "${LOGS:-}" ]; then
      mkdir -p "$LOGS/attempt-$attempt"
      "$python" -m "${MODULE:-xlbench.train}" "$@" \
        > >(trap '' TERM INT HUP; exec tee "$LOGS/attempt-$attempt/process-$i.log") 2>&1 &
    else
      "$python" -m "${MODULE:-xlbench.train}" "$@" &
    fi
    running[i]=$!
  done
  while ((${#running[@]})); do
    sleep 0.2
    for i in "${!running[@]}"; do
      if kill -0 "${running[i]}" 2>/dev/null; then continue; fi
      wait "${running[i]}"
      result=$?
      unset 'running[i]'
      if ((result == 0 || code)); then continue; fi
      if ((result == 137 && !stopped)); then
        echo "process $i was killed, perhaps by the system for lack of memory" >&2
      elif ((result > 128 && !stopped)); then
        echo "process $i was ended by signal $(kill -l "$((result - 128))")" >&2
      fi
      code=$result
      deadline=$((SECONDS + ${GRACE:-60}))
      # With 75 each process ends by itself: it may be saving still. If one was killed, the others
      # notice, and end with 75.
      if ((code != 75 && code < 128)); then tell TERM; fi
    done
    if ((deadline && SECONDS >= deadline)); then tell KILL; fi
  done
}

for ((attempt = 0; ; attempt++)); do
  run "$attempt" "$@"
  if (((code != 75 && code < 128) || stopped || attempt >= ${RESTARTS:-0})); then exit "$code"; fi
  echo "ended with code $code; starting again, $((attempt + 1)) of $RESTARTS" >&2
  sleep 1
done
