#!/usr/bin/env bash
# Runs one training command in N processes on this machine.
#
#   launch/local.sh 2 --config=configs/mtg_mt5.py --config.mesh.data=2
#
# What may be set before it:
#   GPUS=1      process i gets GPU i alone; otherwise each process sees all devices
#   RESTARTS=5  a run is started again, so often, if a process ends with code 75
#               (xlbench/parallel/cluster.py), is killed by a signal, or is aborted by jax (134); 0
#   LOGS=DIR    the output of process i is kept, too, in DIR/attempt-A/process-i.log
#   GRACE=60    seconds for the others to save when one has ended with 75; after any other end they
#               have 5 seconds to say why they end; then they are killed
#   MODULE=xlbench.fewshot   is run in place of xlbench.train
#   PYTHON, PORT             of .venv, and of process 0; a random one below 32768 by default
#
# Each process that ends badly is named. The command ends with the exit code of the first, or with 2
# if any process says that it is a mistake of the user, which is not tried again. TERM, HUP and
# Ctrl-C reach all processes, which may save what they have; a second one kills them.
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

ending() { # ending CODE: of a process, in words.
  case $1 in
    75) echo 'ended with code 75: start me again' ;;
    134) echo 'was aborted (134): jax missed another process, or it crashed' ;;
    137) echo 'was killed (137), perhaps by the system for lack of memory' ;;
    *) if (($1 > 128)); then echo "was ended by signal $(kill -l "$(($1 - 128))") ($1)"; else
      echo "ended with code $1"; fi ;;
  esac
}

run() { # run ATTEMPT ARGUMENTS...: sets `code`.
  local attempt=$1 port=${PORT:-$((20000 + RANDOM % 12768))} deadline=0 killing=0 limit i result
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
      if ((result == 0 || killing)); then continue; fi
      if ((!stopped)); then echo "process $i $(ending "$result")" >&2; fi
      if ((code == 0 || result == 2)); then code=$result; fi
      limit=$((SECONDS + (result == 75 ? ${GRACE:-60} : 5)))
      if ((deadline == 0 || limit < deadline)); then deadline=$limit; fi
    done
    if ((deadline && SECONDS >= deadline)); then
      killing=1
      tell KILL
    fi
  done
}

for ((attempt = 0; ; attempt++)); do
  run "$attempt" "$@"
  if (((code != 75 && code < 128) || stopped || attempt >= ${RESTARTS:-0})); then exit "$code"; fi
  echo "ended with code $code; starting again, $((attempt + 1)) of $RESTARTS" >&2
  sleep 1
done
