#!/usr/bin/env bash
# Starts a SLURM of one machine, for trying launch/slurm.sbatch; needs root, in a container or on a
# machine of its own, and Debian's packages:
#
#   apt-get install --no-install-recommends slurmctld slurmd slurm-client munge
#   export SLURM_CONF=$(tests/slurm/start.sh DIR) && sinfo
#   tests/slurm/stop.sh DIR
#
# All its files, ports and logs are its own, in DIR.
set -euo pipefail
dir=$(mkdir -p "${1:?usage: start.sh DIR}" && cd "$1" && pwd)
mkdir -p "$dir/state" "$dir/spool" "$dir/munge"
chmod 0755 "$dir"
chmod 0700 "$dir/munge"
name=$(hostname -s)
port=$((20000 + RANDOM % 10000))
dd if=/dev/urandom of="$dir/munge/key" bs=1024 count=1 2>/dev/null
chmod 0400 "$dir/munge/key"
munged --force --socket="$dir/munge.socket" --key-file="$dir/munge/key" \
  --log-file="$dir/munge/log" --pid-file="$dir/munge/pid" --seed-file="$dir/munge/seed"
cat > "$dir/slurm.conf" <<CONF
ClusterName=one
SlurmctldHost=$name(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket,cred_expire=5
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SlurmdParameters=config_overrides
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
KillWait=10
MinJobAge=300
SchedulerParameters=sched_min_interval=0,sched_interval=1,bf_interval=1
BatchStartTimeout=10
OverTimeLimit=0
NodeName=$name NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=$name Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
CONF
slurmctld -f "$dir/slurm.conf"
slurmd -f "$dir/slurm.conf" -N "$name"
for _ in $(seq 50); do
  if SLURM_CONF=$dir/slurm.conf sinfo --noheader --format=%T 2>/dev/null | grep -q idle; then
    echo "$dir/slurm.conf"
    exit 0
  fi
  sleep 0.2
done
echo "SLURM did not start; see $dir/slurmctld.log and $dir/slurmd.log" >&2
exit 1
