"""The tables of arXiv:2012.15682 from sweeps, and the paper's numbers where they may be compared.

Sweeps that adapt the same source-trained model to the same task are one `System`. Every number is
over the buckets of a group, with the learning rate that is best on dev (see results.Sweep), and one
seed, the one with the most buckets. Whatever cannot be made is a line that says why.

  about        table 1: the task, its metric, labels and languages
  source       table 7: source training in English, and the search of its learning rate
  scores       tables 2, 12 and 13: mean and standard deviation by language and shots K
  ranges       smallest and largest score, and the number of buckets
  growth       section 5.2: whether the mean grows with K, and the spread shrinks
  scripts      section 5.2: mean gains of languages in Latin script, and of the others
  starts       tables 4 and 11: adaptation of a model without source training
  methods      table 6: what is trained
  factors      table 3: gains against lexical overlap and common features of word order
  overlaps     table 14: lexical overlap
"""

import collections
import dataclasses
import functools
import pathlib
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from xlbench import errors
from xlbench.benchmarks import FEWSHOT, languages, topics
from xlbench.data import prepared
from xlbench.fewshot import lexical, paper
from xlbench.fewshot.results import ZERO_SHOT, Row, Sweep
from xlbench.metrics import classification, tagging
from xlbench.reporting import grids, results as runs_results, tables as tables_lib
from xlbench.reporting.tables import Column, Grid

# The paper's model, and its buckets of each language and K.
CHECKPOINT = 'bert-base-multilingual-cased'
BUCKETS = 40
_TOLERANCE = 0.01  # How far a split may be from its official size: readers leave out some.
_DECIMALS = 2
_CSV_FIELDS = (
    'system', 'data', 'task', 'language', 'shots', 'method', 'start', 'learning_rate', 'seed',
    'metric', 'buckets', 'empty', 'mean', 'standard_deviation', 'population_standard_deviation',
    'min', 'max', 'paper_mean', 'paper_standard_deviation',
)  # fmt: skip
_LATIN = 'latin'  # The script of English.
_SCORES_IN = {'udpos': 'table 12', 'panx': 'table 13'}  # Of the paper; others are in table 2.


class Stats(NamedTuple):
    """A group's scores over its buckets, 0 to 100.

    Attributes:
        scores: By bucket.
        empty: Numbers of the buckets without an example.
        learning_rate: That was chosen; None without adaptation.
        seed: Whose adaptations these are.
        has_dev: Whether the learning rate was chosen on a dev set.
        missing: Buckets that the sweep still has to adapt to.
    """

    scores: tuple[float, ...]
    empty: tuple[int, ...] = ()
    learning_rate: float | None = None
    seed: int | None = None
    has_dev: bool = True
    missing: int = 0

    @property
    def mean(self) -> float:
        """Over buckets."""
        return statistics.fmean(self.scores)

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the sample (n - 1); None for a single bucket."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else None

    @property
    def population(self) -> float:
        """Standard deviation of the population (n)."""
        return statistics.pstdev(self.scores)


class Group(NamedTuple):
    """What a mean is over; as Row.group without the task."""

    language: str
    shots: int
    method: str = 'full'
    start: str = 'source'


@dataclasses.dataclass(frozen=True)
class System:
    """The sweeps that adapt one source-trained model to one task.

    Attributes:
        task: Of the benchmark.
        sweeps: One or several.
        name: What tells it from other systems of the task; '' for the only one.
        searched: Workdirs of source training for the task, the one that is adapted among them.
    """

    task: str
    sweeps: tuple[Sweep, ...]
    name: str = ''
    searched: tuple[pathlib.Path, ...] = ()

    @property
    def title(self) -> str:
        """The task, and the system where there are others."""
        return f'{topics.title(self.task)} ({self.task}{self.name and ", " + self.name})'

    @property
    def metric(self) -> str:
        """The name of the score."""
        return topics.main_score(self.task)

    @property
    def signature(self) -> str:
        """What decides the score."""
        is_tagging = topics.is_tagging(self.task)
        return (tagging.ChunkF1() if is_tagging else classification.Classification()).signature

    @functools.cached_property
    def groups(self) -> dict[Group, Stats]:
        """The scores of each group; of several sweeps' those with the most buckets."""
        found: dict[Group, Stats] = {}
        for sweep in self.sweeps:
            for group, stats in _stats(sweep, self.task).items():
                if group not in found or len(found[group].scores) < len(stats.scores):
                    found[group] = stats
        return found

    @functools.cached_property
    def languages(self) -> tuple[str, ...]:
        """Those that something is known of, by code."""
        return tuple(sorted({group.language for group in self.groups}))

    def shots(self, **wanted: str) -> tuple[int, ...]:
        """The values of K, without 0, of groups with these fields."""
        found = (g for g in self.groups if all(getattr(g, k) == v for k, v in wanted.items()))
        return tuple(sorted({group.shots for group in found} - {0}))

    def zero_shot(self, language: str, start: str = 'source') -> Stats | None:
        """The score without adaptation."""
        return self.groups.get(Group(language, 0, ZERO_SHOT, start))

    @functools.cached_property
    def source(self) -> 'SourceTraining | str':
        """How the model that is adapted was trained; or a sentence on why that is not known."""
        return _source_training(self.sweeps[0].source_workdir, self.task)

    @property
    def english(self) -> 'tuple[float, int] | str':
        """English test score of the model that is adapted, and of how many examples; or why not."""
        return self.source if isinstance(self.source, str) else self.source.test

    @functools.cached_property
    def data(self) -> str:
        """'sample', 'official' or 'other', as in xlbench.reporting.tables."""
        if any(sweep.is_sample for sweep in self.sweeps):
            return 'sample'
        return 'other' if self._reason or not self.comparable else 'official'

    @functools.cached_property
    def about_data(self) -> str:
        """The sentence about it that belongs under every table."""
        if self.data == 'sample':
            return (
                'SAMPLE DATA: scored on the embedded sample corpora, which are generated. '
                'No number here compares with a published one.'
            )
        if self.data == 'other':
            reason = self._reason or next(iter(self._mismatches.values()))
            return (
                f'NOT THE OFFICIAL SETTING: {reason}. No number here compares with a published one.'
            )
        line = (
            f'The model is {CHECKPOINT}, English training and test sets have their official '
            f'sizes, up to 1 %. Numbers of the paper stand beside those of all {BUCKETS} buckets.'
        )
        if self.task == 'mldoc':
            line += " The paper's buckets of MLDoc are not published: these are others."
        if self._mismatches:
            what = '; '.join(f'{lang}: {reason}' for lang, reason in self._mismatches.items())
            line += f' Without numbers of the paper: {what}.'
        return line

    @property
    def comparable(self) -> tuple[str, ...]:
        """The languages whose scores the paper's may stand beside."""
        if any(sweep.is_sample for sweep in self.sweeps) or self._reason:
            return ()
        return tuple(lang for lang in self.languages if lang not in self._mismatches)

    @functools.cached_property
    def _reason(self) -> str:
        """Why no language compares with the paper; '' if some may."""
        if self.task not in FEWSHOT.tasks:
            return f'{self.task} is no task of the paper'
        for sweep in self.sweeps:
            if sweep.info.get('data') != 'files':
                return f'{_folder(sweep)} does not say where its data is from'
            start = str(sweep.source_config.get('init_from') or '')
            if pathlib.PurePath(start.partition('@')[0]).name != CHECKPOINT:
                began = start or 'fresh parameters'
                return f'source training began with {tables_lib.clean(began)}, not {CHECKPOINT}'
            key, split = FEWSHOT.task_name(self.task, FEWSHOT.pivot), 'train'
            size = sweep.source_examples.get(f'{key}/{split}')
            official = paper.sizes()[self.task, FEWSHOT.pivot, split]
            if not _is_near(size, official):
                return (
                    f'the source model is trained on {size or "an unknown number of"} English '
                    f'examples (official: {official})'
                )
        return ''

    @functools.cached_property
    def _mismatches(self) -> dict[str, str]:
        """Language -> why its test set is not the paper's."""
        found = {}
        for lang in self.languages:
            official = paper.sizes().get((self.task, lang, 'test'))
            size = max(sweep.num_examples(self.task, lang) for sweep in self.sweeps)
            if official is None:
                found[lang] = 'the official size of its test set is not known'
            elif not _is_near(size, official):
                found[lang] = f'its test set has {size} examples (official: {official})'
        return found

    def paper(self, group: Group) -> tuple[str, str] | None:
        """The paper's mean and standard deviation, as printed, where they may stand beside ours."""
        english = group.language == FEWSHOT.pivot
        compares = self.english_compares if english else self.compares(group)
        return paper.scores().get((self.task, *group)) if compares else None

    @property
    def english_compares(self) -> bool:
        """Whether the paper's English score may stand beside ours."""
        if self.data != 'official' or isinstance(self.english, str):
            return False
        official = paper.sizes().get((self.task, FEWSHOT.pivot, 'test'))
        return official is not None and _is_near(self.english[1], official)

    def compares(self, group: Group) -> bool:
        """Whether the paper's score of a group may stand beside ours: it is over all buckets."""
        stats = self.groups.get(group)
        if stats is None or group.language not in self.comparable:
            return False
        return not group.shots or len(stats.scores) + len(stats.empty) == BUCKETS


def _is_near(size: int | None, official: int) -> bool:
    return size is not None and abs(size - official) <= _TOLERANCE * official


@dataclasses.dataclass(frozen=True)
class Table:
    """One table, or why there is none.

    Attributes:
        title: What it shows, and where the paper has it.
        system: Whose results they are.
        grid: The cells; None if it cannot be made.
        notes: Sentences under it, that about the data first; or the reason why there is none.
    """

    title: str
    system: System
    grid: Grid | None
    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class SourceTraining:
    """One source training in English, as far as its workdir tells.

    Attributes:
        workdir: Of the training.
        learning_rate: Of the last stage, at its highest; None if the config does not say.
        batch_size: Likewise.
        epochs: Over the training examples; None if their number is not known.
        dev: Score on the English dev set, and of how many examples, at the step that is adapted;
            or a sentence on why that is not known.
        test: Likewise, on the English test set.
    """

    workdir: pathlib.Path
    learning_rate: float | None
    batch_size: int | None
    epochs: float | None
    dev: tuple[float, int] | str
    test: tuple[float, int] | str


def _source_training(workdir: pathlib.Path, task: str) -> SourceTraining | str:
    """Reads a workdir of source training; a sentence if it cannot be."""
    try:
        run = runs_results.read_run(workdir)
    except errors.UserError as error:
        return str(error)
    name, metric = topics.task_name(task, FEWSHOT.pivot), topics.main_score(task)

    def score(split: str) -> tuple[float, int] | str:
        try:
            found = run.at(run.choose_step('best', split, metric), split).get(name)
        except errors.UserError as error:
            return str(error)
        if found is None or metric not in found.scores:
            return f'{workdir} has no {metric} of {name} on the split {split!r}'
        return found.scores[metric], found.num_examples

    stages = [*map(_block, _block(run.config.get('stages')).values())]
    batch_size = _whole(_block(run.config.get('batches')).get('batch_size'))
    examples = _whole(_block(run.info.get('examples')).get(f'{name}/train'))
    rows = batch_size * sum(_whole(stage.get('num_steps')) for stage in stages)
    rate = _block(stages[-1].get('optimizer')).get('learning_rate') if stages else None
    return SourceTraining(
        workdir,
        float(rate) if isinstance(rate, int | float) else None,
        batch_size or None,
        rows / examples if examples else None,
        score('validation'),
        score('test'),
    )


def _block(value: object) -> Mapping[str, Any]:
    """The value if it is a block of a config; else an empty one."""
    return value if isinstance(value, dict) else {}


def _whole(value: object) -> int:
    """The value if it is a whole number; else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def systems(sweeps: Sequence[Sweep], searched: Sequence[str | pathlib.Path] = ()) -> list[System]:
    """Sorts sweeps by task and source-trained model.

    Args:
        sweeps: Of any tasks.
        searched: Workdirs of further source training, such as with other learning rates.
    """
    found: dict[tuple[str, str], list[Sweep]] = {}
    for sweep in sweeps:
        for task in dict.fromkeys(row.task for row in sweep.rows):
            if not topics.is_known(task):
                raise errors.unknown(f'task in {sweep.workdir}', task, FEWSHOT.tasks)
            found.setdefault((task, sweep.source), []).append(sweep)
    number = collections.Counter(task for task, _ in found)
    folders = [_folder(members[0]) for members in found.values()]
    names = [
        folder if folders.count(folder) == 1 else tables_lib.clean(members[0].workdir)
        for folder, members in zip(folders, found.values(), strict=True)
    ]
    others: dict[str, list[pathlib.Path]] = {task: [] for task in number}
    for (task, _), members in found.items():
        others[task].append(members[0].source_workdir)
    for path in map(pathlib.Path, searched):
        scenario = runs_results.read_run(path).scenario
        if scenario is None or scenario.task not in FEWSHOT.tasks:
            raise errors.UserError(f'{path} is no source training for a task of few-shot transfer')
        others.setdefault(scenario.task, []).append(path)
    made = [
        System(
            task,
            tuple(members),
            name if number[task] > 1 else '',
            tuple(dict.fromkeys(path for path in others[task])),
        )
        for name, ((task, _), members) in zip(names, found.items(), strict=True)
    ]
    order = (*FEWSHOT.tasks, *number)
    return sorted(made, key=lambda system: order.index(system.task))


def all_tables(system: System, overlaps: 'Overlaps | None' = None) -> list[Table]:
    """Every table of one system; those that cannot be made say why."""
    overlaps = overlaps or Overlaps(system)
    makers = (about, source, scores, ranges, growth, scripts, starts, methods)
    made = [make(system) for make in makers]
    return [*made, factors(system, overlaps), overlap_table(system, overlaps)]


# ---------------------------------------------------------------------------------------------
# The tables.


def about(system: System) -> Table:
    """Table 1: the task, its metric, labels and languages."""
    title = 'The task (paper: table 1)'
    labels = {len(s.labels(system.task, lang)) for s in system.sweeps for lang in system.languages}
    train = [lang in topics.train_languages(system.task) for lang in system.languages]
    facts = {
        'metric': system.metric,
        'labels': str(max(labels)) if max(labels, default=0) else '-',
        'target_training_sets': 'Yes' if all(train) else 'No',
        'languages': f'{len({*system.languages} | {FEWSHOT.pivot})}',
    }
    columns, rows = [Column('', 'here', ())], {key: [value] for key, value in facts.items()}
    if system.data == 'official':
        columns.append(Column('', 'paper', ()))
        for key, cells in rows.items():
            cells.append(paper.tasks()[system.task][key])
    names = {
        'target_training_sets': 'training sets in target languages',
        'languages': 'languages, English among them',
    }
    cells = tuple((names.get(key, key), 'fact', tuple(row)) for key, row in rows.items())
    grid = Grid(('task',), tuple(columns), cells, 'property')
    return Table(title, system, grid, _notes(system, [], metric=False))


def source(system: System) -> Table:
    """Table 7: the English dev score of the source model, and the search of its learning rate."""
    title = 'Source training in English (paper: table 7)'
    if isinstance(system.source, str):
        return Table(title, system, None, (system.source,))
    mine = system.source.workdir
    found = {path: _source_training(path, system.task) for path in (mine, *system.searched)}
    runs = {path: run for path, run in found.items() if not isinstance(run, str)}
    labels = ('learning rate', 'batch size', 'epochs', f'dev {system.metric}')
    columns = [Column('', label, ()) for label in (*labels, f'test {system.metric}', 'adapted')]
    rows = []
    for path, run in runs.items():
        numbers = (run.learning_rate, run.batch_size, run.epochs)
        values = ['-' if number is None else f'{number:.4g}' for number in numbers]
        values += [_number(None if isinstance(x, str) else x[0]) for x in (run.dev, run.test)]
        name = tables_lib.clean(str(path)).removesuffix('/source')
        rows.append((name, 'run', (*values, 'yes' if path == mine else 'no')))
    if system.data == 'official':
        dev, rate = paper.source()[system.task]
        rows.append(('paper', 'paper', (rate, '128', '10', dev, '-', 'yes')))
    notes = [f'Without {path}: {why}.' for path, why in found.items() if isinstance(why, str)]
    missing = [run.dev for run in runs.values() if isinstance(run.dev, str)]
    notes += [f'No dev score: {why}.' for why in missing]
    rates = {run.learning_rate for run in runs.values()}
    notes.append(
        f'{len(rates)} learning rates were tried; the highest dev score chooses.'
        if len(rates) > 1
        else 'One learning rate was tried; the paper has the best of 1e-5, 3e-5, 5e-5 and 7e-5. '
        'Others that were tried are shown with --searched WORKDIR.'
    )
    grid = Grid((system.metric,), tuple(columns), tuple(rows), 'source training')
    return Table(title, system, grid, _notes(system, notes))


def scores(system: System) -> Table:
    """Tables 2, 12 and 13: a row a language, English first; zero-shot, and each K."""
    title = f'Scores by language and shots (paper: {_SCORES_IN.get(system.task, "table 2")})'
    shots = system.shots(method='full', start='source')
    columns, notes = {}, []
    names = system.languages
    if isinstance(system.english, str):
        notes.append(f'Without English: {system.english}.')
    elif system.groups:
        names = (FEWSHOT.pivot, *names)
        notes.append(
            'English is the language of source training: its score with K=0 is no transfer.'
        )
    for k in (0, *shots):
        of_k = [Group(lang, k, 'full' if k else ZERO_SHOT) for lang in names]
        has_paper = any(map(system.paper, of_k))
        own = (f'K={k}', 'ours') if has_paper else (system.metric, f'K={k}')
        columns[own] = [_show(system.groups.get(group)) for group in of_k]
        if names != system.languages and not k:
            columns[own][0] = _number(system.english[0])
        if has_paper:
            columns[f'K={k}', 'paper'] = [_show_paper(system.paper(group)) for group in of_k]
    notes += _group_notes(system, method='full', start='source')
    return _table(title, system, columns, notes, names)


def ranges(system: System) -> Table:
    """Smallest and largest score and the number of buckets, by language and K."""
    title = 'Smallest and largest score, and number of buckets'
    shots = system.shots(method='full', start='source')
    if not shots:
        return Table(title, system, None, ('no adaptation of the whole model is finished',))
    columns = {}
    for k in shots:
        stats = [system.groups.get(Group(lang, k)) for lang in system.languages]
        for name, least_or_most in (('min', min), ('max', max)):
            columns[f'K={k}', name] = [
                _number(least_or_most(s.scores) if s and s.scores else None) for s in stats
            ]
        columns[f'K={k}', 'buckets'] = [str(len(s.scores)) if s else '-' for s in stats]
    return _table(title, system, columns, _group_notes(system, method='full', start='source'))


def growth(system: System) -> Table:
    """Section 5.2: whether the mean grows from K to K, and the standard deviation shrinks."""
    title = 'Whether the mean grows with K and the spread shrinks (paper: section 5.2)'
    shots = system.shots(method='full', start='source')
    if not shots:
        return Table(title, system, None, ('no adaptation of the whole model is finished',))
    columns = {}
    steps = [*zip((0, *shots), shots, strict=False)]
    for group, value, of in (
        ('mean grows', lambda stats: stats.mean, steps),
        ('spread shrinks', lambda stats: _negative(stats.deviation), steps[1:]),
    ):
        for low, high in of:
            pairs = [_pair(system, lang, low, high) for lang in system.languages]
            answers = [_grows(*map(value, pair)) if all(pair) else None for pair in pairs]
            known = [answer for answer in answers if answer is not None]
            columns[group, f'K={low} to {high}'] = [
                *({True: 'yes', False: 'no', None: '-'}[answer] for answer in answers),
                f'{sum(known)} of {len(known)}',
            ]
    notes = [
        'The spread is the standard deviation over buckets, of the sample.',
        *_gaps(system, method='full', start='source'),
    ]
    return _table(title, system, columns, notes, (*system.languages, 'yes in'))


def scripts(system: System) -> Table:
    """Section 5.2: mean gains over zero-shot of languages in Latin script, and of the others."""
    title = 'Mean gains by script (paper: section 5.2)'
    shots = system.shots(method='full', start='source')
    every = {k: gains(system, k) for k in shots}
    is_latin = {
        lang: languages.get(lang).script == _LATIN for of_k in every.values() for lang in of_k
    }
    if len({*is_latin.values()}) < 2:
        what = 'in Latin script' if any(is_latin.values()) else 'in other scripts'
        why = f'all languages that are adapted to are {what}' if is_latin else ''
        why = why or 'no adaptation of the whole model is finished'
        return Table(title, system, None, (why,))
    columns: dict[tuple[str, str], list[str]] = {}
    for k in shots:
        halves = [[gain for lang, gain in every[k].items() if is_latin[lang] == x] for x in (1, 0)]
        columns[f'K={k}', 'gain'] = [
            f'{statistics.fmean(half):+.{_DECIMALS}f}' if half else '-' for half in halves
        ]
        columns[f'K={k}', 'languages'] = [str(len(half)) for half in halves]
        if system.data == 'official' and (system.task, k) in paper.scripts():
            columns[f'K={k}', 'paper'] = [f'+{x}' for x in paper.scripts()[system.task, k]]
    notes = [
        'Gain: mean score with K shots less the zero-shot score, averaged over languages.',
        *_gaps(system, method='full', start='source'),
    ]
    if system.data == 'official' and system.task == 'panx':
        notes.append(
            "The paper's numbers are those of its table 13 if Indonesian is counted among the "
            'other scripts; with Indonesian where it belongs, the table gives +3.8 and +5.6.'
        )
    return _table(title, system, columns, notes, ('Latin script', 'other scripts'))


def starts(system: System) -> Table:
    """Tables 4 and 11: adapted without source training, and how much worse that is."""
    title = 'Without source training, and the difference it makes (paper: tables 11 and 4)'
    shots = system.shots(method='full', start='none')
    if not shots:
        return Table(title, system, None, ("no adaptation with the start 'none' is finished",))
    known = [g.language for g in system.groups if (g.start, g.method) == ('none', 'full')]
    langs = [lang for lang in system.languages if lang in known]
    columns = {}
    for k in shots:
        none = [system.groups.get(Group(lang, k, 'full', 'none')) for lang in langs]
        source = [system.groups.get(Group(lang, k)) for lang in langs]
        columns[f'K={k}', 'none'] = [*map(_show, none)]
        columns[f'K={k}', 'source'] = [*map(_show, source)]
        columns[f'K={k}', 'difference'] = [*map(_difference, none, source)]
        gaps = [
            paper.gaps().get((system.task, lang, k))
            if all(system.compares(Group(lang, k, 'full', start)) for start in ('none', 'source'))
            else None
            for lang in langs
        ]
        if any(gaps):
            columns[f'K={k}', 'paper'] = [gap or '-' for gap in gaps]
    notes = ['Difference: the mean without source training less that with it.']
    if any(cell.endswith('?') for cells in columns.values() for cell in cells):
        notes.append(
            'Differences with a ? stand so in table 4, but table 11 less table 12 gives another '
            'one; they are those to the scores with K=2.'
        )
    notes += _group_notes(system, method='full')
    return _table(title, system, columns, notes, langs)


def methods(system: System) -> Table:
    """Table 6: what is trained in adaptation."""
    title = 'Methods of adaptation (paper: table 6)'
    names = [name for name in _METHODS if system.shots(method=name, start='source')]
    if len(names) < 2:
        only = f'only {names[0]} is' if names else 'none is'
        return Table(title, system, None, (f'it needs two methods, and {only} finished',))
    langs = [
        lang
        for lang in system.languages
        if any(g.language == lang and g.method in names for g in system.groups)
    ]
    columns = {('zero-shot', 'K=0'): [_show(system.zero_shot(lang)) for lang in langs]}
    for name in names:
        for k in system.shots(method=name, start='source'):
            of_k = [Group(lang, k, name) for lang in langs]
            own = [_show(system.groups.get(group)) for group in of_k]
            columns[_METHODS[name], f'K={k}'] = own
            # Table 6 alone has other methods; for the full model it repeats table 2.
            if any(map(system.paper, of_k)):
                printed = [_show_paper(system.paper(group)) for group in of_k]
                columns[_METHODS[name], f'K={k} paper'] = printed
    return _table(title, system, columns, _group_notes(system, start='source'), langs)


_METHODS = {
    'full': 'full model',
    'fc': 'FC only',
    'fc_pooler': 'FC+Pooler',
    'cos_pooler': 'COS+Pooler',
    'fc_reset_pooler': 'FC(reset)+Pooler',
}


class Overlaps:
    """Lexical overlap of a system's languages with English; read when it is first asked for."""

    def __init__(self, system: System):
        self._system = system

    @functools.cached_property
    def found(self) -> dict[tuple[str, str, int], float]:
        """(unit, language, K) -> 0 to 100, of the languages whose buckets are at hand."""
        return self._read[0]

    @functools.cached_property
    def missing(self) -> dict[str, str]:
        """Language -> why there is no overlap."""
        return self._read[1]

    @functools.cached_property
    def _read(self) -> tuple[dict[tuple[str, str, int], float], dict[str, str]]:
        system, found, missing = self._system, {}, {}
        for sweep in system.sweeps:
            groups = [row for row in sweep.rows if row.task == system.task and row.shots]
            for lang in dict.fromkeys(row.language for row in groups):
                shots = sorted({row.shots for row in groups if row.language == lang})
                try:
                    found |= lexical.overlaps(sweep.open_prepared, system.task, [lang], shots)
                except (errors.UserError, prepared.NotPrepared, OSError) as error:
                    missing[lang] = str(error)
        known = {lang for _, lang, _ in found}
        return found, {lang: why for lang, why in missing.items() if lang not in known}


def gains(system: System, shots: int | None) -> dict[str, float]:
    """Language -> mean score with K shots less the zero-shot score.

    Args:
        system: Whose scores.
        shots: K; None averages the gains of all K, of those languages that have all of them.
    """
    every = system.shots(method='full', start='source') if shots is None else (shots,)
    found = {}
    for lang in system.languages:
        pairs = [_pair(system, lang, 0, k) for k in every]
        if pairs and all(low and high for low, high in pairs):
            found[lang] = statistics.fmean(high.mean - low.mean for low, high in pairs)
    return found


class Factor(NamedTuple):
    """What gains may go with.

    Attributes:
        name: 'features', or a unit of lexical overlap.
        shots: K of the buckets that overlap; None for features.
    """

    name: str
    shots: int | None = None

    def __str__(self) -> str:
        if self.shots is None:
            return 'common features of word order'
        return f'lexical overlap with K={self.shots}, {self.name}s'

    def of(self, lang: str, overlaps: Overlaps) -> float | None:
        """Its value for a language; None if it is unknown."""
        if self.shots is None:
            return languages.shared_features(lang)
        return overlaps.found.get((self.name, lang, self.shots))


def correlations(
    system: System, overlaps: Overlaps
) -> Iterator[tuple[int | None, Factor, lexical.Correlation | str]]:
    """K of the gains, None for their mean over K; a factor; their correlation, or why none."""
    shots = system.shots(method='full', start='source')
    for k in (None, *shots):
        of_units = [Factor(unit, n) for unit in lexical.UNITS for n in shots if k in (None, n)]
        for factor in (Factor('features'), *of_units):
            values = {lang: factor.of(lang, overlaps) for lang in system.languages}
            try:
                yield k, factor, lexical.correlate(gains(system, k), values)
            except errors.UserError as error:
                yield k, factor, str(error)


def factors(system: System, overlaps: Overlaps) -> Table:
    """Table 3: correlations of the gains, averaged over K, with overlap and common features.

    The paper does not say which K its gains and overlaps are of. Gains averaged over K, and those
    features alone that are known, make its figures for features of its own tables 9, 12 and 13; the
    overlap with K=2 makes those for named entities. For parts of speech no K does: it gives -0.67
    and -0.54 where -0.63 and -0.50 are printed, and table 14 lacks a language.
    """
    title = 'What mean gains over zero-shot transfer go with (paper: table 3)'
    found = [(factor, value) for k, factor, value in correlations(system, overlaps) if k is None]
    left_out: dict[str, list[Factor]] = {}
    for factor, value in found:
        if isinstance(value, str):
            left_out.setdefault(value, []).append(factor)
    reasons = [f'No correlation with {_joined(of)}: {why}.' for why, of in left_out.items()]
    made = [(factor, value) for factor, value in found if not isinstance(value, str)]
    shots = system.shots(method='full', start='source')
    if not shots:
        return Table(title, system, None, ('no adaptation of the whole model is finished',))
    if not made:
        return Table(title, system, None, (' '.join(reasons).removesuffix('.'),))
    columns = [Column('', name, ()) for name in ('Spearman', 'Pearson', 'languages')]
    rows = [[f'{v.spearman:.2f}', f'{v.pearson:.2f}', str(v.languages)] for _, v in made]
    notes = [
        f'Gain: mean score with K shots less the zero-shot score, averaged over '
        f'K={", ".join(map(str, shots))}; a point a language.'
    ]
    if system.data == 'official' and system.task in FEWSHOT.tagging:
        columns += [Column('paper', name, ()) for name in ('Spearman', 'Pearson')]
        printed = {
            Factor('features'): paper.correlations()[system.task, 'features'],
            Factor('wordpiece', 2): paper.correlations()[system.task, 'overlap'],
        }
        for cells, (factor, _) in zip(rows, made, strict=True):
            cells += printed.get(factor, ('-', '-'))
        notes.append(
            "The paper's correlations are over all its languages. It does not say which K they are "
            'for: those with features are what its tables give with gains averaged over K, and '
            'those with overlap stand beside K=2, which gives its figures for named entities.'
        )
    unknown = [lang for lang in system.languages if languages.shared_features(lang) is None]
    if unknown:
        notes.append(
            f'Left out of common features, as none of the six is known: {", ".join(unknown)}.'
        )
    notes += [*reasons, *_gaps(system, method='full', start='source')]
    cells = tuple(
        (str(factor), 'factor', tuple(row)) for (factor, _), row in zip(made, rows, strict=True)
    )
    grid = Grid(('correlation',), tuple(columns), cells, 'factor')
    return Table(title, system, grid, _notes(system, notes))


def _joined(factors: Sequence[Factor]) -> str:
    """'common features of word order; lexical overlap with K=1, 2, words'"""
    by_name: dict[str, list[Factor]] = {}
    for factor in factors:
        by_name.setdefault(factor.name, []).append(factor)
    texts = []
    for of in by_name.values():
        shots = ', '.join(str(factor.shots) for factor in of)
        texts.append(str(of[0]).replace(f'K={of[0].shots}', f'K={shots}'))
    return '; '.join(texts)


def overlap_table(system: System, overlaps: Overlaps) -> Table:
    """Table 14: the overlap of a language's buckets with the English training examples."""
    title = 'Lexical overlap with English in percent (paper: table 14)'
    if not overlaps.found:
        why = next(iter(overlaps.missing.values()), 'no adaptation is finished')
        return Table(title, system, None, (why,))
    shots = sorted({k for _, _, k in overlaps.found})
    columns = {}
    for unit in lexical.UNITS:
        for k in shots:
            found = [overlaps.found.get((unit, lang, k)) for lang in system.languages]
            columns[f'{unit}s', f'K={k}'] = [*map(_number, found)]
    printed = {
        (lang, k): paper.overlaps().get((system.task, lang, k))
        for lang in system.languages
        for k in shots
        if system.compares(Group(lang, k))
    }
    if any(printed.values()):
        for k in shots:
            own = [printed.get((lang, k)) or '-' for lang in system.languages]
            columns['paper', f'K={k}'] = own
    notes = [
        'Of the different words, or wordpieces, of the English training examples, those that are '
        "in a language's buckets of K shots, all of them together.",
        'Words are what stands between spaces, so languages without spaces have long ones.',
        *(f'Without {lang}: {why}.' for lang, why in overlaps.missing.items()),
    ]
    return _table(title, system, columns, notes, metric=False)


# ---------------------------------------------------------------------------------------------
# As text.


def plain(table: Table, max_width: int = 120) -> str:
    """A table for the screen."""
    if table.grid is None:
        return f'{table.title}: left out, as {table.notes[0]}'
    grid = grids.plain(table.grid, max_width)
    return '\n'.join([table.title, grid, *map(tables_lib.clean, table.notes)])


def markdown(table: Table) -> str:
    """A table with its notes."""
    head = f'### {grids.markdown_text(table.title)}'
    if table.grid is None:
        return f'{head}\n\nLeft out: {grids.markdown_text(table.notes[0])}.'
    notes = '\n'.join(f'- {grids.markdown_text(note)}' for note in table.notes)
    return f'{head}\n\n{grids.markdown(table.grid)}\n\n{notes}'


def latex(table: Table) -> str:
    """A table for a paper; '' if it is left out."""
    if table.grid is None:
        return ''
    said = [f'{table.system.title}. {table.title}', *table.notes]
    return grids.latex(table.grid, ' '.join(f'{line.removesuffix(".")}.' for line in said))


def comma_separated(systems: Iterable[System]) -> str:
    """Every group of every system as one line: tidy, for other tools."""
    rows = []
    for system in systems:
        name = system.name or _folder(system.sweeps[0])
        for group, stats in sorted(system.groups.items()):
            printed = system.paper(group) or ('', '')
            numbers = (stats.mean, '', '', '', '') if stats.scores else ('',) * 5
            if group.shots and stats.scores:
                spread = (stats.deviation, stats.population)
                numbers = (stats.mean, *spread, min(stats.scores), max(stats.scores))
            counts = (len(stats.scores), len(stats.empty)) if group.shots else ('', '')
            rows.append((
                name, system.data, system.task, *group, stats.learning_rate, stats.seed,
                system.metric, *counts, *numbers, *printed,
            ))  # fmt: skip
        if not isinstance(system.english, str):
            group = Group(FEWSHOT.pivot, 0, ZERO_SHOT)
            rows.append((
                name, system.data, system.task, *group, None, None, system.metric, '', '',
                system.english[0], '', '', '', '', *(system.paper(group) or ('', '')),
            ))  # fmt: skip
    return grids.comma_separated(_CSV_FIELDS, rows)


def _table(
    title: str,
    system: System,
    columns: Mapping[tuple[str, str], Sequence[str]],
    notes: Iterable[str],
    names: Sequence[str] = (),
    metric: bool = True,
) -> Table:
    """A table of columns by group and label, a row a language; without rows of '-' alone."""
    cells = zip(*columns.values(), strict=True)
    rows = [
        (name, 'language' if name in languages.LANGUAGES else 'count', row)
        for name, row in zip(names or system.languages, cells, strict=True)
        if set(row) - {'-'}
    ]
    if not rows:
        return Table(title, system, None, ('nothing of it is finished but empty buckets',))
    scores = (system.metric,) if metric else ('overlap',)
    heads = tuple(Column(group, label, ()) for group, label in columns)
    grid = Grid(scores, heads, tuple(rows), 'language')
    return Table(title, system, grid, _notes(system, notes, metric))


def _notes(system: System, notes: Iterable[str], metric: bool = True) -> tuple[str, ...]:
    dropped = [f'{_folder(sweep)}: {sweep.dropped}' for sweep in system.sweeps if sweep.dropped]
    signature = [f'Score: {system.signature}'] if metric else []
    return (system.about_data, *notes, *dropped, *signature)


def _group_notes(system: System, **wanted: str) -> list[str]:
    """What to know about the means of the groups with these fields."""
    groups = _groups(system, wanted)
    if not groups:
        of = ' of the whole model' if wanted.get('method') == 'full' else ''
        return [f'No adaptation{of} is finished: zero-shot scores alone.']
    lines = [f'{system.metric}, 0 to 100: mean ± standard deviation (sample, n - 1) over buckets.']
    for has_dev, how in ((True, 'the highest mean dev score over buckets'), (False, '')):
        rates: dict[float, list[str]] = {}
        for group, stats in groups.items():
            if stats.scores and stats.has_dev == has_dev:
                rates.setdefault(stats.learning_rate, []).append(_name(group, wanted))
        if rates:
            how = f'with {how}' if has_dev else 'the smallest, as there is no dev set'
            lines.append(f'Learning rate ({how}): {_by_rate(rates)}.')
    seeds = sorted({str(stats.seed) for stats in groups.values() if stats.scores})
    lines += [f'Seed {", ".join(seeds)}.'] if seeds else []
    return [*lines, *_gaps(system, **wanted)]


def _gaps(system: System, **wanted: str) -> list[str]:
    """What the means of the groups with these fields are without."""
    lines = []
    for what, of in (
        ('Buckets without an example, left out', lambda s: ', '.join(map(str, s.empty))),
        ('NOT FINISHED, buckets to come', lambda s: str(s.missing) if s.missing else ''),
    ):
        found = [
            f'{_name(group, wanted)}: {of(stats)}'
            for group, stats in _groups(system, wanted).items()
            if of(stats)
        ]
        if found:
            lines.append(f'{what}: {"; ".join(found)}.')
    return lines


def _groups(system: System, wanted: Mapping[str, str]) -> dict[Group, Stats]:
    """Those with shots that have these fields."""
    return {
        group: stats
        for group, stats in sorted(system.groups.items())
        if group.shots and all(getattr(group, key) == value for key, value in wanted.items())
    }


def _by_rate(rates: Mapping[float, Sequence[str]]) -> str:
    """The one of most groups, then the others: '0.001, but 0.0003 for de K=1, fr K=2'."""
    common = max(rates, key=lambda rate: (len(rates[rate]), -rate))
    others = [f', but {r:g} for {", ".join(of)}' for r, of in sorted(rates.items()) if r != common]
    return f'{common:g}' + ''.join(others)


def _name(group: Group, known: Mapping[str, str]) -> str:
    more = [getattr(group, key) for key in ('method', 'start') if key not in known]
    # The start is said only where it is not the usual one.
    return ' '.join([group.language, f'K={group.shots}', *(m for m in more if m != 'source')])


def _show(stats: Stats | None) -> str:
    if stats is None or not stats.scores:
        return '-'
    spread = '' if stats.deviation is None else f' ±{stats.deviation:.{_DECIMALS}f}'
    return _number(stats.mean) + spread


def _show_paper(printed: tuple[str, str] | None) -> str:
    if printed is None:
        return '-'
    return printed[0] + (f' ±{printed[1]}' if printed[1] else '')


def _number(value: float | None) -> str:
    return '-' if value is None else f'{value:.{_DECIMALS}f}'


def _difference(one: Stats | None, other: Stats | None) -> str:
    known = one and other and one.scores and other.scores
    return f'{one.mean - other.mean:+.{_DECIMALS}f}' if known else '-'


def _pair(system: System, lang: str, low: int, high: int) -> tuple[Stats | None, Stats | None]:
    """The scores with fewer and with more shots; None for what has none."""
    found = (system.groups.get(Group(lang, k, 'full' if k else ZERO_SHOT)) for k in (low, high))
    return tuple(stats if stats and stats.scores else None for stats in found)


def _grows(before: float | None, after: float | None) -> bool | None:
    return None if before is None or after is None else after > before


def _negative(value: float | None) -> float | None:
    return None if value is None else -value


def _folder(sweep: Sweep) -> str:
    return tables_lib.clean(sweep.workdir.resolve().name)


# ---------------------------------------------------------------------------------------------
# From rows to groups.


def _stats(sweep: Sweep, task: str) -> dict[Group, Stats]:
    """The groups of one sweep, each with its chosen learning rate and one seed."""
    rows: dict[Group, list[Row]] = {}
    for row in sweep.rows:
        if row.task == task:
            rows.setdefault(Group(row.language, row.shots, row.method, row.start), []).append(row)
    found = {}
    for group, of_group in rows.items():
        if not group.shots:
            found[group] = Stats(tuple(row.score for row in of_group))
            continue
        rate = sweep.learning_rate(task, *group)
        empty = tuple(sorted({row.bucket for row in of_group if row.status == 'empty'}))
        done = [
            row for row in of_group if row.status == 'done' and row.learning_rate == rate
        ]  # Sorted by bucket, as the sweep's rows are.
        counts = collections.Counter(row.seed for row in done)
        seed = min(counts, key=lambda seed: (-counts[seed], seed), default=None)
        chosen = [row for row in done if row.seed == seed]
        found[group] = Stats(
            tuple(row.score for row in chosen),
            empty,
            rate,
            seed,
            all(row.dev_score is not None for row in chosen),
            len(sweep.buckets(*group) - {row.bucket for row in chosen} - set(empty)),
        )
    return found
