"""Processes find each other, from nothing but variables, and end with the right exit codes."""

import dataclasses
import os
import re
import socket
import subprocess

import children
import jax
import pytest
import quick_compilation
import warm

from xlbench.parallel import cluster
from xlbench.parallel.cluster import Place
from xlbench.parallel.preemption import Interrupted
from xlbench.system import errors

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


# What these name.
FOUND = Place('gpu03:61563', 4, 2, 'found: SLURM job 123')
MPI = Place('a:1', 8, 5, 'found: Open MPI', device=1)


def with_uri(uri):
    return OPEN_MPI | {'OMPI_MCA_orte_hnp_uri': uri}


def at(place, coordinator):
    return dataclasses.replace(place, coordinator=coordinator)


@pytest.mark.parametrize(
    'environ, place',
    [
        ({}, None),
        ({'XLBENCH_PROCESSES': 'auto'}, None),
        ({'XLBENCH_COORDINATOR': '', 'XLBENCH_PROCESSES': '', 'XLBENCH_PROCESS': ''}, None),
        (OURS, Place('a:1', 4, 2, 'named by XLBENCH_COORDINATOR')),
        # A step of srun, one task a node: all GPUs of the node are its own.
        (SLURM, FOUND),
        (SLURM | {'XLBENCH_PROCESSES': 'auto'}, FOUND),
        # Another step of the same job has another port.
        (SLURM | {'SLURM_STEP_ID': '1'}, at(FOUND, 'gpu03:61660')),
        # Several tasks a node: a GPU each, unless SLURM shows each task its own.
        (
            SLURM | {'SLURM_STEP_NUM_NODES': '2', 'SLURM_LOCALID': '1'},
            dataclasses.replace(FOUND, device=1),
        ),
        (SLURM | {'SLURM_STEP_NUM_NODES': '2', 'SLURM_GPUS_PER_TASK': '1'}, FOUND),
        (SLURM | {'SLURM_STEP_NUM_TASKS': '1', 'SLURM_PROCID': '0'}, Place('', 1, 0, FOUND.source)),
        # The script that sbatch runs is no task of a step.
        ({k: v for k, v in SLURM.items() if k != 'SLURM_STEP_NODELIST'}, None),
        # Ours replace what they name, and may say that a process is alone.
        (SLURM | {'XLBENCH_COORDINATOR': '10.0.0.1:99'}, at(FOUND, '10.0.0.1:99')),
        (SLURM | OURS, Place('a:1', 4, 2, 'named by XLBENCH_COORDINATOR')),
        (SLURM | {'XLBENCH_PROCESSES': '1'}, None),
        (with_uri('1531576320.0;tcp://10.96.0.1,10.148.0.1:34911'), at(MPI, '10.96.0.1:62624')),
        (with_uri('1314521088.0;tcp6://[fe80::b9b,2620::2]:43370'), at(MPI, '[fe80::b9b]:62880')),
        # Version 5 does not say where it runs.
        (OPEN_MPI | {'XLBENCH_COORDINATOR': 'a:1'}, MPI),
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
    assert cluster.find(environ) == place


def test_ports_differ_by_job_and_are_not_given_away():
    places = [cluster.find(SLURM | {'SLURM_JOB_ID': str(job)}) for job in range(4096)]
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
    assert cluster.first_node(nodes) == first


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
        cluster.find(environ)
    assert '\n' not in str(refused.value)


@pytest.mark.parametrize('text', ['0', '-1', '1.5', 'long'])
def test_how_long_to_wait(text, monkeypatch):
    monkeypatch.setenv('XLBENCH_WAIT', text)
    with pytest.raises(errors.UserError, match=f"XLBENCH_WAIT='{text}'.*whole seconds"):
        cluster.join()


def test_alone(monkeypatch):
    for name in (*cluster.VARIABLES, cluster.WAIT):
        monkeypatch.delenv(name, raising=False)
    assert cluster.join() == 'alone'
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv('SLURM_STEP_NUM_TASKS', '1')
    monkeypatch.setenv('SLURM_PROCID', '0')
    assert cluster.join() == 'found: SLURM job 123'


@pytest.mark.parametrize('insist', [True, False])
def test_jax_finds_no_cluster(insist, monkeypatch):
    """On a machine that has libtpu, jax is asked; it must be a cluster only if the user says so."""

    def no_cluster(**options):
        assert options == {'initialization_timeout': 300, 'shutdown_timeout_seconds': 7200}
        raise ValueError('coordinator_address should be defined.')

    monkeypatch.setenv('XLBENCH_PROCESSES', 'auto' if insist else '')
    monkeypatch.setattr(cluster.importlib.util, 'find_spec', lambda name: name)
    monkeypatch.setattr(cluster.jax.distributed, 'initialize', no_cluster)
    if insist:
        with pytest.raises(errors.UserError, match=r'jax found no processes.*XLBENCH_PROCESSES=1'):
            cluster.join()
    else:
        assert cluster.join() == 'alone'
    monkeypatch.setenv('XLBENCH_PROCESSES', '1')
    monkeypatch.setattr(cluster.jax.distributed, 'initialize', None)  # Not asked.
    assert cluster.join() == 'alone'


def test_jax_finds_the_processes_of_tpus(monkeypatch):
    asked = []
    monkeypatch.setenv('XLBENCH_PROCESSES', '')
    monkeypatch.setattr(cluster.importlib.util, 'find_spec', lambda name: name)
    monkeypatch.setattr(cluster.jax.distributed, 'initialize', lambda **o: asked.append(o))
    assert cluster.join() == 'found by jax.distributed' and len(asked) == 1


def test_a_port_that_another_run_has(monkeypatch):
    """jax would end with a segmentation fault."""
    with socket.create_server(('', 0)) as other:
        port = other.getsockname()[1]
        address = f'127.0.0.1:{port}'
        for name, value in zip(cluster.VARIABLES, (address, '2', '0'), strict=True):
            monkeypatch.setenv(name, value)
        with pytest.raises(cluster.TakenPort, match=f'on port {port}.*in use.*another') as taken:
            cluster.join()
    assert taken.value.exit_code == 75


# -------------------------------------------------------------------------- how a process ends

GLOO = 'UNKNOWN: Gloo all-reduce failed: [pair.cc:538] Read error [::1]:1: Connection reset by peer'


def raising(error):
    def main(argv):
        if error:
            raise error

    return main


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    'error, code, calls, said',
    [
        (None, 0, ['shutdown'], ''),
        # Others save still: it waits for them, and the end of process 0 must not abort them.
        (Interrupted('told to end'), 75, ['meet', 'shutdown', 75], 'error: told to end\n'),
        (errors.UserError('no such thing'), 2, [2], 'error: no such thing\n'),
        # Programs that run in the main thread raise a ValueError.
        (ValueError(GLOO), 75, [75], 'error: process 0 of 1 lost another process (UNKNOWN: Gloo'),
        (jax.errors.JaxRuntimeError(GLOO), 75, [75], 'error: process 0 of 1 lost another'),
        (
            jax.errors.JaxRuntimeError('DEADLINE_EXCEEDED: Barrier timed out'),
            75, [75], 'error: process 0 of 1 lost another process (DEADLINE_EXCEEDED',
        ),
        # Orbax waits for the others in a thread, and gives up with an error of its own.
        (
            caused(TimeoutError('ended'), jax.errors.JaxRuntimeError('UNAVAILABLE: RPC failed')),
            75, [75], 'error: process 0 of 1 lost another process (UNAVAILABLE: RPC failed)',
        ),
        (ValueError('heartbeat: no such column'), 1, [1], 'Traceback'),
        (TypeError('a bug'), 1, [1], 'Traceback'),
    ],
)  # fmt: skip
def test_a_process_of_several_that_fails_ends_at_once(
    error, code, calls, said, monkeypatch, capfd
):
    called = []
    monkeypatch.setattr(jax.distributed, 'is_initialized', lambda: True)
    monkeypatch.setattr(jax.distributed, 'shutdown', lambda: called.append('shutdown'))
    monkeypatch.setattr(cluster, 'meet', lambda seconds: called.append('meet'))
    monkeypatch.setattr(cluster.os, '_exit', called.append)
    assert cluster.run_main(raising(error), []) == code
    assert called == calls
    assert capfd.readouterr().err.startswith(said)


def test_a_process_that_is_alone_raises_as_python_does():
    with pytest.raises(TypeError, match='a bug'):
        cluster.run_main(raising(TypeError('a bug')), [])


PROGRAM = """
import sys, time
from xlbench.system import errors
from xlbench.parallel import cluster

def main(argv):
    found = cluster.join()
    import jax
    from jax.experimental import multihost_utils
    index = jax.process_index()
    print(found, multihost_utils.process_allgather(index).tolist(), flush=True)
    time.sleep(2 * index)  # The one that is late at the end is waited for.

sys.exit(cluster.run_main(main, sys.argv))
"""


def test_two_processes_join_and_wait_for_each_other_at_the_end():
    address = f'127.0.0.1:{children.free_port()}'
    started = []
    for i in range(2):
        variables = dict(zip(cluster.VARIABLES, (address, '2', str(i)), strict=True))
        environ = os.environ | variables | {'XLA_FLAGS': quick_compilation.xla_flags(1)}
        child = subprocess.Popen(
            [warm.python(), '-c', PROGRAM], cwd=children.PROJECT, env=environ, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        started.append(child)
    for process in started:
        out, err = process.communicate(timeout=200)
        assert process.returncode == 0, err
        assert 'named by XLBENCH_COORDINATOR [0, 1]' in out
