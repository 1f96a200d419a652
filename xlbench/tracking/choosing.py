"""The trackers that config.trackers names: found, and checked before a run costs anything."""

import importlib.util
from collections.abc import Sequence

from xlbench.metrics import specs
from xlbench.system.errors import UserError, located
from xlbench.tracking.contract import Tracker

PACKAGE = 'xlbench.tracking'


def find(name: str) -> type[Tracker]:
    """The class of a tracker.

    Args:
      name: of a file of this package, or 'tasks/FILE.py:NAME' or 'module:NAME' of the user's own,
        by the rules of metrics (see metrics/specs.py).

    Raises:
      UserError: there is none, or it may not be imported.
    """
    return specs.subclass(name, Tracker, PACKAGE, 'tracker in config.trackers')


def check(names: Sequence[str]) -> None:
    """Raises UserError for a tracker that cannot work on this machine."""
    for name in names:
        tracker = find(name)
        if missing := [module for module in tracker.modules if not _is_installed(module)]:
            raise UserError(
                f'config.trackers has {name!r}, which needs the package {missing[0]}: '
                f'{tracker.install}; or leave {name!r} out'
            )
        try:
            tracker.check()
        except UserError:
            raise
        except Exception as error:  # Whatever another's library makes of this machine.
            raise UserError(f'the tracker {name!r} does not work here: {located(error)}') from error


def _is_installed(module: str) -> bool:
    spec = importlib.util.find_spec(module)
    # Without an origin it is a mere folder, such as the wandb/ that W&B makes.
    return spec is not None and spec.origin is not None
