"""The scripts that start runs: local.sh for real, the clusters' with commands that stand in."""

import os
import pathlib
import re
import shutil
import signal
import string
import subprocess
import sys
import time

import children
import pytest
import quick_compilation
import tiny
import yaml

from xlbench.parallel import cluster as cluster_lib

pytestmark = pytest.mark.nightly

PROJECT = pathlib.Path(__file__).parents[2]
LAUNCH = PROJECT / 'launch'
SLURM = PROJECT / 'tests' / 'slurm'
SCRIPTS = [LAUNCH / 'local.sh', LAUNCH / 'slurm.sbatch', LAUNCH / 'tpu_vm.sh', *SLURM.glob('*.sh')]


@pytest.mark.parametrize('path', SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_sound(path):
    text = path.read_text(encoding='utf-8')
    assert text.startswith('#!/usr/bin/env bash\n# ') and os.access(path, os.X_OK)
    assert re.search(r'^set -e?uo pipefail$', text, re.MULTILINE)
    assert '\t' not in text and max(map(len, text.splitlines())) <= 100
    checks = [['bash', '-n']] + [['shellcheck']] * bool(shutil.which('shellcheck'))
    for check in checks:
        subprocess.run([*check, str(path)], check=True)


@pytest.mark.parametrize('name', ['local.sh', 'slurm.sbatch', 'tpu_vm.sh'])
def test_what_may_be_set_is_said_at_the_top(name):
    text = (LAUNCH / name).read_text(encoding='utf-8')
    top, _, rest = text.partition('\nset -uo pipefail\n')
    names = set(re.findall(r'\$\{([A-Z_]+):[-?]', rest))
    assert names and {n for n in names if not n.startswith('SLURM_') and n not in top} == set()


# ---------------------------------------------------------------------------------------- local.sh


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Writes a module that local.sh or slurm.sbatch runs in place of xlbench.train."""

    def write(text):
        (tmp_path / 'program.py').write_text(text, encoding='utf-8')

    for name in (*cluster_lib.VARIABLES, cluster_lib.WAIT.variable):
        monkeypatch.delenv(name, raising=False)
    settings = {'MODULE': 'program', 'PYTHON': sys.executable}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setenv(f'XLBENCH_{name}', value)
    monkeypatch.setenv('PYTHONPATH', f'{tmp_path}:{PROJECT}')
    return write


def local(*arguments, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [LAUNCH / 'local.sh', *arguments], capture_output=True, text=True, timeout=60, **options
    )


def test_local_names_the_processes_and_keeps_logs(program, tmp_path, monkeypatch):
    program("""
import os, sys
names = ('COORDINATOR', 'PROCESSES', 'PROCESS')
address, *rest = (os.environ[f'XLBENCH_{name}'] for name in names)
# In one piece, or the lines of the two may mix.
sys.stdout.write(f'{address.partition(":")[0]} {rest} {sys.argv[1:]}\\n')
""")
    monkeypatch.setenv('LOGS', str(tmp_path / 'logs'))
    run = local('2', '--config=a b', '--seed=1')
    assert run.returncode == 0, run.stderr
    for i in range(2):
        line = f"127.0.0.1 ['2', '{i}'] ['--config=a b', '--seed=1']"
        assert line in run.stdout
        assert line in (tmp_path / 'logs' / 'attempt-0' / f'process-{i}.log').read_text()


AGAIN = 'starting again, 1 of 1'
LATE, NEVER = 0.6, 100  # Seconds.


@pytest.mark.parametrize(
    'first, code, said, absent',
    [
        # {process: (its code, after so many seconds)}; in a second attempt all end with 0.
        ([(75, 0), (75, LATE)], 0, ['process 0 ended with code 75', 'process 1 ended', AGAIN], ''),
        ([(137, 0), (75, LATE)], 0, ['process 0 was killed (137), perhaps by the', AGAIN], ''),
        ([(75, LATE), (134, 0)], 0, ['process 1 was aborted (134): jax missed', AGAIN], ''),
        # The others hang: they are killed, and not named.
        ([(0, NEVER), (139, 0)], 0, ['process 1 was ended by signal SEGV (139)', AGAIN], 'ss 0'),
        # A mistake of the user is not tried again, whenever it is said.
        ([(75, 0), (2, LATE), (0, NEVER)], 2, ['process 1 ended with code 2'], AGAIN),
        ([(3, 0), (75, LATE)], 3, ['process 0 ended with code 3'], AGAIN),
    ],
)
def test_local_names_lost_processes_and_starts_again(
    program, tmp_path, monkeypatch, first, code, said, absent
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('RESTARTS', '1')
    program(f"""
import os, pathlib, signal, sys, time
i = int(os.environ['XLBENCH_PROCESS'])
if os.path.exists(f'was-here-{{i}}'):
    sys.exit(0)
pathlib.Path(f'was-here-{{i}}').touch()
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # As jax takes it.
code, seconds = {first!r}[i]
time.sleep(seconds)
if code > 128:
    os.kill(os.getpid(), code - 128)
sys.exit(code)
""")
    run = local(str(len(first)))
    assert run.returncode == code, run.stderr
    assert all(text in run.stderr for text in said), run.stderr
    assert not absent or absent not in run.stderr


def test_local_has_a_limit_of_restarts(program, monkeypatch):
    program('raise SystemExit(75)')
    for restarts in ('', '2'):
        monkeypatch.setenv('RESTARTS', restarts)
        run = local('1')
        assert run.returncode == 75
        assert run.stderr.count('starting again') == int(restarts or 0)


# Saves when it is told to end, which takes a while.
SAVING = """
import os, pathlib, signal, sys, time
i = os.environ['XLBENCH_PROCESS']
def save(*_):
    time.sleep(1)
    pathlib.Path(f'saved-{i}').touch()
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
pathlib.Path(f'pids-{i}').write_text(f'{os.getpid()} {os.getppid()}\\n')
time.sleep(100)
"""


def test_local_hands_on_term_and_waits(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('RESTARTS', '5')
    program(SAVING)
    process = subprocess.Popen([LAUNCH / 'local.sh', '2'])
    wait_for(lambda: len(list(tmp_path.glob('pids-*'))) == 2)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 75  # Not started again: it was told to end.
    assert len(list(tmp_path.glob('saved-*'))) == 2


@pytest.mark.parametrize('count', [[], ['0'], ['two'], ['-1']])
def test_local_wants_a_number(count):
    run = local(*count)
    assert run.returncode == 2
    assert run.stderr == 'error: how many processes? usage: launch/local.sh N --config=...\n'


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, 'waited in vain'
        time.sleep(0.05)


# ------------------------------------------------------------------------------------ slurm.sbatch

# Two tasks on this machine, as srun would start them; what it is told is kept.
SRUN = r"""
echo "srun $1 $2 $3" >> told
while [[ $1 == --* ]]; do
  case $1 in --output=*) output=${1#--output=} ;; esac
  shift
done
for i in 0 1; do
  SLURM_PROCID=$i "$@" > "${output/\%t/$i}" 2>&1 &
  pids+=($!)
done
trap 'exit 143' TERM
code=0
for pid in "${pids[@]}"; do
  wait "$pid"; result=$?
  ((result > code)) && code=$result
done
exit $code
"""


def put_on_path(folder, monkeypatch, **commands: str) -> None:
    """Scripts that stand in for programs of these names."""
    folder.mkdir()
    for name, text in commands.items():
        path = folder / name
        path.write_text(f'#!/usr/bin/env bash\n{text}\n', encoding='utf-8')
        path.chmod(0o755)
    monkeypatch.setenv('PATH', f'{folder}:{os.environ["PATH"]}')


@pytest.fixture
def cluster(tmp_path, monkeypatch, program):
    """A folder with commands of SLURM's on the PATH; `told` in it lists what they were told."""
    put_on_path(
        tmp_path / 'bin', monkeypatch, srun=SRUN, squeue='cat state',
        scontrol='echo "scontrol $*" >> told',
        scancel='echo "scancel $*" >> told; kill $(cat pids-*)',
    )  # fmt: skip
    (tmp_path / 'state').write_text('RUNNING\n')
    monkeypatch.chdir(tmp_path)
    environ = dict(SLURM_JOB_ID='7', SLURM_NTASKS='2', SLURMD_NODENAME='node1', XLBENCH_GRACE='2')
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def submit(**environ) -> tuple[int, str, list[str]]:
    """(exit code, output, commands that were given) of one attempt of the job."""
    pathlib.Path('told').unlink(missing_ok=True)
    run = subprocess.run(
        ['bash', LAUNCH / 'slurm.sbatch', '--config=a b'], env=os.environ | environ, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
    )  # fmt: skip
    return run.returncode, run.stdout, pathlib.Path('told').read_text().splitlines()


def ends_with(*codes: int | str) -> str:
    """A program whose process i ends with the i-th code, one after the other."""
    return f"""
import os, signal, sys, time
i = int(os.environ['SLURM_PROCID'])
print('process', i, sys.argv[1:], flush=True)
names = ('COORDINATOR', 'PROCESSES', 'PROCESS')
print(*(os.environ[f'XLBENCH_{{name}}'] for name in names), flush=True)
time.sleep(i / 2)
code = {codes!r}[i]
if code >= 128:
    os.kill(os.getpid(), code - 128)
sys.exit(code)
"""


def test_slurm_a_finished_run(cluster, program):
    program(ends_with(0, 0))
    code, _, (told,) = submit()
    assert code == 0
    assert told.startswith('srun --kill-on-bad-exit=1 --wait=0 --output=slurm-logs/7/attempt-0/%t')
    for i in range(2):
        log = (cluster / 'slurm-logs' / '7' / 'attempt-0' / f'{i}.log').read_text()
        assert log == f"process {i} ['--config=a b']\nnode1:61447 2 {i}\n"


@pytest.mark.parametrize('codes', [(75, 75), (75, 0), (137, 143), (0, 134), (1, 143)])
def test_slurm_goes_back_into_the_queue(cluster, program, codes):
    program(ends_with(*codes))
    code, output, told = submit(SLURM_RESTART_COUNT='3', XLBENCH_RESTARTS='4')
    assert told[1:] == ['scontrol requeue 7']
    assert code == next(code for code in codes if code)
    assert 'back into the queue; restart 4 of 4' in output
    assert (cluster / 'slurm-logs' / '7' / 'attempt-3' / '1.log').exists()


@pytest.mark.parametrize(
    'codes, environ, code, said',
    [
        ((2, 143), {}, 2, 'process 0 ended with code 2'),
        ((75, 2), {}, 2, 'process 1 ended with code 2'),  # A mistake of the user, said later.
        ((1, 0), {'SLURM_NTASKS': '1'}, 1, 'process 0 ended with code 1'),  # It was alone.
        (
            (75, 75), {'SLURM_RESTART_COUNT': '10'},
            75, 'not started again after 10 restarts; XLBENCH_RESTARTS allows no more',
        ),
    ],
)  # fmt: skip
def test_slurm_stops(cluster, program, codes, environ, code, said):
    program(ends_with(*codes))
    ended, output, told = submit(**environ)
    assert (ended, len(told)) == (code, 1) and said in output


@pytest.mark.parametrize('state', ['COMPLETING\n', ''])
def test_slurm_leaves_a_cancelled_job_alone(cluster, program, state):
    program(ends_with(75, 75))
    (cluster / 'state').write_text(state)
    code, output, told = submit()
    assert (code, len(told)) == (75, 1)
    assert f'the job is {state.strip() or "gone"}: not started again from here' in output


def test_slurm_hands_on_term_and_waits_for_the_saving(cluster, program):
    program(SAVING)
    process = subprocess.Popen(['bash', LAUNCH / 'slurm.sbatch'], stdout=subprocess.DEVNULL)
    wait_for(lambda: all((cluster / f'pids-{i}').exists() for i in range(2)))
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 75
    assert (cluster / 'saved-0').exists() and (cluster / 'saved-1').exists()
    told = (cluster / 'told').read_text().splitlines()[1:]
    assert told == ['scancel --quiet --signal=TERM 7', 'scontrol requeue 7']


real_slurm = pytest.mark.skipif(
    not os.environ.get('XLBENCH_TEST_SLURM'),
    reason='starts a SLURM: needs slurmctld, slurmd, munge and root; set XLBENCH_TEST_SLURM=1',
)


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A SLURM of this machine, in whose folder the test works."""
    monkeypatch.chdir(tmp_path)
    started = subprocess.run(
        [SLURM / 'start.sh', tmp_path / 'slurm'], stdout=subprocess.PIPE, text=True, check=True
    )
    monkeypatch.setenv('SLURM_CONF', started.stdout.strip())
    yield tmp_path
    subprocess.run([SLURM / 'stop.sh', tmp_path / 'slurm'], check=True)


def submit_two(*arguments: str) -> str:
    """Submits a job of two processes; its number."""
    command = ['sbatch', '--parsable', '--ntasks-per-node=2', LAUNCH / 'slurm.sbatch', *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


@real_slurm
@pytest.mark.parametrize('told', ['scontrol requeue', 'scancel --batch --signal=TERM'])
def test_slurm_trains_on_after_a_requeue(slurm, tiny_root, monkeypatch, told):
    """The job ends with the very scores of one that nobody disturbed."""
    for name in (*cluster_lib.VARIABLES, cluster_lib.WAIT.variable):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('XLBENCH_PYTHON', sys.executable)
    monkeypatch.setenv('PYTHONPATH', str(PROJECT))
    monkeypatch.setenv('XLA_FLAGS', quick_compilation.xla_flags(1))
    config = tiny.brief_config(tiny_root, checkpoints__every=20, evals__dev__every=100)
    config.stages.stage1.num_steps = 200
    undisturbed = submit_two(*children.flags(slurm / 'undisturbed', config))
    wait_for(lambda: state_of(undisturbed) == 'COMPLETED', seconds=400)
    job = submit_two(*children.flags(slurm / 'disturbed', config))
    progress = slurm / 'disturbed' / 'run' / 'metrics.jsonl'
    wait_for(lambda: read(progress).count('"train"') > 50, seconds=400)
    subprocess.run([*told.split(), job], check=True)
    wait_for(lambda: state_of(job) == 'COMPLETED', seconds=400)
    log = read(slurm / 'slurm-logs' / job / 'attempt-1' / '0.log')
    assert 'process 0 of 2 (named by XLBENCH_COORDINATOR)' in log and 'resumed at step' in log
    children.same_run(slurm / 'undisturbed' / 'run', slurm / 'disturbed' / 'run')


def read(path: pathlib.Path) -> str:
    return path.read_text() if path.exists() else ''


def state_of(job: str) -> str:
    command = ['scontrol', 'show', 'job', job]
    shown = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(r'JobState=(\w+)', shown)[1]


# --------------------------------------------------------------------------------- gke_jobset.yaml


def jobset() -> tuple[str, dict, dict]:
    """(its comment, the values of its names, what kubectl would get)."""
    text = (LAUNCH / 'gke_jobset.yaml').read_text(encoding='utf-8')
    comment = text.partition('apiVersion')[0]
    values = dict(
        NAME='qg', IMAGE='example.org/xlbench:1', NODES='4', DEVICE='google.com/tpu', DEVICES='8',
        VOLUME='claim', RESTARTS='20',
        ARGUMENTS='--config=configs/mtg_mt5.py:base --workdir=/runs/qg',
    )  # fmt: skip
    listed = re.search(r"envsubst '(.*)'", comment)[1].split()
    assert listed == [f'${name}' for name in values]
    assert all(f'#   {name} ' in comment for name in values)

    class Envsubst(string.Template):  # Leaves $logs, $JOB_COMPLETION_INDEX and $(COORDINATOR).
        pattern = r"""
            \$(?:(?P<escaped>\b\B)|(?P<named>\b\B)|\{(?P<braced>[A-Z]+)\}|(?P<invalid>\b\B))"""

    return comment, values, yaml.safe_load(Envsubst(text).substitute(values))


def test_jobset_runs_one_process_a_node():
    _, values, document = jobset()
    (run,) = document['spec']['replicatedJobs']
    job = run['template']['spec']
    assert job['parallelism'] == job['completions'] == int(values['NODES'])
    (container,) = job['template']['spec']['containers']
    assert container['resources'] == {'limits': {'google.com/tpu': '8'}}
    environ = {item['name']: item.get('value') or item['valueFrom'] for item in container['env']}
    for name, field in (
        ('COORDINATOR', 'jobset.sigs.k8s.io/coordinator'),
        ('XLBENCH_PROCESS', 'batch.kubernetes.io/job-completion-index'),
    ):
        assert environ[name] == {'fieldRef': {'fieldPath': f"metadata.annotations['{field}']"}}
    assert environ['XLBENCH_COORDINATOR'] == '$(COORDINATOR):8476'
    assert environ['XLBENCH_PROCESSES'] == values['NODES']
    assert container['ports'] == [{'containerPort': 8476}]


def test_jobset_starts_again_unless_it_was_a_mistake():
    _, _, document = jobset()
    policy = document['spec']['failurePolicy']
    assert policy['maxRestarts'] == 20
    assert policy['rules'][0]['action'] == 'FailJobSet'
    job = document['spec']['replicatedJobs'][0]['template']['spec']
    assert job['backoffLimit'] == 0 and job['template']['spec']['restartPolicy'] == 'Never'
    assert job['template']['spec']['terminationGracePeriodSeconds'] == 120
    (rule,) = job['podFailurePolicy']['rules']
    assert rule['onExitCodes'] == {'containerName': 'train', 'operator': 'In', 'values': [2]}


def test_jobset_command_keeps_logs_and_hands_on_term(tmp_path, monkeypatch):
    """The container's command, with a program in place of python, in a folder in place of /runs."""
    _, _, document = jobset()
    pod = document['spec']['replicatedJobs'][0]['template']['spec']['template']['spec']
    command = [part.replace('/runs/', f'{tmp_path}/') for part in pod['containers'][0]['command']]
    text = 'trap "echo saved; exit 75" TERM\necho "$@"; sleep 100 & wait $!'
    put_on_path(tmp_path / 'bin', monkeypatch, python=text)
    environ = os.environ | dict(NAME='qg', ATTEMPT='2', JOB_COMPLETION_INDEX='1')
    environ['ARGUMENTS'] = '--config=a --workdir=b'
    log = tmp_path / 'logs' / 'qg' / 'attempt-2' / 'process-1.log'
    process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL)
    wait_for(lambda: '--workdir=b' in read(log))
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 75
    wait_for(lambda: read(log) == '-m xlbench.train --config=a --workdir=b\nsaved\n', 10)


# --------------------------------------------------------------------------------------- tpu_vm.sh

# Two hosts, each a folder of this machine; a queue that gives a slice when asked a second time.
GCLOUD = r"""
echo "$1 $2 $3 $4" >> told
state=$(cat state 2> /dev/null)
for argument in "$@"; do
  case $argument in
    --command=*) command=${argument#--command=} ;;
    --output-directory=*) output=${argument#--output-directory=} ;;
  esac
done
case "$3 $4" in
  'queued-resources describe')
    echo "$state"
    if [ "$state" = WAITING_FOR_RESOURCES ]; then echo ACTIVE > state; fi ;;
  'queued-resources create') echo WAITING_FOR_RESOURCES > state; printf '%s\n' "$@" >> created ;;
  'queued-resources delete') rm state ;;
  'tpu-vm scp') for i in 0 1; do mkdir -p "host-$i"; cp "$5" "host-$i/"; done ;;
  'tpu-vm ssh')
    result=0
    for i in 0 1; do
      (export HOST=$i; cd "host-$i" && bash -c "$command") > "${output:-.}/$i.log" 2>&1 &
      pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || result=$?; done
    exit $result ;;
esac
"""


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    """Runs tpu_vm.sh in a copy of the project's outline; `told` lists the commands of gcloud."""
    for name in ('xlbench', 'tasks', 'configs'):
        (tmp_path / name).mkdir()
    for name in ('pyproject.toml', 'setup.py', 'requirements.lock', 'README.md', 'LICENSE'):
        (tmp_path / name).touch()
    put_on_path(tmp_path / 'bin', monkeypatch, gcloud=GCLOUD)
    monkeypatch.chdir(tmp_path)
    # A python of the hosts: its answers are in the folder `answers`.
    python = r"""
attempt=$(ls -d ../xlbench-* | wc -l)
echo "$@ $XLBENCH_DATA"
source "../../answers/$attempt-$HOST"
"""
    (tmp_path / 'python').write_text(f'#!/usr/bin/env bash\n{python}', encoding='utf-8')
    setup = 'mkdir -p .venv/bin && cp ../../python .venv/bin/python && chmod +x .venv/bin/python'
    settings = dict(NAME='qg', ZONE='here', TYPE='v5litepod-8', PAUSE='0', SETUP=setup)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)

    def start(answers, **environ):
        (tmp_path / 'answers').mkdir()
        for name, text in answers.items():
            (tmp_path / 'answers' / name).write_text(text, encoding='utf-8')
        return subprocess.Popen(
            [LAUNCH / 'tpu_vm.sh', '--config=a b'], env=os.environ | environ, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    return start


def test_tpu_starts_again_on_a_new_slice_until_it_is_finished(cloud, tmp_path):
    process = cloud(
        {  # First the slice is taken away.
            '1-0': 'exit 134', '1-1': 'echo SUSPENDED > ../../state; kill -KILL $$',
            '2-0': 'exit 75', '2-1': 'exit 75', '3-0': 'exit 0', '3-1': 'exit 0',
        }, SPOT='1',
    )  # fmt: skip
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 0, output
    told = (tmp_path / 'told').read_text().splitlines()
    calls = [' '.join(line.split()[2:]) for line in told if 'describe' not in line]
    new = ['queued-resources create', 'tpu-vm scp', 'tpu-vm ssh', 'tpu-vm ssh']
    delete = 'queued-resources delete'
    assert calls == [*new, delete, *new, 'tpu-vm ssh', delete]
    assert '--spot' in (tmp_path / 'created').read_text().splitlines()
    log = (tmp_path / 'tpu-logs' / 'qg' / 'attempt-2' / '1.log').read_text()
    assert log == '-m xlbench.train --config=a b /runs/data\nthis process ended with code 0\n'


@pytest.mark.parametrize(
    'answers, environ, code, attempts',
    [
        ({'1-0': 'exit 143', '1-1': 'exit 2'}, {}, 2, 1),  # A mistake of the user.
        ({f'{a}-{i}': 'exit 75' for a in (1, 2) for i in (0, 1)}, {'RESTARTS': '1'}, 75, 2),
    ],
)
def test_tpu_stops_and_keeps_the_slice(cloud, tmp_path, answers, environ, code, attempts):
    process = cloud(answers, **environ)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == code and output.count(f'ended with code {code}') == attempts
    assert 'delete' not in (tmp_path / 'told').read_text()


def test_tpu_hands_on_term_and_keeps_the_slice(cloud, tmp_path):
    answer = 'trap "touch saved; exit 75" TERM; touch ready; sleep 100 & wait $!'
    process = cloud({'1-0': answer, '1-1': answer})
    wait_for(lambda: len(list(tmp_path.glob('host-*/xlbench/ready'))) == 2)
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=30)[0]
    assert process.returncode == 143 and 'the slice is left' in output
    assert len(list(tmp_path.glob('host-*/xlbench/saved'))) == 2
    assert 'delete' not in (tmp_path / 'told').read_text()


# ------------------------------------------------------------------------------------ Containerfile


def test_container_takes_files_that_exist():
    text = (LAUNCH / 'Containerfile').read_text(encoding='utf-8')
    steps = re.sub(r'\\\n', ' ', re.sub(r'^#.*\n', '', text, flags=re.MULTILINE)).splitlines()
    words = {'ARG', 'FROM', 'ENV', 'WORKDIR', 'COPY', 'RUN', 'ENTRYPOINT'}
    assert {step.split()[0] for step in steps if step} == words
    for step in steps:
        if step.startswith('COPY '):
            assert all((PROJECT / name).exists() for name in step.split()[1:-1]), step
        if step.startswith('RUN '):
            subprocess.run(['sh', '-n'], input=step.removeprefix('RUN '), text=True, check=True)
    project = (PROJECT / 'pyproject.toml').read_text(encoding='utf-8')
    for accelerator in ('cuda', 'tpu'):
        (extra,) = re.findall(rf'{accelerator}\) extra=(\w+)', text)
        assert f'{accelerator} = ["jax[{extra}]"]' in project
