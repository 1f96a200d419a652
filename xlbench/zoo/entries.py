"""Turns workdirs into the experiments of a page: their commands, costs and scores.

Workdirs of one config that differ only in the seed are one experiment. Only means and standard
deviations over them are computed; everything else is copied from the workdirs.
"""

import dataclasses
import pathlib
from collections.abc import Sequence

import msgspec

from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.reporting.results import Run, read_run
from xlbench.system import errors, files, untrusted
from xlbench.zoo import runs as runs_lib, sweeps as sweeps_lib
from xlbench.zoo.experiments import Entry

_EXPORTED, _CARD = 'xlbench.json', 'README.md'


class _Origin(msgspec.Struct):
    """The note of an exported folder on the run that it is from."""

    config: str = ''
    seed: int | None = None


class _Exported(msgspec.Struct):
    """The part of xlbench.json that is read."""

    run: _Origin = msgspec.field(default_factory=_Origin)


def read(folders: Sequence[str]) -> list[Entry]:
    """Reads workdirs, and folders that were exported from them, in any order.

    Returns:
        The experiments, in the order in which their first workdirs are named.

    Raises:
        UserError: a folder is neither, or was exported from a run that is not among them.
    """
    runs: dict[str, list[Run]] = {}
    sweeps: dict[str, list[Sweep]] = {}
    cards: dict[str, list[tuple[str, str]]] = {}
    order: dict[str, None] = {}
    for folder in dict.fromkeys(map(pathlib.Path, folders)):
        if untrusted.file(folder, _EXPORTED):
            key, card = _read_exported(folder)
            cards.setdefault(key, []).append(card)
            continue
        if untrusted.file(folder, 'results.jsonl'):
            sweep = Sweep.read(folder)
            sweeps.setdefault(key := sweeps_lib.key(sweep), []).append(sweep)
        else:
            run = read_run(folder)
            runs.setdefault(key := runs_lib.key(run), []).append(run)
        order[key] = None
    if lost := [name for key, of_run in cards.items() if key not in runs for name, _ in of_run]:
        raise errors.UserError(
            f'{", ".join(lost)}: no workdir is named that it was exported from; name that one, too'
        )
    made = {
        key: runs_lib.entry(runs[key]) if key in runs else sweeps_lib.entry(sweeps[key])
        for key in order
    }
    return [
        dataclasses.replace(entry, cards=tuple(cards.get(key, ()))) for key, entry in made.items()
    ]


def _read_exported(folder: pathlib.Path) -> tuple[str, tuple[str, str]]:
    """The hash of the run's config, and the card with the folder's name."""
    origin = files.read_json(folder / _EXPORTED, _Exported).run
    card = untrusted.file(folder, _CARD)
    text = card.read_text(encoding='utf-8', errors='replace') if card else ''
    return origin.config, (folder.resolve().name, text)
