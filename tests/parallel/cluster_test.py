"""Processes find each other, from nothing but variables, and end with the right exit codes."""

import os
import re
import socket
import subprocess

import children
import jax
import pytest
import quick_compilation
import warm

from xlbench import predict
from xlbench.parallel import cluster
from xlbench.parallel.preemption import Interrupted
from xlbench.system import errors

OURS = {'XLBENCH_COORDINATOR': 'a:1', 'XLBENCH_PROCESSES': '4', 'XLBENCH_PROCESS': '2'}


def name_processes(monkeypatch, **environ):
    for name in (*cluster.VARIABLES, cluster.WAIT.variable):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)


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
    ],
)
def test_what_names_no_process_is_refused(environ, message, monkeypatch):
    name_processes(monkeypatch, **environ)
    with pytest.raises(errors.UserError, match=re.escape(message)) as refused:
        cluster.join()
    assert '\n' not in str(refused.value)


@pytest.mark.parametrize('text', ['0', '-1', '1.5', 'long'])
def test_how_long_to_wait(text, monkeypatch):
    monkeypatch.setenv('XLBENCH_WAIT', text)
    with pytest.raises(errors.UserError, match=rf"^XLBENCH_WAIT={text} is not a whole number"):
        cluster.join()


@pytest.mark.parametrize(
    'environ', [{}, {'XLBENCH_PROCESSES': '1'}, OURS | {'XLBENCH_PROCESSES': '1'}]
)
def test_alone(environ, monkeypatch):
    name_processes(monkeypatch, SLURM_STEP_NUM_TASKS='1', **environ)
    assert cluster.join() == 'alone'


def test_a_program_of_one_process_refuses_several(monkeypatch):
    for environ in (OURS, {'SLURM_STEP_NUM_TASKS': '2'}):
        name_processes(monkeypatch, **environ)
        with pytest.raises(errors.UserError, match=r'one process.*here are several'):
            predict.main(['predict', 'RUNS/a'])
    name_processes(monkeypatch, SLURM_STEP_NUM_TASKS='2', XLBENCH_PROCESSES='1')
    assert not cluster.is_one_of_several()


@pytest.mark.parametrize('name', ['SLURM_STEP_NUM_TASKS', 'OMPI_COMM_WORLD_SIZE'])
def test_jax_finds_the_processes_of_srun_and_mpirun(name, monkeypatch):
    asked = []
    monkeypatch.setattr(cluster.jax.distributed, 'initialize', lambda *a, **o: asked.append((a, o)))
    name_processes(monkeypatch, **{name: '4'})
    assert cluster.join() == 'found by jax.distributed'
    name_processes(monkeypatch, **OURS, **{name: '4'})  # Ours go first.
    assert cluster.join() == 'named by XLBENCH_COORDINATOR'
    options = {'initialization_timeout': 300, 'shutdown_timeout_seconds': 7200}
    named = options | {'cluster_detection_method': 'deactivate'}
    assert asked == [((), options), (('a:1', 4, 2), named)]


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
