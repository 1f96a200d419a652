"""How the processes of one run find each other.

One process on one machine needs nothing. Several processes are started with three variables, which
launch/local.sh sets, or by a cluster that jax recognises by itself (XLBENCH_PROCESSES=auto).
"""

import os

import jax

from xlbench.errors import UserError

# Compiled programs are kept here, so that the same run starts or resumes without compiling anew.
COMPILED = '~/.cache/xlbench/compiled'
VARIABLES = ('XLBENCH_COORDINATOR', 'XLBENCH_PROCESSES', 'XLBENCH_PROCESS')


def join() -> str:
    """Joins the other processes, if there are any; says how they were found.

    Returns:
      'alone', or where the answer came from. To be called before jax touches a device.

    Raises:
      UserError: a variable is missing or wrong, or the others did not come in time.
    """
    coordinator, count, index = (os.environ.get(name, '') for name in VARIABLES)
    if not (coordinator or count or index):
        return 'alone'
    try:
        if count == 'auto':
            jax.distributed.initialize()
            return 'found by jax.distributed'
        if not (coordinator and count.isdigit() and index.isdigit() and int(index) < int(count)):
            raise UserError(
                f'{VARIABLES[0]}={coordinator!r} {VARIABLES[1]}={count!r} {VARIABLES[2]}={index!r} '
                'do not name a process; set host:port, the number of processes, and this '
                "process's number from 0; or XLBENCH_PROCESSES=auto alone, on a cluster"
            )
        jax.distributed.initialize(coordinator, int(count), int(index))
    except (RuntimeError, ValueError) as error:
        text = ' '.join(str(error).split())[:300]
        raise UserError(f'the processes of this run did not find each other: {text}') from error
    return f'named by {VARIABLES[0]}'


def keep_programs() -> None:
    """Compiled programs go to COMPILED, unless JAX_COMPILATION_CACHE_DIR names another folder."""
    if jax.config.jax_compilation_cache_dir is None:
        jax.config.update('jax_compilation_cache_dir', os.path.expanduser(COMPILED))
