"""Finds which process of a run this is, from the variables of the environment.

xlbench/parallel/cluster.py has the list of them. jax itself knows SLURM and Open MPI, too, but it
takes the tasks of a SLURM job for those of the step, and gives each process one GPU only. TPUs are
left to jax.
"""

import dataclasses
import re
from collections.abc import Mapping

from xlbench.system.errors import UserError

VARIABLES = ('XLBENCH_COORDINATOR', 'XLBENCH_PROCESSES', 'XLBENCH_PROCESS')


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
        known = {'source': f'named by {VARIABLES[0]}'}
    else:
        clusters = (look(environ) for look in CLUSTERS)
        known = next(filter(None, clusters), {})
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
    place = {'count': count, 'index': index, 'source': 'found: Open MPI'}
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
