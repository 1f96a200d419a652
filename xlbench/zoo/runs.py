"""Experiments of runs, and of systems that xlbench.score or a chain scored."""

from collections.abc import Sequence

from xlbench.reporting import costs, layout, sections as sections_lib, systems
from xlbench.reporting.results import Run
from xlbench.reporting.sections import Section
from xlbench.system.files import Json
from xlbench.zoo import experiments
from xlbench.zoo.experiments import Entry, Part


def key(run: Run) -> str:
    """The same of runs that differ in the seed only, and of one system's workdirs."""
    return f'system {run.system}' if run.system else run.config_hash


def entry(runs: Sequence[Run]) -> Entry:
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
        'data hashes': experiments.short_hashes([*scored, *prepared]),
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
