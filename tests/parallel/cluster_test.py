"""Processes find each other, from nothing but variables; who does not come is named in one line."""

import concurrent.futures
import contextlib
import os
import pathlib
import re
import socket
import subprocess
import time

import partners
import pytest
import quick_compilation
import warm

from xlbench.parallel import cluster, environment, peers
from xlbench.parallel.environment import Place
from xlbench.parallel.peers import Peers
from xlbench.system import errors

PROJECT = pathlib.Path(__file__).parents[2]
OURS = {'XLBENCH_COORDINATOR': 'a:1', 'XLBENCH_PROCESSES': '4', 'XLBENCH_PROCESS': '2'}
SLURM = {
    'SLURM_JOB_ID': '123',
    'SLURM_STEP_ID': '0',
    'SLURM_STEP_NODELIST': 'gpu[03-05,09]',
    'SLURM_STEP_NUM_NODES': '4',
    'SLURM_STEP_NUM_TASKS': '4',
    'SLURM_PROCID': '2',
    'SLURM_LOCALID': '0',
}
OPEN_MPI = {
    'OMPI_COMM_WORLD_SIZE': '8',
    'OMPI_COMM_WORLD_RANK': '5',
    'OMPI_COMM_WORLD_LOCAL_RANK': '1',
    'OMPI_COMM_WORLD_LOCAL_SIZE': '4',
}
GKE_TPU = {'TPU_WORKER_HOSTNAMES': 'w-0.s,w-1.s', 'TPU_WORKER_ID': '1'}
SLICES = {'MEGASCALE_NUM_SLICES': '3', 'MEGASCALE_SLICE_ID': '2'}


@pytest.mark.parametrize(
    'environ, place',
    [
        ({}, None),
        ({'XLBENCH_PROCESSES': 'auto'}, None),
        ({'XLBENCH_COORDINATOR': '', 'XLBENCH_PROCESSES': '', 'XLBENCH_PROCESS': ''}, None),
        (OURS, Place('a:1', 4, 2, 'named by XLBENCH_COORDINATOR')),
        # A step of srun, one task a node: all GPUs of the node are its own.
        (SLURM, Place('gpu03:61563', 4, 2, 'found: SLURM job 123')),
        (SLURM | {'XLBENCH_PROCESSES': 'auto'}, Place('gpu03:61563', 4, 2, 'found: SLURM job 123')),
        # Another step of the same job has another port.
        (SLURM | {'SLURM_STEP_ID': '1'}, Place('gpu03:61660', 4, 2, 'found: SLURM job 123')),
        # Several tasks a node: a GPU each, unless SLURM shows each task its own.
        (
            SLURM | {'SLURM_STEP_NUM_NODES': '2', 'SLURM_LOCALID': '1'},
            Place('gpu03:61563', 4, 2, 'found: SLURM job 123', device=1),
        ),
        (
            SLURM | {'SLURM_STEP_NUM_NODES': '2', 'SLURM_GPUS_PER_TASK': '1'},
            Place('gpu03:61563', 4, 2, 'found: SLURM job 123'),
        ),
        (
            SLURM | {'SLURM_STEP_NUM_TASKS': '1', 'SLURM_PROCID': '0'},
            Place('', 1, 0, 'found: SLURM job 123'),
        ),
        # The script that sbatch runs is no task of a step.
        ({k: v for k, v in SLURM.items() if k != 'SLURM_STEP_NODELIST'}, None),
        # Ours replace what they name, and may say that a process is alone.
        (
            SLURM | {'XLBENCH_COORDINATOR': '10.0.0.1:99'},
            Place('10.0.0.1:99', 4, 2, 'found: SLURM job 123'),
        ),
        (SLURM | OURS, Place('a:1', 4, 2, 'named by XLBENCH_COORDINATOR')),
        (SLURM | {'XLBENCH_PROCESSES': '1'}, None),
        (
            OPEN_MPI | {'OMPI_MCA_orte_hnp_uri': '1531576320.0;tcp://10.96.0.1,10.148.0.1:34911'},
            Place('10.96.0.1:62624', 8, 5, 'found: Open MPI', device=1),
        ),
        (
            OPEN_MPI | {'OMPI_MCA_orte_hnp_uri': '1314521088.0;tcp6://[fe80::b9b,2620::2]:43370'},
            Place('[fe80::b9b]:62880', 8, 5, 'found: Open MPI', device=1),
        ),
        # Version 5 does not say where it runs.
        (
            OPEN_MPI | {'XLBENCH_COORDINATOR': 'a:1'},
            Place('a:1', 8, 5, 'found: Open MPI', device=1),
        ),
        (GKE_TPU, Place('w-0.s:8482', 2, 1, 'found: GKE TPU job')),
        (
            GKE_TPU | SLICES | {'MEGASCALE_COORDINATOR_ADDRESS': 'first.s:8080'},
            Place('first.s:8482', 6, 5, 'found: GKE TPU job'),
        ),
        (
            {'TPU_WORKER_HOSTNAMES': 'localhost', 'TPU_WORKER_ID': '0'},
            Place('', 1, 0, 'found: GKE TPU job'),
        ),
        # An indexed job of Kubernetes may be many runs: one only if it is told the rest.
        ({'JOB_COMPLETION_INDEX': '3'}, None),
        (
            {
                'JOB_COMPLETION_INDEX': '3',
                'XLBENCH_COORDINATOR': 'qg-run-0-0.qg:8476',
                'XLBENCH_PROCESSES': '4',
            },
            Place('qg-run-0-0.qg:8476', 4, 3, 'found: Kubernetes job'),
        ),
    ],
)
def test_found_in_the_environment(environ, place):
    assert environment.find(environ) == place


def test_ports_differ_by_job_and_are_not_given_away():
    places = [environment.find(SLURM | {'SLURM_JOB_ID': str(job)}) for job in range(4096)]
    numbers = {int(place.coordinator.rpartition(':')[2]) for place in places}
    assert len(numbers) == 4096 and min(numbers) > 60_999 and max(numbers) < 1 << 16


@pytest.mark.parametrize(
    'nodes, first',
    [
        ('n1', 'n1'),
        ('n1,n2', 'n1'),
        ('n[001-015]', 'n001'),
        ('n[7,9-15],m2', 'n7'),
        ('rack[2-3]-n[05,07]', 'rack2-n05'),
        ('n1,m[2-3]', 'n1'),
    ],
)
def test_first_node_of_a_list(nodes, first):
    assert environment.first_node(nodes) == first


@pytest.mark.parametrize(
    'environ, message',
    [
        (OURS | {'XLBENCH_COORDINATOR': 'a'}, 'XLBENCH_COORDINATOR=a XLBENCH_PROCESSES=4'),
        (OURS | {'XLBENCH_COORDINATOR': 'a:b'}, 'set host:port'),
        (OURS | {'XLBENCH_COORDINATOR': 'a:70000'}, 'set host:port'),
        (OURS | {'XLBENCH_PROCESS': '4'}, 'XLBENCH_PROCESS=4 do not name a process'),
        (OURS | {'XLBENCH_PROCESS': '-1'}, 'from 0'),
        (OURS | {'XLBENCH_PROCESSES': 'four'}, 'the number of processes'),
        ({'XLBENCH_PROCESSES': '4'}, 'XLBENCH_COORDINATOR= XLBENCH_PROCESSES=4 XLBENCH_PROCESS= '),
        ({'XLBENCH_PROCESS': '0'}, 'XLBENCH_PROCESSES=auto alone'),
        ({'XLBENCH_COORDINATOR': 'a:1'}, 'do not name a process'),
        (OPEN_MPI, 'XLBENCH_COORDINATOR= XLBENCH_PROCESSES=8 XLBENCH_PROCESS=5 in Open MPI do'),
    ],
)
def test_what_names_no_process_is_refused(environ, message):
    with pytest.raises(errors.UserError, match=re.escape(message)) as refused:
        environment.find(environ)
    assert '\n' not in str(refused.value)


@pytest.mark.parametrize('text', ['0', '-1', '1.5', 'long'])
def test_how_long_to_wait(text, monkeypatch):
    monkeypatch.setenv('XLBENCH_WAIT', text)
    with pytest.raises(errors.UserError, match=f"XLBENCH_WAIT='{text}'.*whole seconds"):
        cluster.join()


def test_alone(monkeypatch):
    for name in (*environment.VARIABLES, cluster.WAIT):
        monkeypatch.delenv(name, raising=False)
    assert cluster.join() == 'alone'
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv('SLURM_STEP_NUM_TASKS', '1')
    monkeypatch.setenv('SLURM_PROCID', '0')
    assert cluster.join() == 'found: SLURM job 123'


def test_insisting_where_nothing_is_found(monkeypatch):
    monkeypatch.setenv('XLBENCH_PROCESSES', 'auto')
    monkeypatch.setattr(cluster.jax.distributed, 'initialize', no_cluster)
    with pytest.raises(errors.UserError, match=r'jax found no processes.*XLBENCH_PROCESSES=1'):
        cluster.join()


def no_cluster(**options):
    """What jax says where it finds no cluster."""
    assert options == {'initialization_timeout': 300}
    raise ValueError('coordinator_address should be defined.')


SLICE = {
    'agent-worker-number': '2',
    'worker-network-endpoints': 'unknown:unknown:10.0.0.5,unknown:unknown:10.0.0.6,a:b:10.0.0.7',
    'tpu-env': "ACCELERATOR_TYPE: 'v5litepod-12'\nMEGASCALE_NUM_SLICES: '1'\n",
}


@pytest.mark.parametrize(
    'metadata, place',
    [
        (SLICE, Place('10.0.0.5:8482', 3, 2, 'found: TPU VM')),
        (
            SLICE | {'worker-network-endpoints': 'w-0,w-1,w-2,w-3', 'tpu-env': ''},
            Place('w-0:8482', 4, 2, 'found: TPU VM'),
        ),
        (
            {'agent-worker-number': '0', 'worker-network-endpoints': 'a:b:10.0.0.5'},
            Place('', 1, 0, 'found: TPU VM'),
        ),
        (SLICE | {'tpu-env': "MEGASCALE_NUM_SLICES: '2'"}, None),  # That is for jax to find.
        ({}, None),
    ],
)
def test_found_in_the_metadata_of_a_tpu_vm(metadata, place, monkeypatch):
    def answer(request):
        root, _, key = request.path.rpartition('/')
        known = root == '/computeMetadata/v1/instance/attributes' and key in metadata
        status = 200 if known and request.headers['Metadata-Flavor'] else 404
        request.send(metadata.get(key, 'nothing').encode(), status)

    monkeypatch.setattr(environment.importlib.util, 'find_spec', lambda name: name)
    with partners.serving(answer) as address:
        address = address.removeprefix('http://')
        assert environment.find({'GCE_METADATA_IP': address}) == place
        assert environment.find({'GCE_METADATA_IP': address, 'TPU_SKIP_MDS_QUERY': '1'}) is None
    assert environment.find({'GCE_METADATA_IP': address}) is None  # No such server.


# ------------------------------------------------------------------------------------ the roll call


def free_port() -> int:
    with socket.create_server(('', 0)) as server:
        return server.getsockname()[1]


@pytest.fixture(autouse=True)
def without_atexit(monkeypatch):
    monkeypatch.setattr(peers.atexit, 'register', lambda *_: None)


def roll(port: int, members: list[tuple[int, int]], seconds: float) -> list[str]:
    """What each of the (number, count of processes) hears; '' if all is well."""

    all_peers = [Peers(*member) for member in members]

    def one(member):
        try:
            member.call_roll(f'127.0.0.1:{port}', seconds)
            assert sorted(member._lines) == ([0] if member.index else [*range(1, member.count)])
        except cluster.Incomplete as error:
            assert error.exit_code == cluster.START_AGAIN == 75
            return str(error)
        return ''

    with concurrent.futures.ThreadPoolExecutor(len(members)) as pool:
        heard = list(pool.map(one, all_peers))
    for member in all_peers:  # Or they would end this process when they lose each other.
        member._loop.call_soon_threadsafe(member._loop.stop)
        member._thread.join()
    return heard


def test_all_are_there():
    assert roll(free_port(), [(i, 5) for i in (3, 0, 4, 1, 2)], 20) == [''] * 5


def test_all_who_came_hear_who_did_not():
    port = free_port()
    heard = roll(port, [(0, 5), (2, 5), (4, 5)], 1)
    assert len(set(heard)) == 1
    assert heard[0].startswith(f'processes 1, 3 of 5 did not come to 127.0.0.1:{port} in time: see')
    assert heard[0].endswith('exit code 75') and '\n' not in heard[0]


def test_process_0_is_missing():
    port = free_port()
    (heard,) = roll(port, [(1, 2)], 1)
    assert heard.startswith(
        f'process 1 of 2 waited 1 s for process 0 at 127.0.0.1:{port} (Connection refused), which '
    )


def test_a_number_that_was_given_twice():
    heard = roll(free_port(), [(0, 3), (1, 3), (1, 3)], 5)
    assert heard == ['two processes say that they are process 1 of 3; exit code 75'] * 3


def test_another_number_of_processes():
    heard = roll(free_port(), [(0, 2), (1, 3)], 1)
    assert heard[0].startswith('process 1 of 2 did not come')
    assert heard[1] == 'process 0 knows of 2 processes, not of 3; exit code 75'


def test_a_port_that_another_run_has():
    with socket.create_server(('', 0)) as other:
        port = other.getsockname()[1]
        (heard,) = roll(port, [(0, 2)], 1)
    assert heard.startswith(f'process 0 cannot listen on port {port} (Address already in use)')


def connect(port: int) -> socket.socket:
    """A connection to a process 0 that may not listen yet."""
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(('127.0.0.1', port))
        time.sleep(0.01)


def test_strangers_and_those_who_leave_do_not_count():
    port = free_port()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answer = pool.submit(roll, port, [(0, 4), (2, 4)], 3)
        for text in (b'GET / HTTP/1.1\r\n\r\n', b'', b'hello 4 1\n'):
            with connect(port) as stranger:
                stranger.sendall(text)
        assert answer.result()[0].startswith('processes 1, 3 of 4 did not come')


# ---------------------------------------------------------------------------------- real processes

JOIN = """
import sys
from xlbench.system import errors; from xlbench.parallel import cluster as processes
try:
    found = processes.join()
except errors.UserError as error:
    print(f'error: {error}', file=sys.stderr)
    sys.exit(getattr(error, 'exit_code', 2))
import jax
from jax.experimental import multihost_utils
print(found, multihost_utils.process_allgather(jax.process_index()).tolist())
"""


def start(index: int, count: int, port: int, wait: int) -> subprocess.Popen:
    variables = (f'127.0.0.1:{port}', str(count), str(index))
    settings = dict(zip(environment.VARIABLES, variables, strict=True), XLBENCH_WAIT=str(wait))
    return subprocess.Popen(
        [warm.python(), '-c', JOIN],
        cwd=PROJECT,
        env=os.environ | settings | {'XLA_FLAGS': quick_compilation.xla_flags(1)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_processes_start():
    port = free_port()
    started = [start(i, 2, port, 60) for i in range(2)]
    for process in started:
        out, err = process.communicate(timeout=90)
        assert process.returncode == 0, err
        assert 'named by XLBENCH_COORDINATOR [0, 1]' in out


def test_a_process_that_never_starts_is_named():
    port = free_port()
    started = [start(i, 3, port, 6) for i in (0, 1)]
    for process in started:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 75
        assert out == '' and err.count('\n') == 1
        assert err.startswith(f'error: process 2 of 3 did not come to 127.0.0.1:{port}')
