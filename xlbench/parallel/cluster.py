"""Joins the processes of one run through jax.distributed, and ends them with the right exit code.

One process on one machine needs nothing. Several are found, in this order, by

  XLBENCH_COORDINATOR  host:port of process 0
  XLBENCH_PROCESSES    how many there are; 1: this one is alone, whatever else is set
  XLBENCH_PROCESS      the number of this one, from 0

which launch/local.sh sets; by the variables of a SLURM step or of Open MPI, of which the three
above replace those that they name; in an indexed job of Kubernetes by the first two, the number
being the job's; on TPUs by jax. With XLBENCH_PROCESSES=auto it is an error if nothing is found;
otherwise this is a run of one process. XLBENCH_WAIT is the number of seconds that the processes
wait for each other, 300 by default. A process that is lost breaks the connections of the others, or
is missed by jax after 100 seconds; a run that hangs ends after XLBENCH_HANG seconds
(xlbench/parallel/watchdog.py). docs/devices.md has a table of these events.

Exit codes, which the scripts in launch/ act on:

  0   finished
  2   a mistake of the user; the same command would fail again
  75  start me again (START_AGAIN): nothing is wrong with the command, and nothing is lost
  130 Ctrl-C, where there is nothing to save; training and sweeps save, and end with 75
  134 jax has ended this process, because another one was lost or did not come: as 75
"""

import contextlib
import dataclasses
import importlib.util
import itertools
import os
import re
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence

import jax

from xlbench.system import errors
from xlbench.system.errors import UserError

START_AGAIN = 75  # EX_TEMPFAIL of sysexits.h.
# Compiled programs are kept here, so that the same run starts or resumes without compiling anew.
COMPILED = '~/.cache/xlbench/compiled'
SHORTEST = 'jax_persistent_cache_min_compile_time_secs'
VARIABLES = ('XLBENCH_COORDINATOR', 'XLBENCH_PROCESSES', 'XLBENCH_PROCESS')
WAIT = 'XLBENCH_WAIT'
MEETING = 7200  # Seconds that the first to come waits for the last.
SAVING = 60  # Seconds that a process that is told to end waits for the others to have saved.
# Errors of jax when another process is gone: 'UNKNOWN: Gloo all-reduce failed: ... reset by peer'.
GONE = re.compile(
    r'(?-i:UNAVAILABLE|DEADLINE_EXCEEDED): |(?-i:[A-Z_]+): .*(gloo|nccl|socket closed|broken pipe'
    r'|connection (closed|reset|refused)|heartbeat|coordination|barrier)',
    re.IGNORECASE,
)


class TakenPort(UserError):
    """The port of process 0 is taken, perhaps by a run that is about to end."""

    exit_code = START_AGAIN


# ------------------------------------------------------------- which process of a run this is


@dataclasses.dataclass(frozen=True)
class Place:
    """The place of a process among those of its run.

    Attributes:
      coordinator: host:port of process 0.
      count: of processes.
      index: this one's number, from 0.
      source: where that is known from, in words; the same for all processes.
      device: number of the machine's GPU that is this process's own; None: all that it sees.
    """

    coordinator: str
    count: int
    index: int
    source: str
    device: int | None = None


def find(environ: Mapping[str, str]) -> Place | None:
    """The place that the variables of the environment give; None if they name no run of several.

    jax knows SLURM and Open MPI, too, but it takes the tasks of a SLURM job for those of the step,
    and gives each process one GPU only. TPUs are left to jax.

    Raises:
      UserError: they name one, but not this process's place in it.
    """
    keys = ('coordinator', 'count', 'index')
    said = {k: environ[name] for k, name in zip(keys, VARIABLES, strict=True) if environ.get(name)}
    if said == {'count': '1'}:
        return None
    if said.get('count') == 'auto':
        del said['count']
    if len(said) == len(keys):
        known: dict = {'source': f'named by {VARIABLES[0]}'}
    else:
        known = next(filter(None, (look(environ) for look in CLUSTERS)), {})
    place = known | said
    if not place:
        return None
    host, _, port = str(place.get('coordinator', '')).rpartition(':')
    count, index = (str(place.get(key, '')) for key in ('count', 'index'))
    numbers = count.isdigit() and index.isdigit() and int(index) < int(count)
    if numbers and count == '1' and 'source' in place:
        return Place('', 1, 0, place['source'])
    if not (host and port.isdigit() and 0 < int(port) < 1 << 16 and numbers):
        where = f' in {known["source"].removeprefix("found: ")}' if known and not said else ''
        values = ' '.join(
            f'{name}={place.get(key, "")!s}' for key, name in zip(keys, VARIABLES, strict=True)
        )
        raise UserError(
            f'{values}{where} do not name a process; set host:port, the number of processes, and '
            f'the number of this one from 0; or {VARIABLES[1]}=auto alone, on a cluster'
        )
    return Place(
        place['coordinator'],
        int(count),
        int(index),
        place.get('source', f'named by {VARIABLES[0]}'),
        place.get('device'),
    )


def _slurm(environ: Mapping[str, str]) -> dict:
    """A task that srun has started; what sbatch or salloc runs by itself is none."""
    names = ('SLURM_JOB_ID', 'SLURM_STEP_NODELIST', 'SLURM_STEP_NUM_TASKS', 'SLURM_PROCID')
    if not all(environ.get(name) for name in names):
        return {}
    job, nodes, count, index = (environ[name] for name in names)
    several = environ.get('SLURM_STEP_NUM_NODES') != count  # Some node has several tasks.
    bound = 'SLURM_GPUS_PER_TASK' in environ  # Each task sees its own GPUs only.
    return {
        'coordinator': f'{first_node(nodes)}:{_port(job, environ.get("SLURM_STEP_ID", "0"))}',
        'count': count,
        'index': index,
        'source': f'found: SLURM job {job}',
        'device': int(environ.get('SLURM_LOCALID', 0)) if several and not bound else None,
    }


def first_node(nodes: str) -> str:
    """The first of a list of SLURM's: 'gpu[03-05,09],big1' -> 'gpu03'."""
    first = re.findall(r'(?:[^,\[]|\[[^\]]*\])*', nodes)[0]
    return re.sub(r'\[([^\],-]*)[^\]]*\]', r'\1', first)


def _port(job: str, step: str = '0') -> int:
    """Chooses a port that all processes of a step agree on, above the ports that systems assign."""
    number, part = (int(text) if text.isdigit() else 0 for text in (job, step))
    return 61_440 + (number + 97 * part) % 4_096


def _open_mpi(environ: Mapping[str, str]) -> dict:
    """mpirun; from version 5 it no longer says where it runs, and XLBENCH_COORDINATOR has to."""
    count, index = (environ.get(f'OMPI_COMM_WORLD_{name}') for name in ('SIZE', 'RANK'))
    if not (count and index):
        return {}
    place: dict[str, str | int] = {'count': count, 'index': index, 'source': 'found: Open MPI'}
    # 1531576320.0;tcp://10.96.0.1,10.148.0.1:34911 or ...;tcp6://[fe80::b9b,2620::2]:43370
    uri = environ.get('OMPI_MCA_orte_hnp_uri', '')
    if address := re.match(r'(\d+)\..*?(?:tcp://([^,:]+)|tcp6://\[([^,\]]+))', uri):
        job, host, host6 = address.groups()
        # Job numbers are multiples of 2^12.
        place['coordinator'] = f'{host or f"[{host6}]"}:{_port(str(int(job) >> 12))}'
    if environ.get('OMPI_COMM_WORLD_LOCAL_SIZE', '1') != '1':
        place['device'] = int(environ.get('OMPI_COMM_WORLD_LOCAL_RANK', 0))
    return place


def _kubernetes(environ: Mapping[str, str]) -> dict:
    """Pods of an indexed job; only if told that they are one run, and not one run each."""
    if not (environ.get('JOB_COMPLETION_INDEX') and environ.get(VARIABLES[0])):
        return {}
    return {'index': environ['JOB_COMPLETION_INDEX'], 'source': 'found: Kubernetes job'}


CLUSTERS = (_slurm, _open_mpi, _kubernetes)


# ------------------------------------------------------------------------ joining and leaving


def join() -> str:
    """Joins the other processes, if there are any; says how they were found.

    Returns:
      'alone', or where the answer came from. To be called before jax touches a device.

    Raises:
      UserError: a variable is missing or wrong, or jax found no processes where it should.
      TakenPort: another program listens where process 0 should.
    """
    place, seconds = find(os.environ), _seconds(os.environ)
    options: dict = {'initialization_timeout': seconds, 'shutdown_timeout_seconds': MEETING}
    if place is None:
        return _join_as_jax_finds(options, insist=os.environ.get(VARIABLES[1]) == 'auto')
    if place.count > 1:
        if place.index == 0:
            _check_port(int(place.coordinator.rpartition(':')[2]))
        jax.distributed.initialize(
            place.coordinator,
            place.count,
            place.index,
            local_device_ids=place.device,
            cluster_detection_method='deactivate',  # It would give each process one GPU only.
            **options,
        )
    return place.source


def keep_programs() -> None:
    """Compiled programs go to COMPILED, unless JAX_COMPILATION_CACHE_DIR names another folder.

    The small ones as well: a run compiles dozens of them before its first step.
    """
    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]  # jax sets it.
        jax.config.update('jax_compilation_cache_dir', os.path.expanduser(COMPILED))
    if SHORTEST.upper() not in os.environ:  # By itself jax keeps what took a second or more.
        jax.config.update(SHORTEST, 0.0)


def _seconds(environ: Mapping[str, str]) -> int:
    text = environ.get(WAIT) or '300'
    if not (text.isdigit() and int(text)):
        raise UserError(f'{WAIT}={text!r} is not a time to wait for processes; set whole seconds')
    return int(text)


def _check_port(port: int) -> None:
    """Checks that jax can listen, which crashes without a word if it cannot."""
    try:
        socket.create_server(('', port)).close()
    except OSError as error:
        raise TakenPort(
            f'process 0 cannot listen on port {port} ({os.strerror(error.errno or 0)}); set '
            'XLBENCH_COORDINATOR to another port, if it is not free soon'
        ) from error


def _join_as_jax_finds(options: dict, insist: bool) -> str:
    """Joins the processes of TPU VMs and GKE TPU jobs, which say where they are to jax."""
    if os.environ.get(VARIABLES[1]) == '1':
        return 'alone'
    if not insist and importlib.util.find_spec('libtpu') is None:
        return 'alone'
    try:
        jax.distributed.initialize(**options)
    except (OSError, RuntimeError, ValueError) as error:
        if not insist and 'coordinator_address' in str(error):  # jax knows no cluster here.
            return 'alone'
        text = ' '.join(str(error).split())[:300]
        raise UserError(
            f'jax found no processes to join ({text}); set {", ".join(VARIABLES)}, or '
            f'{VARIABLES[1]}=1 for a run of this process alone'
        ) from error
    return 'found by jax.distributed'


_meetings = itertools.count()


def meet(seconds: int = MEETING) -> None:
    """Waits until all processes have come here; each has to come equally often.

    To be called before they use a network of devices for the first time: processes that wait for it
    give up after half a minute, and one of them may still be compiling then.
    """
    if jax.process_count() > 1:
        import orbax.checkpoint as ocp  # It takes most of a second.

        wait = ocp.multihost.get_barrier_sync_fn()
        wait(key=f'xlbench-{next(_meetings)}', timeout_ms=seconds * 1000)


def run_main(main: Callable[[Sequence[str]], int | None], argv: Sequence[str]) -> int:
    """Runs `main(argv)` as errors.run_main does; a process of several that fails ends at once.

    The others see that it is gone, and no shutdown waits for one that is lost. To be used by
    programs that `join`, as `sys.exit(cluster.run_main(main, sys.argv))`.
    """
    failed = False
    try:
        code = errors.run_main(main, argv)
    except Exception as error:
        if not jax.distributed.is_initialized():
            raise
        code, failed = _failed(error), True
    if jax.distributed.is_initialized():
        if code == START_AGAIN and not failed:  # All have saved, or are about to have.
            with contextlib.suppress(Exception):
                meet(SAVING)
                jax.distributed.shutdown()
        elif not code:
            jax.distributed.shutdown()  # When all others are here.
        if code:
            leave(code)
    return code


def leave(code: int) -> None:
    """Ends this process, whatever its other threads do, and without jax's shutdown."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


def _failed(error: BaseException) -> int:
    """Says in one line that another process is gone, if that is the reason, or how this one failed.

    Returns:
      START_AGAIN, or 1.
    """
    cause: BaseException | None = error
    while cause is not None:  # Orbax says only that its own wait has ended, and why as the cause.
        text = ' '.join(str(cause).split())
        # A program that runs in this thread ends with a ValueError (freed_memory.run_inline).
        if isinstance(cause, jax.errors.JaxRuntimeError | ValueError) and GONE.match(text):
            break
        cause = cause.__cause__
    else:
        traceback.print_exception(error)
        return 1
    place = f'process {jax.process_index()} of {jax.process_count()}'
    line = f'error: {place} lost another process ({text[:200]}); exit code {START_AGAIN}'
    print(line, file=sys.stderr, flush=True)
    return START_AGAIN
