"""The files that MTG's leaderboard takes: the texts of one system, a JSON file for each task.

  QG-mt5.json    {"en": ["What is ...?", ...], "de": [...], "es": [...], "fr": [...], "zh": []}

A list has a text for each example of the test set, in its order, and is empty where a language was
not evaluated. Monolingual runs of one model make one system together. Texts are those in the
language of the input; those of a system that has none of these, from one other language.
"""

import itertools
import json
import re
from collections.abc import Sequence

from xlbench import benchmarks
from xlbench.benchmarks import ParallelBenchmark
from xlbench.reporting import predictions, sections as sections_lib
from xlbench.reporting.paper_tables import material
from xlbench.reporting.results import Result, Run
from xlbench.reporting.systems import Pick
from xlbench.system.errors import UserError

NAME = 'mtg'  # Of the format, and of the benchmarks whose names begin so.
LANGUAGES = ('en', 'de', 'es', 'fr', 'zh')  # In the order of the official form.
HEAD = '{"en": ['  # Of its files, which may be written again.
PREFIXES = {'sg': 'SG', 'qg': 'QG', 'tg': 'TG', 'summ': 'Summ'}


def submissions(
    runs: Sequence[Run], step: str | int = 'last', split: str | None = None
) -> dict[str, str]:
    """The files of all systems: name -> content.

    Raises:
      UserError: a run lacks predictions of what it was trained for, or has more or fewer than
        there are examples.
    """
    contents: dict[str, str] = {}
    for section in sections_lib.sections(runs, step, split):
        benchmark = section.benchmark
        if isinstance(benchmark, ParallelBenchmark) and benchmark.name.startswith(NAME):
            for name, picks in _systems(benchmark, section.picks).items():
                for task, texts in _texts(benchmark, picks).items():
                    file = f'{PREFIXES.get(task, task.upper())}-{name}.json'
                    if file in contents:
                        raise UserError(
                            f'two systems would be {file}; rename one of their workdirs'
                        )
                    contents[file] = json.dumps(texts, ensure_ascii=False) + '\n'
    if not contents:
        raise UserError('--format=mtg is for runs on MTG, and none of these has texts of its tasks')
    return contents


def _systems(benchmark: ParallelBenchmark, picks: Sequence[Pick]) -> dict[str, list[Pick]]:
    """The runs of each system, under the name of its files."""
    groups: dict[str, list[Pick]] = {}
    for pick in picks:
        scenario = pick.run.scenario
        name = pick.run.name
        if scenario is not None and not pick.run.system:
            if lacking := [task for task in scenario.evaluate if task not in pick.results]:
                raise UserError(
                    f'{pick.run.workdir} has no predictions of {lacking[0]} on the split '
                    f'{pick.split} at step {pick.step}; run python -m xlbench.evaluate'
                )
            pick = material.inside(pick)
            if scenario.name.startswith('mono'):  # The other languages are other runs.
                name = f'{material.model_of(benchmark, pick.run)}-{scenario.name}'
        groups.setdefault(re.sub(r'[^\w.-]+', '-', name).strip('-.'), []).append(pick)
    for members in groups.values():
        for other, pick in itertools.combinations(members, 2):
            if shared := sorted(set(pick.results) & set(other.results)):
                raise UserError(
                    f'{other.run.workdir} and {pick.run.workdir} both have texts of '
                    f'{shared[0]}; the leaderboard takes one run of a system'
                )
    return groups


def _texts(benchmark: ParallelBenchmark, picks: Sequence[Pick]) -> dict[str, dict[str, list[str]]]:
    """The texts of a system: task -> language -> a text for each example."""
    by_target: dict[tuple[str, str], dict[str, tuple[Pick, Result]]] = {}
    for pick in picks:
        for name, result in pick.results.items():
            if name in benchmark.task_names():
                parsed = benchmarks.parse_task(name)
                of_target = by_target.setdefault((parsed.task, parsed.target), {})
                of_target[parsed.source] = pick, result
    languages = dict.fromkeys((*LANGUAGES, *benchmark.languages))
    texts: dict[str, dict[str, list[str]]] = {}
    for task in benchmark.tasks:
        counts = {}
        for lang in languages:
            if (sources := by_target.get((task, lang))) is None:
                continue
            if lang not in sources and len(sources) > 1:
                pick, _ = next(iter(sources.values()))
                raise UserError(
                    f'{pick.run.workdir} writes {lang} from {" and ".join(sorted(sources))}; the '
                    'leaderboard takes one text for each example'
                )
            pick, result = sources.get(lang) or next(iter(sources.values()))
            texts.setdefault(task, {code: [] for code in languages})[lang] = _of(
                benchmark, pick, result
            )
            counts[lang] = len(texts[task][lang])
        if len(set(counts.values())) > 1:
            said = ', '.join(f'{count} in {lang}' for lang, count in counts.items())
            raise UserError(
                f'{picks[0].run.workdir} has {said} of {task}; all languages have the same examples'
            )
    return texts


def _of(benchmark: ParallelBenchmark, pick: Pick, result: Result) -> list[str]:
    """The texts of one task in the order of its examples, once their number is right."""
    rows = predictions.of_result(result)
    place = f'{pick.run.workdir} has'
    what = f'{result.task}, split {result.split}'
    if not rows or any(row.prediction is None for row in rows.values()):
        raise UserError(f'{place} no predictions of {what}; run python -m xlbench.evaluate')
    known = pick.run.info.get('examples')
    recorded = known.get(f'{result.task}/{result.split}') if isinstance(known, dict) else None
    parsed = benchmarks.parse_task(result.task)
    size = benchmark.official_size(parsed.task, result.split, parsed.source)
    if size is None or result.data == 'sample':
        size = recorded if isinstance(recorded, int) else None
    for count, whose in ((result.num_examples, 'it was scored on'), (size, 'the split has')):
        if count is not None and len(rows) != count:
            raise UserError(
                f'{place} {len(rows):,} predictions of {what}, and {whose} {count:,} examples'
            )
    keys = list(rows)
    if all(key.isdecimal() for key in keys):
        keys.sort(key=int)
    return [rows[key].prediction or '' for key in keys]
