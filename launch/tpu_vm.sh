#!/usr/bin/env bash
# Trains on a TPU slice of Google Cloud, on all its hosts, until the run is finished.
#
#   NAME=qg ZONE=us-west4-a TYPE=v5litepod-16 launch/tpu_vm.sh \
#       --config=configs/mtg_mt5.py:base --workdir=/runs/qg
#
# To be given from the project's folder, on a machine that stays: it asks for the slice, waits for
# it, copies the project to every host, installs it, starts one process on each, and watches them.
# It needs the gcloud command, logged in, with a project set, and its key in the ssh agent:
#   ssh-add ~/.ssh/google_compute_engine
#
# What may be set before it; the first three must be:
#   NAME, ZONE, TYPE     of the slice; `gcloud compute tpus accelerator-types list --zone=ZONE`
#   VERSION              of the hosts' system; v2-alpha-tpuv5-lite, which goes with v5litepod
#   SPOT=1               a slice that can be taken away at any time, for less; 0
#   MOUNT='...'          a command for every host, before each attempt: it mounts what holds the
#                        workdir and the data, which all hosts have to see, and a new slice, too:
#                        MOUNT='sudo mkdir -p /runs && sudo mount -t nfs 10.0.0.2:/runs /runs'
#                        (it may fail where that is mounted already)
#   DATA=/runs/data      XLBENCH_DATA of the hosts
#   SETUP='...'          a command for every host of a new slice, in place of the one below
#   RESTARTS=50          how often the run may start again
#   LOGS=tpu-logs        what host I prints is in DIR/NAME/attempt-A/I.log
#   PAUSE=30             seconds before it starts again; twice as long after each attempt that ends
#                        soon, up to half an hour
#   KEEP=1               the slice is left when the run is finished; otherwise it is given back
#
# The run starts again, and goes on where it was, whenever it ends before it is finished; on a new
# slice if the old one was taken away. It does not after a mistake of the user (code 2,
# xlbench/parallel/cluster.py). Ctrl-C, or TERM, tells the processes to end, and leaves the slice.
set -uo pipefail

: "${NAME:?}" "${ZONE:?}" "${TYPE:?}"
logs=${LOGS:-tpu-logs}/$NAME
pause=${PAUSE:-30}
stamp=$(date +%s)
spot=()
if ((${SPOT:-0})); then spot=(--spot); fi
# The system's Python may be too old; uv brings one. To be expanded on the hosts.
# shellcheck disable=SC2016
default='python3 -m pip install --user --quiet uv==0.13.8 && export PATH=$HOME/.local/bin:$PATH &&
uv venv --clear --python 3.12 .venv &&
uv pip install --quiet --no-deps --require-hashes --requirement requirements.lock &&
uv pip install --quiet "jax[tpu]==$(.venv/bin/python -c "import jax; print(jax.__version__)")" &&
uv pip install --quiet --no-deps --editable .'

tpus() { gcloud compute tpus "$@" --zone="$ZONE"; }
slice() { tpus queued-resources "$1" "$NAME" "${@:2}"; }
state() { slice describe --format='value(state.state)' 2> /dev/null; }
hosts() { # hosts COMMAND [FLAGS]: on all of them; dead connections are noticed within a minute.
  tpus tpu-vm ssh "$NAME" --worker=all --command="$1" \
    --ssh-flag=-oServerAliveInterval=15 --ssh-flag=-oServerAliveCountMax=4 "${@:2}"
}

stop() {
  trap '' TERM INT
  echo 'telling the processes to end; the slice is left'
  # shellcheck disable=SC2016
  hosts '[ ! -s xlbench.pid ] || kill "$(cat xlbench.pid)"'
  wait
  exit 143
}
trap stop TERM INT

prepare() { # Gets the slice, and the project onto its hosts, if they are not there.
  local now
  while now=$(state); [ "$now" != ACTIVE ]; do
    echo "slice $NAME: ${now:-not there}"
    case $now in
      '')
        ready=0
        slice create --node-id="$NAME" --accelerator-type="$TYPE" \
          --runtime-version="${VERSION:-v2-alpha-tpuv5-lite}" "${spot[@]}" || return
        ;;
      FAILED | SUSPENDED)
        ready=0
        slice delete --force --quiet || return
        ;;
    esac
    sleep "${PAUSE:-30}" &
    wait $!
  done
  if ((ready)); then return; fi
  local archive
  archive=$(mktemp -d) || return
  tar -czf "$archive/xlbench.tgz" --exclude=__pycache__ \
    xlbench tasks configs pyproject.toml setup.py requirements.lock README.md LICENSE &&
    tpus tpu-vm scp "$archive/xlbench.tgz" "$NAME:" --worker=all &&
    hosts "mkdir -p xlbench && tar -xzf xlbench.tgz -C xlbench && cd xlbench &&
${SETUP:-$default}" &&
    ready=1
  local code=$?
  rm -r "$archive"
  return "$code"
}

attempt() { # attempt A ARGUMENTS...
  local folder=$logs/attempt-$1 arguments
  mkdir -p "$folder" || return
  arguments=$(printf ' %q' "${@:2}")
  # gcloud gives a command again when the connection broke; it must not begin twice.
  hosts "mkdir xlbench-$stamp-$1 || exit 75
[ ! -s xlbench.pid ] || kill -KILL \"\$(cat xlbench.pid)\" 2> /dev/null
${MOUNT:-:}
cd xlbench && export XLBENCH_DATA=${DATA:-/runs/data}
.venv/bin/python -m xlbench.train$arguments < /dev/null & echo \$! > ../xlbench.pid
wait \$!; code=\$?
rm ../xlbench.pid
echo \"this process ended with code \$code\"
exit \$code" --output-directory="$folder" &
  wait $! # So that signals are heard.
  local code=$?
  # gcloud tells the code of the first host that failed, and it may have failed for another's.
  if grep -qs 'this process ended with code 2$' "$folder"/*.log; then code=2; fi
  return "$code"
}

mkdir -p "$logs"
ready=0
for ((a = 0; ; a++)); do
  started=$SECONDS
  prepare && attempt "$a" "$@"
  code=$?
  echo "attempt $a ended with code $code; logs in $logs/attempt-$a"
  case $code in
    0) break ;;
    2) exit 2 ;;
  esac
  if ((a >= ${RESTARTS:-50})); then exit "$code"; fi
  if ((SECONDS - started > 1800)); then pause=${PAUSE:-30}; fi
  sleep "$pause" &
  wait $!
  pause=$((pause * 2 < 1800 ? pause * 2 : 1800))
done
((${KEEP:-0})) || slice delete --force --quiet
