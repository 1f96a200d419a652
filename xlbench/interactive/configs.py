"""Loads a config and changes it, as the flags of a command do."""

import os
from collections.abc import Mapping

from ml_collections import ConfigDict

from xlbench import config as config_lib, names
from xlbench.interactive.calling import overrides, plainly
from xlbench.system.files import Setting


@plainly
def load_config(
    name: str | os.PathLike, changes: Mapping[str, Setting] | None = None
) -> ConfigDict:
    """Loads a config, of a run or of a sweep, and changes some of its keys.

    The result is a ConfigDict, which can be changed further: `config.seed = 1`. Keys that the
    config leaves out, and `model.from`, are for `changes` alone.

    Example: load_config('mtg_mt5:sample', {'stages.stage1.num_steps': 50, 'seed': 1})

    Args:
        name: As --config takes it: a file or the name of a config that comes with xlbench, and
            behind a colon its variant.
        changes: Key with dots, or nested, to value.

    Raises:
        UserError: There is no such config, variant or key, or it does not take the value.
    """
    argv = ['load_config', f'--config={os.fspath(name)}', *overrides(changes or {})]
    config, _ = config_lib.parse_flags(argv, doc='', fields=names.fields, resolve=names.resolve)
    (names.check_sweep if names.is_sweep(config) else names.check_config)(config)
    return config
