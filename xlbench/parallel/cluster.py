"""Joins the processes of one run through jax.distributed, and ends them with the right exit code.

One process on one machine needs nothing. Several are found by

  XLBENCH_COORDINATOR  host:port of process 0
  XLBENCH_PROCESSES    how many there are; 1: this one is alone, whatever else is set
  XLBENCH_PROCESS      the number of this one, from 0

which the scripts in launch/ set. Without them jax looks for them, on TPUs, and where srun or mpirun
has started several: it gives each process one GPU. With XLBENCH_PROCESSES=auto it always looks, and
it is an error if nothing is found. XLBENCH_WAIT is the number of seconds that the processes
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
import importlib.util
import itertools
import os
import re
import socket
import sys
import traceback
from collections.abc import Callable, Sequence

import jax

from xlbench.system import errors, untrusted
from xlbench.system.errors import UserError

START_AGAIN = 75  # EX_TEMPFAIL of sysexits.h.
# Compiled programs are kept here, so that the same run starts or resumes without compiling anew.
COMPILED = '~/.cache/xlbench/compiled'
SHORTEST = 'jax_persistent_cache_min_compile_time_secs'
VARIABLES = ('XLBENCH_COORDINATOR', 'XLBENCH_PROCESSES', 'XLBENCH_PROCESS')
WAIT = untrusted.Limit('XLBENCH_WAIT', 300)  # Seconds.
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


def join() -> str:
    """Joins the other processes, if there are any; says how they were found, or 'alone'.

    To be called before jax touches a device.

    Raises:
      UserError: a variable is missing or wrong, or jax found no processes where it should.
      TakenPort: another program listens where process 0 should.
    """
    options: dict = {'initialization_timeout': WAIT.value, 'shutdown_timeout_seconds': MEETING}
    said = [os.environ.get(name, '') for name in VARIABLES]
    coordinator, processes, process = said
    if processes == '1':
        return 'alone'
    if not any(said) or processes == 'auto':
        return _join_as_jax_finds(options, processes == 'auto' or is_one_of_several())
    host, _, port = coordinator.rpartition(':')
    numbers = processes.isdigit() and process.isdigit() and int(process) < int(processes)
    if not (host and port.isdigit() and 0 < int(port) < 1 << 16 and numbers):
        values = ' '.join(map('='.join, zip(VARIABLES, said, strict=True)))
        raise UserError(
            f'{values} do not name a process; set host:port, the number of processes, and the '
            f'number of this one from 0; or {VARIABLES[1]}=auto alone, on a cluster'
        )
    if process == '0':  # Without a port to listen on jax crashes without a word.
        try:
            socket.create_server(('', int(port))).close()
        except OSError as error:
            raise TakenPort(
                f'process 0 cannot listen on port {port} ({os.strerror(error.errno or 0)}); set '
                'XLBENCH_COORDINATOR to another port, if it is not free soon'
            ) from error
    jax.distributed.initialize(
        coordinator,
        int(processes),
        int(process),
        cluster_detection_method='deactivate',  # It would give each process one GPU only.
        **options,
    )
    return f'named by {VARIABLES[0]}'


def is_one_of_several() -> bool:
    """True if a script of launch/, srun or mpirun has started this process with others."""
    if (named := os.environ.get(VARIABLES[1], '')) not in ('', 'auto'):
        return named != '1'
    counts = ('SLURM_STEP_NUM_TASKS', 'OMPI_COMM_WORLD_SIZE')
    return any(os.environ.get(name, '1') != '1' for name in counts)


def keep_programs() -> None:
    """Keeps compiled programs in COMPILED, unless JAX_COMPILATION_CACHE_DIR names a folder.

    The small ones as well: a run compiles dozens of them before its first step.
    """
    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]  # jax sets it.
        jax.config.update('jax_compilation_cache_dir', os.path.expanduser(COMPILED))
    if SHORTEST.upper() not in os.environ:  # By itself jax keeps what took a second or more.
        jax.config.update(SHORTEST, 0.0)


def _join_as_jax_finds(options: dict, insist: bool) -> str:
    """Joins the processes that jax finds; UserError if it finds none and we `insist`."""
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
    """Says in one line that another process is gone, or how this one failed; the exit code."""
    cause: BaseException | None = error
    while cause is not None:  # Orbax says only that its own wait has ended, and why as the cause.
        text = ' '.join(str(cause).split())
        # A program that runs in this thread ends with a ValueError (programs.run_inline).
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
