"""Turns workdirs into the experiments of a page: their commands, costs and scores.

Workdirs of one config that differ only in the seed are one experiment. Only means and standard
deviations over them are computed; everything else is copied from the workdirs.
"""

import dataclasses
import pathlib
from collections.abc import Sequence

import msgspec

from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.reporting import costs, layout, notes, sections as sections_lib, systems
from xlbench.reporting.results import Run, read_run
from xlbench.reporting.sections import Section
from xlbench.system import errors, files, untrusted
from xlbench.system.files import Json
from xlbench.zoo import experiments, sweeps as sweeps_lib
from xlbench.zoo.experiments import Entry, Part

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
            runs.setdefault(key := _key(run), []).append(run)
        order[key] = None
    if lost := [name for key, of_run in cards.items() if key not in runs for name, _ in of_run]:
        raise errors.UserError(
            f'{", ".join(lost)}: no workdir is named that it was exported from; name that one, too'
        )
    made = {
        key: _entry(runs[key]) if key in runs else sweeps_lib.entry(sweeps[key])
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


def _key(run: Run) -> str:
    """The same of runs that differ in the seed only, and of one system's workdirs."""
    return f'system {run.system}' if run.system else run.config_hash


def _entry(runs: Sequence[Run]) -> Entry:
    """One experiment of runs, or of systems that were scored."""
    workdirs = [run.workdir for run in runs]
    name, commands = experiments.origin(workdirs)
    sections = sections_lib.sections(runs)
    picks = [pick for section in sections for pick in section.picks]
    scored: list[Json] = [
        {f'{task}/{pick.split}': result.manifest for task, result in pick.results.items()}
        for pick in picks
    ]
    first, prepared = runs[0], (run.info.get('manifests') for run in runs)
    facts: dict[str, Json] = {
        'seeds': ', '.join(str(run.seed) for run in runs),
        **costs.facts(workdirs),
        'dtype': experiments.common(run.info.get('dtype') for run in runs),
        'parameters': first.info.get('parameters'),
        'starts from': '' if first.system else _start(first),
        'trained on': first.scenario.mixture if first.scenario else '',
        'step': ', '.join(dict.fromkeys(str(pick.step) for pick in picks)),
        'data': experiments.common(run.info.get('data') for run in runs),
        'data hashes': notes.short_hashes([*scored, *prepared]),
        'config hash': first.config_hash[:12],
        'code': experiments.common(run.info.get('git') for run in runs),
        'versions': experiments.common(run.info.get('versions') for run in runs),
    }
    parts = tuple(_part(section) for section in sections)
    name, workdir = first.system or name, first.workdir.resolve().name
    return Entry(name, workdir, commands, experiments.present(facts), parts)


def _start(run: Run) -> str:
    """The name of the checkpoint that a run starts from."""
    return systems.model_name(run) if run.config.get('init_from') else 'random weights'


def _part(section: Section) -> Part:
    """The tables of a section, and the average of its main score, or one for each setting."""
    score, column = section.scores[0], section.columns[-1]
    named = ' '.join(filter(None, (score, column.group, column.label)))
    runs = [system for system in section.systems if system.kind == 'run']
    decimals = section.decimals_of(score)
    cells = {system.name: system.cell(score, column.tasks, decimals) for system in runs}
    said = [f'{n}: {c}' if len(runs) > 1 else str(c) for n, c in cells.items() if not c.is_missing]
    headline = f'{named} {", ".join(said)}' if said else ''
    tables = [experiments.without_notes(t, section.notes) for t in layout.tables(section)]
    return Part(f'{section.title}, {section.split} split', headline, section.notes, tuple(tables))
