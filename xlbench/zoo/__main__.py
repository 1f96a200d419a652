r"""Writes a Markdown page of experiments from their workdirs.

  python -m xlbench.zoo RUNS/* --output=zoo.md
  python -m xlbench.zoo RUNS/new --add --output=zoo.md

A workdir is one of xlbench.train, xlbench.fewshot, xlbench.score or a chain. Each experiment has
its command, wall and processor time, hardware, dtype, seeds, data with hashes, and its tables of
scores with baselines, notes and signatures. Runs of one config that differ in the seed are one
experiment, whose scores are means with standard deviations; a sweep is one by itself.

Without --output the page goes to the screen. With --output it is written into that file; if the
file is there and is no such page, it is left alone, and the command fails. The same workdirs give
the same bytes. Of absolute paths, the page shows only the last name.

With --add, experiments are added to the page in the file. Those that are already on it remain
unchanged, so their workdirs are not needed. If a named workdir belongs to one of them (the same
config, or the same name of a scored system), the new result replaces the old one; in that case,
name the workdirs of all its seeds.
"""

import collections
import dataclasses
import hashlib
import json
import pathlib
import re
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from xlbench.fewshot.analysis import systems as sweep_systems, tables as sweep_tables
from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.fewshot.analysis.systems import System
from xlbench.reporting import layout, notes, origins, render, sections as sections_lib, systems
from xlbench.reporting.results import Run, read_run, without
from xlbench.reporting.sections import Section
from xlbench.reporting.tables import Table
from xlbench.system import errors, files, locks, untrusted
from xlbench.system.command_line import CommandLine, flag
from xlbench.system.errors import UserError
from xlbench.system.files import Json

# A file that begins like this is such a page and may be written again.
MARK = 'xlbench zoo: made by python -m xlbench.zoo, may be overwritten'
_ABOUT = (
    'Every number on this page was read from the workdirs of its experiment by '
    '`python -m xlbench.zoo`. Scores go from 0 to 100. What follows ± is the standard deviation '
    'over seeds; in the tables of a single few-shot sweep it is that over buckets.'
)
_COMMENT = re.compile(r'^<!-- (\{.*\}) -->\n\n', re.MULTILINE)
COSTS: Sequence[str] = ('processor time', 'wall time', 'hardware')  # In the table at the top.
# Where a sweep's data and its source model lie is no part of what the sweep is.
_LEFT_OUT = ('root', 'vocabulary', 'source_workdir')

FLAGS = (
    flag('folder', 'workdir', nargs='+'),
    flag('--output', 'file of Markdown to write'),
    flag('--add', 'add to the page in the file of --output', False),
)


class Experiment(msgspec.Struct, omit_defaults=True):
    """One experiment.

    Attributes:
      name: of the config, or else of the first workdir.
      workdir: last name of the first workdir.
      key: the same of the same experiment.
      costs: hours and hardware, by the names in `COSTS`.
      section: all that a page says of it below its heading, as Markdown.
    """

    name: str
    workdir: str
    key: str
    score: str
    costs: Mapping[str, str]
    section: str = ''


class _Recorded(msgspec.Struct):
    """The part of a config.json that says how the workdir was made."""

    argv: list[str] = []
    cwd: str = ''


def of_workdirs(folders: Sequence[str]) -> list[Experiment]:
    """The experiments of workdirs, in the order in which their first ones are named."""
    runs: dict[str, list[Run]] = {}
    sweeps: dict[str, Sweep] = {}
    order: dict[str, None] = {}
    for folder in dict.fromkeys(map(pathlib.Path, folders)):
        if untrusted.file(folder, 'results.jsonl'):
            sweep = Sweep(folder)
            sweeps[key := _sweep_hash(sweep)] = sweep
        else:
            run = read_run(folder)
            key = f'system {run.system}' if run.system else run.config_hash
            runs.setdefault(key, []).append(run)
        order[key] = None
    return [_of_runs(runs[key]) if key in runs else _of_sweep(sweeps[key]) for key in order]


def _sweep_hash(sweep: Sweep) -> str:
    """Names what a sweep is."""
    text = json.dumps(without(sweep.config, _LEFT_OUT), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _of_runs(runs: Sequence[Run]) -> Experiment:
    """One experiment of runs, or of systems that were scored."""
    sections = sections_lib.sections(runs)
    picks = [pick for section in sections for pick in section.picks]
    scored: list[Json] = [
        {f'{task}/{pick.split}': result.manifest for task, result in pick.results.items()}
        for pick in picks
    ]
    first, prepared = runs[0], (run.info.get('manifests') for run in runs)
    start = systems.model_name(first) if first.config.get('init_from') else 'random weights'
    return _entry(
        [run.workdir for run in runs],
        [_typed(run.info, run.config) for run in runs],
        {'seeds': ', '.join(str(run.seed) for run in runs)},
        {
            'parameters': first.info.get('parameters'),
            'starts from': '' if first.system else start,
            'trained on': first.scenario.mixture if first.scenario else '',
            'step': ', '.join(dict.fromkeys(str(pick.step) for pick in picks)),
        },
        notes.short_hashes([*scored, *prepared]),
        first.config_hash,
        map(_part, sections),
        first.system,
    )


def _of_sweep(sweep: Sweep) -> Experiment:
    adapted = [row for row in sweep.rows if row.shots]
    seeds = sorted({row.seed for row in adapted if row.seed is not None})
    return _entry(
        [sweep.workdir],
        [_typed(msgspec.structs.asdict(sweep.about), sweep.source_config)],
        {
            'seeds': ', '.join(map(str, seeds)),
            'seed of source training': sweep.source_config.get('seed'),
            'adaptations': sum(row.status == 'done' for row in adapted),
        },
        {
            'source model': sweep.source_workdir.resolve().name,
            'starts from': sweep.source_config.get('init_from'),
        },
        notes.short_hashes([sweep.about.contents]),
        _sweep_hash(sweep),
        (
            (_headline(one), _blocks(one.title, [one.about_data], sweep_tables.of_results(one)))
            for one in sweep_systems.systems([sweep])
        ),
    )


def _entry(
    workdirs: Sequence[pathlib.Path],
    infos: Sequence[Mapping[str, Json]],
    seeds: Mapping[str, Json],
    start: Mapping[str, Json],
    hashes: Mapping[str, Json],
    config_hash: str,
    parts: Iterable[tuple[str, list[str]]],
    system: str = '',
) -> Experiment:
    """An experiment of workdirs: their own facts between those that all kinds have."""
    typed, configs = [], []
    for workdir in workdirs:
        about = files.read_json(workdir / 'config.json', _Recorded)
        for words in origins.commands(workdir) or [about.argv]:
            typed.append(origins.command(words, about.cwd))
            configs.append(origins.config_of(words, about.cwd))
    first = workdirs[0].resolve().name

    def common(key: str) -> str:  # Where workdirs differ, each value.
        known = (info[key] for info in infos if _is_known(info.get(key)))
        return '; '.join(dict.fromkeys(map(notes.plain_fact, known)))

    facts: dict[str, Json] = {
        **seeds, **origins.costs(workdirs), 'dtype': common('dtype'), **start,
        'data': common('data'), 'data hashes': hashes, 'config hash': config_hash[:12],
        'code': common('git'), 'versions': common('versions'),
    }  # fmt: skip
    plain, text = origins.without_places, render.markdown_text
    known = {key: plain(notes.plain_fact(fact)) for key, fact in facts.items() if _is_known(fact)}
    commands = dict.fromkeys(filter(None, typed))
    blocks = ['\n'.join(['```sh', *commands, '```'])] if commands else []
    rows = ((key, text(fact)) for key, fact in known.items())
    blocks.append(render.grid([('', ''), ('---', '---'), *rows]))
    headlines = []
    for headline, of_part in parts:
        headlines.append(headline)
        blocks += of_part
    return Experiment(
        plain(system or next(filter(None, configs), first)),
        first,
        config_hash[:12],
        plain('; '.join(filter(None, headlines))),
        {key: known[key] for key in COSTS if key in known},
        plain('\n\n'.join(blocks)),
    )


def _typed(info: Mapping[str, Json], config: Mapping[str, Json]) -> dict[str, Json]:
    """A workdir's facts, with the types of all its numbers in place of the activations' alone."""
    return {**info, 'dtype': notes.number_types(info.get('dtype'), config)}


def _is_known(fact: Json) -> bool:
    return fact not in (None, '', {})


def _blocks(title: str, above: Sequence[str], tables: Iterable[Table]) -> list[str]:
    """Markdown of a title, the notes that belong to all of its tables, and the tables."""
    shown = [f'### {render.markdown_text(title)}', *([render.items(above)] if above else [])]
    for table in tables:
        own = tuple(note for note in table.notes if note not in above)
        # A level below the title.
        shown.append(f'#{render.markdown(dataclasses.replace(table, notes=own))}')
    return shown


def _part(section: Section) -> tuple[str, list[str]]:
    """The average of a section's main score, or one for each setting; and its tables."""
    score, column = section.scores[0], section.columns[-1]
    named = ' '.join(filter(None, (score, column.group, column.label)))
    decimals = section.decimals_of(score)
    cells = {system.name: system.cell(score, column.tasks, decimals) for system in section.runs}
    is_one = len(section.runs) == 1
    said = [str(c) if is_one else f'{n}: {c}' for n, c in cells.items() if not c.is_missing]
    headline = f'{named} {", ".join(said)}' if said else ''
    title = f'{section.title}, {section.split} split'
    return headline, _blocks(title, section.notes, layout.tables(section))


def _headline(system: System) -> str:
    """The mean score over languages without adaptation, and with the most shots of `System.way`."""
    way, shots = system.way, max(system.way_shots, default=0)
    known = {
        lang: pair
        for lang in system.languages
        if all(pair := tuple(system.stats(system.group(lang, k)) for k in (0, shots)))
    }
    if way.start != 'source' or not shots or not known:
        return ''
    low, high = (
        statistics.fmean(one.mean for one in of_k if one)
        for of_k in zip(*known.values(), strict=True)
    )
    over = f'mean over {len(known)} languages' if len(known) > 1 else next(iter(known))
    how = sweep_tables.METHODS.get(way.method, way.method)
    return f'{system.metric}, {over}, K=0: {low:.1f}, K={shots} ({how}): {high:.1f}'


# ---------------------------------------------------------------------------------------- the page


def markdown(experiments: Sequence[Experiment]) -> str:
    """The whole page; the same experiments give the same bytes."""
    blocks = [f'<!-- {MARK} -->', '# Model zoo', _ABOUT, _overview(experiments)]
    for one in experiments:
        about = msgspec.json.encode(msgspec.structs.replace(one, section='')).decode()
        about = about.replace('>', '\\u003e')  # Nothing in it can end the comment.
        blocks += [f'<!-- {about} -->', _heading(one), one.section]
    return '\n\n'.join(blocks) + '\n'


def of_page(data: bytes, name: str) -> list[Experiment]:
    """The experiments of a page that `markdown` wrote; `name` is that of its file, for messages.

    Raises:
      UserError: it is no such page, or was edited: its table and sections do not match.
    """
    _, *pieces = _COMMENT.split(data.decode('utf-8', errors='replace'))
    experiments = []
    for about, text in zip(pieces[::2], pieces[1::2], strict=True):
        one = files.parse_json(about, Experiment, name)
        one.section = text.removeprefix(f'{_heading(one)}\n\n').rstrip('\n')
        experiments.append(one)
    if markdown(experiments).encode() != data:
        raise UserError(
            f'nothing can be added to {name}: its table of experiments does not match its '
            'sections, as after an edit by hand; undo the edit, or name the workdirs of all '
            'experiments without --add'
        )
    return experiments


def joined(experiments: Sequence[Experiment], page: Sequence[Experiment] = ()) -> list[Experiment]:
    """Joins those of a page, which stay unless `experiments` has them, and the others.

    A name that another experiment also has ends with the name of a workdir.
    """
    fresh = {one.key: one for one in experiments}
    kept = [one.name for one in page if one.key not in fresh]
    named = collections.Counter(one.name for one in experiments)
    for key, one in fresh.items():
        if named[one.name] > 1 or any(f'{name} ('.startswith(f'{one.name} (') for name in kept):
            # Commands that set other keys of one config.
            fresh[key] = msgspec.structs.replace(one, name=f'{one.name} ({one.workdir})')
    return [*(fresh.pop(one.key, one) for one in page), *fresh.values()]


def _overview(experiments: Sequence[Experiment]) -> str:
    """A row an experiment: the main score, the hours, and the hardware where it differs."""
    costs, said = COSTS, ''
    machines = {one.costs.get('hardware', '') for one in experiments}
    if len(machines) == 1:
        costs = COSTS[:-1]
        machine = render.markdown_text(machines.pop())
        said = f'Hardware: {machine}.\n\n' if machine else ''
    heads = ('experiment', 'main score', *costs)
    lines = [heads, ['---'] * len(heads)]
    for one in experiments:
        cells = (one.score, *(one.costs.get(key, '') for key in costs))
        name = render.markdown_text(one.name).replace(',', ', ')  # To wrap there.
        lines.append([name, *map(render.markdown_text, cells)])
    return said + render.grid(lines)


def _heading(one: Experiment) -> str:
    return f'## {render.markdown_text(one.name)}'


# ------------------------------------------------------------------------------------- the program


def main(argv: Sequence[str]) -> int:
    """The command line, without the program's name."""
    args = CommandLine('zoo', __doc__, FLAGS).parse(argv)
    if args.add and not args.output:
        raise UserError('--add needs --output=FILE, the page that it adds to')
    named = of_workdirs(args.folder)
    if not args.output:
        print(markdown(joined(named)), end='')
        return 0
    output = pathlib.Path(args.output)
    files.check_own(output, 'a page of xlbench.zoo', [MARK])
    try:
        with locks.file(output):
            before: Sequence[Experiment] = ()
            if args.add and output.exists():
                before = of_page(untrusted.read_bytes(output), str(output))
            files.write(output, markdown(joined(named, before)))
    except OSError as error:
        raise UserError(f'cannot write {output}: {error.strerror}') from None
    print(f'wrote {output}')
    return 0


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv[1:]))
