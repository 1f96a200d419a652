"""From `--config=FILE[:variant] --config.key=value` to checked blocks of arguments.

A config file is plain Python with one function, `get_config(variant='')`, that returns an
ml_collections.ConfigDict. Each block of it is the keyword arguments of one function, so that the
function's signature is the documentation of the block, and `check_arguments` can name a wrong key
before a run costs anything.

Modules of their own:

  ranges          what a number in a block may be
  signatures      what functions and classes take, read from their source
  decoding        the options of a decoder
  decoding_flags  the flags of programs that decode
  recipes         blocks that many configs share
"""

from xlbench.config.blocks import check_arguments, check_keys, defaults, to_dict
from xlbench.config.flags import Command, parse_command, parse_flags, variant
from xlbench.config.provenance import facts
from xlbench.config.record import (
    RUN_KEYS,
    RunEval,
    RunTask,
    read_about,
    read_config,
    read_run,
    refuse_sweep,
)
from xlbench.config.workdir import begun_with, check_workdir, claim_workdir, data_root

__all__ = [
    'RUN_KEYS',
    'Command',
    'RunEval',
    'RunTask',
    'begun_with',
    'check_arguments',
    'check_keys',
    'check_workdir',
    'claim_workdir',
    'data_root',
    'defaults',
    'facts',
    'parse_command',
    'parse_flags',
    'read_about',
    'read_config',
    'read_run',
    'refuse_sweep',
    'to_dict',
    'variant',
]
