"""Joins the processes of one run, and ends them with the right exit code.

One process on one machine needs nothing. Several are found, in this order, by

  XLBENCH_COORDINATOR  host:port of process 0
  XLBENCH_PROCESSES    how many there are; 1: this one is alone, whatever else is set
  XLBENCH_PROCESS      the number of this one, from 0

which launch/local.sh sets; by the variables of a SLURM step, of Open MPI or of a GKE TPU job, of
which the three above replace what they name; in an indexed job of Kubernetes by the first two, the
number being the job's; on the hosts of a TPU slice by their metadata. For several such slices it is
jax that looks and waits, and names nobody. With XLBENCH_PROCESSES=auto it is an error if nothing is
found; otherwise this is a run of one process. XLBENCH_WAIT is the number of seconds that the
processes wait for each other, 300 by default. Once all have joined, a process that dies is named by
the others within seconds (xlbench/parallel/peers.py), and a run that hangs ends after XLBENCH_HANG
seconds (xlbench/parallel/watchdog.py).

Exit codes, which the scripts in launch/ act on:

  0   finished
  2   a mistake of the user; the same command would fail again
  75  start me again (START_AGAIN): nothing is wrong with the command, and nothing is lost
  130 Ctrl-C, where there is nothing to save; training and sweeps save, and end with 75
"""

import importlib.util
import itertools
import os
import re
import traceback
from collections.abc import Callable, Mapping, Sequence

import jax

from xlbench.parallel.environment import VARIABLES, find
from xlbench.parallel.peers import START_AGAIN, Incomplete, Peers, Verdict
from xlbench.system import errors
from xlbench.system.errors import UserError

# Compiled programs are kept here, so that the same run starts or resumes without compiling anew.
COMPILED = '~/.cache/xlbench/compiled'
SHORTEST = 'jax_persistent_cache_min_compile_time_secs'
WAIT = 'XLBENCH_WAIT'
# Seconds after which jax aborts a run of which a process does not even send heartbeats, because it
# was stopped. More than XLBENCH_HANG: the line of watchdog.py comes first, and says more.
HEARTBEAT = 1200
MEETING = 7200  # Seconds that the first to come waits for the last.
# What jax says when a connection to another process is gone.
GONE = re.compile(
    r'gloo|nccl|connection (closed|reset|refused)|socket closed|broken pipe|unavailable'
    r'|deadline.exceeded|heartbeat|coordination|barrier',
    re.IGNORECASE,
)

# The other processes, once there are any.
peers: Peers | None = None


def join() -> str:
    """Joins the other processes, if there are any; says how they were found.

    Returns:
      'alone', or where the answer came from. To be called before jax touches a device.

    Raises:
      UserError: a variable is missing or wrong.
      Incomplete: the others did not come in time, or jax did not find them.
    """
    place, seconds = find(os.environ), _seconds(os.environ)
    if place is None:
        return _join_as_jax_finds(seconds, insist=os.environ.get(VARIABLES[1]) == 'auto')
    if place.count == 1:
        return place.source
    global peers
    peers = Peers(place.index, place.count)
    peers.call_roll(place.coordinator, seconds)
    try:
        jax.distributed.initialize(
            peers.relay(place.coordinator) if place.index else place.coordinator,
            place.count,
            place.index,
            local_device_ids=place.device,
            cluster_detection_method='deactivate',  # It would give each process one GPU only.
            initialization_timeout=seconds,
            heartbeat_timeout_seconds=HEARTBEAT,
        )
    except (RuntimeError, ValueError) as error:
        text = ' '.join(str(error).split())[:300]
        raise Incomplete(f'the processes of this run did not find each other: {text}') from error
    return place.source


def keep_programs() -> None:
    """Compiled programs go to COMPILED, unless JAX_COMPILATION_CACHE_DIR names another folder.

    The small ones as well: a run compiles dozens of them before its first step.
    """
    if jax.config.jax_compilation_cache_dir is None:
        jax.config.update('jax_compilation_cache_dir', os.path.expanduser(COMPILED))
    if SHORTEST.upper() not in os.environ:  # By itself jax keeps what took a second or more.
        jax.config.update(SHORTEST, 0.0)


def _seconds(environ: Mapping[str, str]) -> int:
    text = environ.get(WAIT) or '300'
    if not (text.isdigit() and int(text)):
        raise UserError(f'{WAIT}={text!r} is not a time to wait for processes; set whole seconds')
    return int(text)


def _join_as_jax_finds(seconds: int, insist: bool) -> str:
    """Several slices of TPU VMs say where they are to jax; few others need to ask."""
    if not insist and importlib.util.find_spec('libtpu') is None:
        return 'alone'
    try:
        jax.distributed.initialize(initialization_timeout=seconds)
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


def meet() -> None:
    """Waits until all processes have come here; each has to come equally often.

    To be called before they use a network of devices for the first time: those that wait for it
    give up after half a minute, and one of them may still be compiling then.
    """
    if jax.process_count() > 1:
        import orbax.checkpoint as ocp  # It takes most of a second.

        wait = ocp.multihost.get_barrier_sync_fn()
        wait(key=f'xlbench-{next(_meetings)}', timeout_ms=MEETING * 1000)


def run_main(main: Callable[[Sequence[str]], int | None], argv: Sequence[str]) -> int:
    """Runs `main(argv)` as errors.run_main does; a process of several that fails ends at once.

    So the others hear of it, and no shutdown waits for those that are lost. To be used by programs
    that `join`, as `sys.exit(processes.run_main(main, sys.argv))`.
    """
    try:
        code = errors.run_main(main, argv)
    except Exception as error:
        if peers is None:
            raise
        code = _failed(error)
    if peers is not None:
        peers.end(code)
    return code


def _failed(error: BaseException) -> int:
    """Ends this process if another one is the reason; prints the traceback and gives 1 if not."""
    text = ' '.join(str(error).split())
    gone = GONE.search(text)
    # The connection to the process that was lost, and the news of it, break at the same time.
    verdict = peers.verdict(5 if gone else 0)
    if gone and isinstance(error, jax.errors.JaxRuntimeError):
        verdict = verdict or Verdict('lost another process', START_AGAIN)
    if verdict and (gone or verdict.code == START_AGAIN):
        peers.leave(f'{verdict.why}{peers.doing()} ({text[:200]})', verdict.code)
    traceback.print_exception(error)
    return 1
