"""From `--config=FILE[:variant] --config.key=value` to checked blocks of arguments.

A config file is plain Python with one function, `get_config(variant='')`, that returns an
ml_collections.ConfigDict. Each block of it makes a frozen dataclass, whose fields say what the
block may hold, so that `check_arguments` can name a wrong key before a run costs anything.

Modules of their own:

  blocks          the dataclasses of the blocks of which there is one kind
  optimizer       those of the optimizers
  ranges          what a value in a block may be
  signatures      the fields of the other blocks, read from the source of what they configure
  decoding        the options of a decoder
  decoding_flags  the flags of programs that decode
  recipes         blocks that many configs share
"""

from xlbench.config.blocks import (
    batches_of,
    check_arguments,
    check_keys,
    defaults,
    for_hash,
    leaves,
    stage_pairs,
    to_dict,
)
from xlbench.config.flags import Command, config_files, parse_command, parse_flags, variant
from xlbench.config.provenance import facts
from xlbench.config.record import (
    RUN_KEYS,
    RunEval,
    RunTask,
    data_root,
    read_about,
    read_config,
    read_run,
    refuse_sweep,
    upgrade,
)

__all__ = [
    'RUN_KEYS',
    'Command',
    'RunEval',
    'RunTask',
    'batches_of',
    'check_arguments',
    'check_keys',
    'config_files',
    'data_root',
    'defaults',
    'facts',
    'for_hash',
    'leaves',
    'parse_command',
    'parse_flags',
    'read_about',
    'read_config',
    'read_run',
    'refuse_sweep',
    'stage_pairs',
    'to_dict',
    'upgrade',
    'variant',
]
