"""How the processes of one run find each other, and what is said when some do not come.

One process on one machine needs nothing. Several are found, in this order, by

  XLBENCH_COORDINATOR  host:port of process 0
  XLBENCH_PROCESSES    how many there are; 1: this one is alone, whatever else is set
  XLBENCH_PROCESS      the number of this one, from 0

which launch/local.sh sets; by the variables of a SLURM step, of Open MPI or of a GKE TPU job, of
which the three above replace what they name; in an indexed job of Kubernetes by the first two, the
number being the job's; on the hosts of a TPU slice by their metadata. For several such slices it is
jax that looks and waits, and names nobody. XLBENCH_PROCESSES=auto insists: to find nothing is an
error then, and not a run of one. XLBENCH_WAIT is how many seconds the processes wait for each
other, 300 by default. Once they are there, one that dies is named by the others within seconds
(xlbench/parallel/peers.py), and a run that hangs after XLBENCH_HANG seconds
(xlbench/parallel/watchdog.py).

Exit codes, which the scripts in launch/ act on:

  0   finished
  2   a mistake of the user; the same command would fail again
  75  start me again (START_AGAIN): nothing is wrong with the command, and nothing is lost
  130 Ctrl-C, where there is nothing to save; training and sweeps save, and end with 75
"""

import contextlib
import dataclasses
import http.client
import importlib.util
import itertools
import os
import re
import selectors
import socket
import time
import traceback
from collections.abc import Callable, Mapping, Sequence

import jax
import orbax.checkpoint as ocp

from xlbench import errors
from xlbench.errors import UserError
from xlbench.parallel.peers import START_AGAIN, Peers, Verdict, relay

# Compiled programs are kept here, so that the same run starts or resumes without compiling anew.
COMPILED = '~/.cache/xlbench/compiled'
VARIABLES = ('XLBENCH_COORDINATOR', 'XLBENCH_PROCESSES', 'XLBENCH_PROCESS')
WAIT = 'XLBENCH_WAIT'
# Seconds until jax aborts a run in which a process does not answer: what peers.py and watchdog.py
# find out comes first, and says more.
HEARTBEAT = 7200
# What jax says when a connection to another process is gone.
GONE = re.compile(
    r'gloo|nccl|connection (closed|reset|refused)|socket closed|broken pipe|unavailable'
    r'|deadline.exceeded|heartbeat|coordination|barrier',
    re.IGNORECASE,
)

# The other processes, once there are any.
peers: Peers | None = None


class Incomplete(UserError):
    """Processes of the run are missing; the same command may work when it is started again."""

    exit_code = START_AGAIN


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a process stands among those of its run.

    Attributes:
      coordinator: host:port of process 0.
      count: of processes.
      index: this one's number, from 0.
      found: where that is known from, in words; the same for all processes.
      device: number of the machine's GPU that is this process's own; None: all that it sees.
    """

    coordinator: str
    count: int
    index: int
    found: str
    device: int | None = None


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
        return place.found
    global peers
    peers = Peers(place.index, place.count, call_roll(place, seconds))
    try:
        jax.distributed.initialize(
            relay(place.coordinator) if place.index else place.coordinator,
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
    return place.found


def keep_programs() -> None:
    """Compiled programs go to COMPILED, unless JAX_COMPILATION_CACHE_DIR names another folder."""
    if jax.config.jax_compilation_cache_dir is None:
        jax.config.update('jax_compilation_cache_dir', os.path.expanduser(COMPILED))


def _seconds(environ: Mapping[str, str]) -> int:
    text = environ.get(WAIT) or '300'
    if not (text.isdigit() and int(text)):
        raise UserError(f'{WAIT}={text!r} is no time to wait for processes; set whole seconds')
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
        wait = ocp.multihost.get_barrier_sync_fn()
        wait(key=f'xlbench-{next(_meetings)}', timeout_ms=HEARTBEAT * 1000)


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


# ---------------------------------------------------------------------------------------------
# Which process this is, from variables, and from metadata where there is a TPU.


def find(environ: Mapping[str, str]) -> Place | None:
    """The place that the variables of the environment give; None if they name no run of several.

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
        known = {'found': f'named by {VARIABLES[0]}'}
    else:
        clusters = (look(environ) for look in CLUSTERS)
        known = next(filter(None, clusters), {})
    place = known | said
    if not place:
        return None
    host, _, port = str(place.get('coordinator', '')).rpartition(':')
    count, index = (str(place.get(key, '')) for key in ('count', 'index'))
    numbers = count.isdigit() and index.isdigit() and int(index) < int(count)
    if numbers and count == '1' and 'found' in place:
        return Place('', 1, 0, place['found'])
    if not (host and port.isdigit() and 0 < int(port) < 1 << 16 and numbers):
        where = f' in {known["found"].removeprefix("found: ")}' if known and not said else ''
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
        place.get('found', f'named by {VARIABLES[0]}'),
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
        'found': f'found: SLURM job {job}',
        'device': int(environ.get('SLURM_LOCALID', 0)) if several and not bound else None,
    }


def first_node(nodes: str) -> str:
    """The first of a list of SLURM's: 'gpu[03-05,09],big1' -> 'gpu03'."""
    first = re.match(r'(?:[^,\[]|\[[^\]]*\])*', nodes)[0]
    return re.sub(r'\[([^\],-]*)[^\]]*\]', r'\1', first)


def _port(job: str, step: str = '0') -> int:
    """One that the processes of a step agree on, above those that systems give away."""
    number, step = (int(text) if text.isdigit() else 0 for text in (job, step))
    return 61_440 + (number + 97 * step) % 4_096


def _open_mpi(environ: Mapping[str, str]) -> dict:
    """mpirun; from version 5 it no longer says where it runs, and XLBENCH_COORDINATOR has to."""
    count, index = (environ.get(f'OMPI_COMM_WORLD_{name}') for name in ('SIZE', 'RANK'))
    if not (count and index):
        return {}
    place = {'count': count, 'index': index, 'found': 'found: Open MPI'}
    # 1531576320.0;tcp://10.96.0.1,10.148.0.1:34911 or ...;tcp6://[fe80::b9b,2620::2]:43370
    uri = environ.get('OMPI_MCA_orte_hnp_uri', '')
    if address := re.match(r'(\d+)\..*?(?:tcp://([^,:]+)|tcp6://\[([^,\]]+))', uri):
        job, host, host6 = address.groups()
        # Job numbers are multiples of 2^12.
        place['coordinator'] = f'{host or f"[{host6}]"}:{_port(str(int(job) >> 12))}'
    if environ.get('OMPI_COMM_WORLD_LOCAL_SIZE', '1') != '1':
        place['device'] = int(environ.get('OMPI_COMM_WORLD_LOCAL_RANK', 0))
    return place


def _gke_tpu(environ: Mapping[str, str]) -> dict:
    """A slice, or several of them, of TPUs that GKE has given to a job."""
    hosts = environ.get('TPU_WORKER_HOSTNAMES', '').split(',')
    worker = environ.get('TPU_WORKER_ID', '')
    slices = environ.get('MEGASCALE_NUM_SLICES') or '1'
    number = environ.get('MEGASCALE_SLICE_ID') or '0'
    if not (hosts[0] and worker.isdigit() and slices.isdigit() and number.isdigit()):
        return {}
    first = environ.get('MEGASCALE_COORDINATOR_ADDRESS', '').partition(':')[0] or hosts[0]
    return {
        'coordinator': f'{first}:8482',
        'count': str(len(hosts) * int(slices)),
        'index': str(int(worker) + len(hosts) * int(number)),
        'found': 'found: GKE TPU job',
    }


def _kubernetes(environ: Mapping[str, str]) -> dict:
    """Pods of an indexed job; only if told that they are one run, and not one run each."""
    if not (environ.get('JOB_COMPLETION_INDEX') and environ.get(VARIABLES[0])):
        return {}
    return {'index': environ['JOB_COMPLETION_INDEX'], 'found': 'found: Kubernetes job'}


def _tpu_vm(environ: Mapping[str, str]) -> dict:
    """A host of one slice of Google Cloud; of several, and of none, nothing is known here."""
    if environ.get('TPU_SKIP_MDS_QUERY') or importlib.util.find_spec('libtpu') is None:
        return {}
    server = environ.get('GCE_METADATA_IP') or 'metadata.google.internal'
    try:
        worker = _metadata(server, 'agent-worker-number')
        # Hosts, or triples name:id:host, with commas.
        hosts = _metadata(server, 'worker-network-endpoints').split(',')
        several = re.search(r"MEGASCALE_NUM_SLICES: *'?[2-9]", _metadata(server, 'tpu-env'))
    except (OSError, http.client.HTTPException):
        return {}
    if several or not (worker and hosts[0]):
        return {}
    return {
        'coordinator': f'{hosts[0].split(":")[-1]}:8482',
        'count': str(len(hosts)),
        'index': worker,
        'found': 'found: TPU VM',
    }


def _metadata(server: str, key: str) -> str:
    """What the machine's metadata say; '' if nothing."""
    connection = http.client.HTTPConnection(server, timeout=5)
    with contextlib.closing(connection):
        path = f'/computeMetadata/v1/instance/attributes/{key}'
        connection.request('GET', path, headers={'Metadata-Flavor': 'Google'})
        answer = connection.getresponse()
        return answer.read().decode().strip() if answer.status == 200 else ''


CLUSTERS = (_slurm, _open_mpi, _gke_tpu, _kubernetes, _tpu_vm)


# ---------------------------------------------------------------------------------------------
# Who is there. jax waits for the others too; but when one does not come it ends the process with
# a stack trace that names nobody.


def call_roll(place: Place, seconds: float) -> dict[int, socket.socket]:
    """Waits until all processes are there; process 0 listens where jax will, a moment later.

    Returns:
      Connections that stay, by number: to all others in process 0, to process 0 in the others.

    Raises:
      Incomplete: some did not come; the message has their numbers, in every process that did.
    """
    verdict, connections = (_listen if place.index == 0 else _report)(place, seconds)
    if verdict:
        raise Incomplete(f'{verdict}; exit code {START_AGAIN}')
    return connections


def _listen(place: Place, seconds: float) -> tuple[str, dict[int, socket.socket]]:
    """What is wrong, or '', which the others are told, too; the connections to them."""
    port = int(place.coordinator.rpartition(':')[2])
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        try:
            listener = stack.enter_context(_server(port))
        except OSError as error:
            return (
                f'process 0 cannot listen on port {port} ({os.strerror(error.errno)}): another '
                f'run, or one that is about to end, has it; set {VARIABLES[0]} to another port'
            ), {}
        selector = stack.enter_context(selectors.DefaultSelector())
        selector.register(listener, selectors.EVENT_READ)
        here: dict[socket.socket, int] = {}
        strangers: set[socket.socket] = set()
        stack.callback(lambda: [peer.close() for peer in strangers])
        verdict = None
        while verdict is None:
            for key, _ in selector.select(max(0, deadline - time.monotonic())):
                if key.fileobj is listener:
                    peer, _ = listener.accept()
                    strangers.add(peer)
                    peer.settimeout(1)
                    selector.register(peer, selectors.EVENT_READ)
                    continue
                number = 0 if key.fileobj in here else _greeting(key.fileobj, place.count)
                if number in here.values():
                    verdict = f'two processes say that they are process {number} of {place.count}'
                if number:
                    here[key.fileobj] = number
                    strangers.discard(key.fileobj)
                else:  # It has gone, or is none of us.
                    here.pop(key.fileobj, None)
                    strangers.discard(key.fileobj)
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
            if verdict is None and len(here) == place.count - 1:
                verdict = ''
            elif verdict is None and time.monotonic() >= deadline:
                verdict = _missing(set(range(1, place.count)) - set(here.values()), place)
        listener.close()  # Before the answer: who hears it turns to jax, on the same port.
        for peer in here:
            with contextlib.suppress(OSError):
                peer.sendall(f'{verdict or "all"}\n'.encode())
            if verdict:
                peer.close()
    return verdict, {number: peer for peer, number in here.items()}


def _report(place: Place, seconds: float) -> tuple[str, dict[int, socket.socket]]:
    """Tells process 0 that this one is there; what it says is wrong, or ''; the connection."""
    host, _, port = place.coordinator.rpartition(':')
    deadline = time.monotonic() + seconds
    error: OSError | None = None
    while time.monotonic() < deadline:
        try:
            peer = socket.create_connection((host.strip('[]'), int(port)), timeout=10)
            # Process 0 may have begun to wait later than this one.
            peer.settimeout(seconds + 30)
            peer.sendall(f'xlbench {place.count} {place.index}\n'.encode())
            if (answer := _read(peer)) == 'all':
                return '', {0: peer}
            peer.close()
            if answer:
                return answer, {}
        except OSError as failure:
            error = failure
        time.sleep(0.2)
    reason = f' ({error.strerror or error})' if error else ''
    return (
        f'process {place.index} of {place.count} waited {seconds:.0f} s for process 0 at '
        f'{place.coordinator}{reason}, which did not come: see whether it was started and how it '
        f'ended, whether this machine may connect to that port, and {VARIABLES[0]}'
    ), {}


def _missing(numbers: set[int], place: Place) -> str:
    names = ', '.join(str(number) for number in sorted(numbers))
    which = 'process' if len(numbers) == 1 else 'processes'
    return (
        f'{which} {names} of {place.count} did not come to {place.coordinator} in time: see '
        f'whether each was started and how it ended, whether its machine may connect to that '
        f'port, and whether {WAIT} leaves it enough seconds'
    )


def _server(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(
                ('', port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024
            )
    return socket.create_server(('', port), backlog=1024)


def _read(peer: socket.socket) -> str:
    """A line; '' if the other side has gone or says nothing."""
    text = b''
    with contextlib.suppress(OSError):
        while not text.endswith(b'\n') and len(text) < 4096:
            if not (more := peer.recv(1)):  # No byte of what comes after the line.
                return ''
            text += more
    return text.decode(errors='replace').strip()


def _greeting(peer: socket.socket, count: int) -> int:
    """The number of the process that says 'xlbench 4 2'; 0 if it is none of a run of `count`."""
    match = re.fullmatch(r'xlbench (\d+) (\d+)', _read(peer))
    if match and int(match[1]) != count:
        with contextlib.suppress(OSError):
            peer.sendall(f'process 0 knows of {count} processes, not of {match[1]}\n'.encode())
    return int(match[2]) if match and int(match[1]) == count and int(match[2]) < count else 0
