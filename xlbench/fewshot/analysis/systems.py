"""Sweeps as systems: their scores over buckets, and when the paper's scores are shown beside them.

Sweeps that adapt the same source-trained model to the same task are one `System`.
"""

import collections
import functools
import pathlib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from xlbench.benchmarks import FEWSHOT, languages as languages_lib, topics
from xlbench.fewshot.analysis import paper
from xlbench.fewshot.analysis.sweeps import Adaptations, SourceTraining, Sweep, read_source
from xlbench.fewshot.results import PROMPT, ZERO_SHOT, Group
from xlbench.metrics import classification, tagging
from xlbench.reporting import notes, results as runs_results
from xlbench.reporting.tables import Cell, Column, Row, Table, clean
from xlbench.system import errors

_TOLERANCE = 0.01  # How far a split may be from its official size: readers leave out some.
# Official sizes of UD POS and PAN-X are those of XTREME's copy, huggingface.co/datasets/xtreme. It
# mixes Old French, Classical Chinese, Swiss German and Ancient Greek into four languages of UD POS:
# of these, German is the largest test set of arXiv:2003.11080, table 1, Greek is UD_Greek-GDT, and
# the others have no size.


class Way(NamedTuple):
    """A method and where it starts; see results.Group."""

    method: str
    start: str


FULL = Way('full', 'source')
METHODS = {
    'full': 'full model', 'fc': 'FC only', 'fc_pooler': 'FC+Pooler', 'cos_pooler': 'COS+Pooler',
    'fc_reset_pooler': 'FC(reset)+Pooler', 'lora': 'LoRA', PROMPT: 'prompts',
}  # fmt: skip


class System:
    """The sweeps that adapt one source-trained model to one task.

    Attributes:
      name: tells it from other systems of the task; '' for the only one.
      searched: workdirs of source training for the task, the one that is adapted among them.
      title: the task, and the system where there are others.
      metric: the name of the score.
      by_sweep: the adaptations of each group, sweep after sweep.
      groups: those of the sweep that has the most buckets of a group.
      adapted: (language, K) -> adaptations of the whole model from the source-trained one.
      way: how most tables' adaptations are made: as the paper's, if there are any.
      way_shots: K of adaptations in that way.
      source_languages: of source training: the pivot, unless its workdir names others.
      source_language: the one of them that scores are from; its name, such as English, is
        `source_name`.
      every_language: codes of languages with any result, those of source training first.
      languages: the targets, which are all others.
      comparable: languages whose scores the paper's may stand beside.
      data: 'sample', 'official' or 'other', as in reporting.sections.
    """

    def __init__(
        self,
        task: str,
        sweeps: Sequence[Sweep],
        name: str = '',
        searched: Sequence[pathlib.Path] = (),
    ):
        self.task, self.sweeps, self.name, self.searched = task, sweeps, name, searched
        self.title = f'{topics.title(task)} ({task}{name and ", " + name})'
        self.metric = topics.main_score(task)
        self.by_sweep: dict[Group, list[Adaptations]] = {}
        for sweep in sweeps:
            for group, stats in sweep.groups.items():
                self.by_sweep.setdefault(group, []).append(stats)
        self.groups = {
            group: max(same, key=lambda stats: len(stats.scores))
            for group, same in self.by_sweep.items()
        }
        full = self.having(**FULL._asdict())
        self.adapted = {group[:2]: stats for group, stats in full.items() if stats.rows}
        ways = {Way(g.method, g.start) for g in self.groups if g.shots}
        self.way = min(ways, key=lambda w: (w != FULL, w.start != FULL.start, w), default=FULL)
        self.way_shots = self.shots(**self.way._asdict())
        pivot = topics.pivot(task)
        self.source_languages = {
            lang
            for sweep in sweeps
            for lang in topics.languages(task)
            if f'{topics.task_name(task, lang)}/train' in sweep.source_examples
        } or ({pivot} if topics.declared(task) else set())
        is_pivot = pivot in self.source_languages
        self.source_language = pivot if is_pivot else min(self.source_languages, default=pivot)
        self.source_name = languages_lib.get(self.source_language).name.capitalize()
        found = sorted({group.language for group in self.groups})
        self.languages = tuple(lang for lang in found if lang not in self.source_languages)
        first = (lang for lang in found if lang in self.source_languages)
        self.every_language = (*first, *self.languages)
        self._reason = self._why_none_compares()
        self._mismatches = {} if self._reason else self._other_tests()
        known = () if self._reason else self.every_language
        self.comparable = tuple(lang for lang in known if lang not in self._mismatches)
        is_sample = any(sweep.about.data == 'sample' for sweep in sweeps)
        self.data = 'sample' if is_sample else 'official' if self.comparable else 'other'

    def having(self, **fields: str) -> dict[Group, Adaptations]:
        """Returns the groups with shots that have these fields, sorted."""
        return {
            group: stats
            for group, stats in sorted(self.groups.items())
            if group.shots and all(getattr(group, key) == value for key, value in fields.items())
        }

    def shots(self, **fields: str) -> tuple[int, ...]:
        """Returns the values of K, without 0, of groups with these fields."""
        return tuple(sorted({group.shots for group in self.having(**fields)}))

    def group(self, language: str, shots: int) -> Group:
        """Returns a group of adaptations in that way; of 0 shots the one without adaptation."""
        method, start = self.way
        return Group(language, shots, method if shots else ZERO_SHOT, start)

    def stats(self, group: Group) -> Adaptations | None:
        """Returns the adaptations of a group; None if it has no scores."""
        stats = self.groups.get(group)
        return stats if stats and stats.rows else None

    @functools.cached_property
    def source(self) -> SourceTraining | str:
        """Reads the training of the model that is adapted; or a sentence on why it cannot."""
        if self.way.method == PROMPT:
            return 'nothing is trained; a model is prompted'
        return read_source(self.sweeps[0].source_workdir, self.task, self.source_language)

    @property
    def source_score(self) -> tuple[float | None, int] | str:
        """Returns that model's test score in its own language, of how many; or why not."""
        return self.source if isinstance(self.source, str) else self.source.test

    @functools.cached_property
    def about_data(self) -> str:
        """Returns the sentence about it that belongs under every table."""
        if self.data == 'sample':
            return notes.SAMPLE_DATA
        if self.data == 'other':
            reason = self._reason or next(iter(self._mismatches.values()))
            return (
                f'NOT THE OFFICIAL SETTING: {reason}. The scores cannot be compared with published '
                'ones.'
            )
        line = (
            f'The model is {paper.CHECKPOINT}, English training and test sets have their official '
            "sizes, up to 1 %. The paper's numbers are shown beside those of all "
            f'{paper.BUCKETS} buckets.'
        )
        if self.task == 'mldoc':
            line += f' {paper.MLDOC_BUCKETS}'
        if self._mismatches:
            what = '; '.join(f'{lang}: {reason}' for lang, reason in self._mismatches.items())
            line += f" Without the paper's numbers: {what}."
        return line

    def _why_none_compares(self) -> str:
        """Returns why no language compares with the paper; '' if some may."""
        if self.task not in FEWSHOT.tasks:
            return f'{self.task} is not a task of the paper'
        if self.way.method == PROMPT:
            return 'a model is prompted, which the paper has not done'
        for sweep in self.sweeps:
            if sweep.about.data != 'files':
                return f'{sweep.name} does not say where its data is from'
            start = str(sweep.source_config.get('init_from') or '')
            if pathlib.PurePath(start.partition('@')[0]).name != paper.CHECKPOINT:
                began = start or 'random parameters'
                return f'source training started from {clean(began)}, not {paper.CHECKPOINT}'
            key, split = FEWSHOT.task_name(self.task, FEWSHOT.pivot), 'train'
            size = sweep.source_examples.get(f'{key}/{split}')
            official = FEWSHOT.official_size(self.task, split, FEWSHOT.pivot)
            if not _is_near(size, official):
                return (
                    f'the source model is trained on {size or "an unknown number of"} English '
                    f'examples (official: {official})'
                )
        return ''

    def _other_tests(self) -> dict[str, str]:
        """Returns language -> why its test set is not the paper's."""
        reasons = {}
        for lang in self.every_language:
            official = FEWSHOT.official_size(self.task, 'test', lang)
            size = max(sweep.test_set(lang).num_examples for sweep in self.sweeps)
            if official is None:
                reasons[lang] = 'the official size of its test set is not known'
            elif not _is_near(size, official):
                reasons[lang] = f'its test set has {size} examples (official: {official})'
        return reasons

    def pivot(
        self,
        title: str,
        columns: Mapping[tuple[str, str], Sequence[Cell]],
        notes: Iterable[str],
        names: Sequence[str] = (),
        head: str = 'language',
        metric: bool = True,
    ) -> Table:
        """Makes a table of columns, a row for each name but those without any cell."""
        cells = zip(*columns.values(), strict=True)
        rows = [
            Row(name, 'language' if name in languages_lib.LANGUAGES else 'count', of_row)
            for name, of_row in zip(names or self.languages, cells, strict=True)
        ]
        rows = [row for row in rows if not row.is_missing]
        if not rows:
            return Table(title, missing='only empty buckets of it are finished')
        heads = [Column(group, label) for group, label in columns]
        return self.table(title, heads, rows, notes, head, metric)

    def table(
        self,
        title: str,
        columns: Sequence[Column],
        rows: Sequence[Row],
        notes: Iterable[str],
        head: str,
        metric: bool = True,
    ) -> Table:
        """Returns a table with what belongs under every table of the system."""
        dropped = [f'{sweep.name}: {sweep.dropped}' for sweep in self.sweeps if sweep.dropped]
        is_tagging = topics.is_tagging(self.task)
        scorer = tagging.ChunkF1() if is_tagging else classification.Classification()
        signature = [f'Score: {scorer.signature}'] if metric else []
        said = (self.about_data, *notes, *dropped, *signature)
        return Table(title, tuple(columns), tuple(rows), head, said, f'{self.title}. {title}')

    def paper(self, group: Group) -> tuple[str, str] | None:
        """Returns the paper's mean and deviation, as printed, where they compare with ours."""
        compares = self.compares(group)
        if group.language == self.source_language and group not in self.groups:
            # Its score is that of source training.
            size = 0 if isinstance(self.source_score, str) else self.source_score[1]
            official = FEWSHOT.official_size(self.task, 'test', self.source_language)
            compares = self.data == 'official' and _is_near(size, official)
        return paper.scores().get((self.task, *group)) if compares else None

    def compares(self, group: Group) -> bool:
        """Returns whether the paper's score of a group, over all buckets, is comparable."""
        stats = self.groups.get(group)
        if stats is None or group.language not in self.comparable:
            return False
        return not group.shots or len(stats.scores) + len(stats.empty) == paper.BUCKETS


def systems(sweeps: Sequence[Sweep], searched: Sequence[str | pathlib.Path] = ()) -> list[System]:
    """Sorts sweeps by task and source-trained model.

    `searched` are workdirs of further source training, beside those that the sweeps have searched.
    """
    by_model: dict[tuple[str, str], list[Sweep]] = {}
    for sweep in sweeps:
        if not topics.is_known(sweep.task):
            raise errors.unknown(f'task in {sweep.workdir}', sweep.task, FEWSHOT.tasks)
        by_model.setdefault((sweep.task, sweep.source), []).append(sweep)
    number = collections.Counter(task for task, _ in by_model)
    folders = collections.Counter(members[0].name for members in by_model.values())
    others: dict[str, list[pathlib.Path]] = {}
    for (task, _), (first, *_) in by_model.items():
        others.setdefault(task, []).extend([first.source_workdir, *first.searched])
    for path in map(pathlib.Path, searched):
        scenario = runs_results.read_run(path).scenario
        if scenario is None or scenario.task not in FEWSHOT.tasks:
            raise errors.UserError(
                f'{path} is not a source training for a task of few-shot transfer'
            )
        others.setdefault(scenario.task, []).append(path)
    made = []
    for (task, _), members in by_model.items():
        first = members[0]
        name = first.name if folders[first.name] == 1 else clean(first.workdir)
        named = name if number[task] > 1 else ''
        made.append(System(task, members, named, list(dict.fromkeys(others[task]))))
    order = (*FEWSHOT.tasks, *number)
    return sorted(made, key=lambda system: order.index(system.task))


def gains(system: System, shots: int | None) -> dict[str, float]:
    """Returns language -> mean score with K shots less the zero-shot score.

    K as None averages the gains of all K, of the languages that have all of them.
    """
    every, gained = system.way_shots if shots is None else (shots,), {}
    for lang in system.languages:
        found = (system.stats(system.group(lang, k)) for k in (0, *every))
        means = [stats.mean for stats in found if stats]
        if every and len(means) == 1 + len(every):
            gained[lang] = statistics.fmean(mean - means[0] for mean in means[1:])
    return gained


def about_groups(system: System, **fields: str) -> list[str]:
    """Explains the means of the groups with these fields, a sentence each."""
    groups = system.having(**fields)
    if not groups:
        of = ' of the whole model' if fields.get('method') == 'full' else ''
        return [f'No adaptation{of} is finished: zero-shot scores alone.']
    lines = [f'{system.metric}, 0 to 100: mean ± standard deviation (sample, n - 1) over buckets.']
    method, start = fields.get('method', 'full'), fields.get('start', 'source')
    if (method, start) != FULL:
        without = ', without source training' if start == 'none' and method != PROMPT else ''
        lines.append(f'Method: {METHODS.get(method, method)}{without}.')
    trained = {group: stats for group, stats in groups.items() if group.method != PROMPT}
    for has_dev, how in (
        (True, 'with the highest mean dev score over buckets'),
        (False, 'the smallest, as there is no dev set'),
    ):
        rates: dict[float, list[str]] = {}
        for group, stats in trained.items():
            if stats.learning_rate is not None and stats.has_dev == has_dev:
                rates.setdefault(stats.learning_rate, []).append(_name(group, fields))
        if rates:
            lines.append(f'Learning rate ({how}): {_by_rate(rates)}.')
    seeds = sorted({str(stats.seed) for stats in trained.values() if stats.rows})
    lines += [f'Seed {", ".join(seeds)}.'] if seeds else []
    return [*lines, *about_gaps(system, **fields)]


def about_gaps(system: System, **fields: str) -> list[str]:
    """Names the empty and the missing buckets of the groups with these fields."""
    lines = []
    for what, of in (
        ('Buckets without an example, left out', lambda s: ', '.join(map(str, s.empty))),
        ('NOT FINISHED, buckets to come', lambda s: str(s.missing) if s.missing else ''),
    ):
        lacking = [
            f'{_name(group, fields)}: {of(stats)}'
            for group, stats in system.having(**fields).items()
            if of(stats)
        ]
        if lacking:
            lines.append(f'{what}: {"; ".join(lacking)}.')
    return lines


def _by_rate(rates: Mapping[float, Sequence[str]]) -> str:
    """Lists rates, the most frequent first: '0.001, but 0.0003 for de K=1, fr K=2'."""
    common = max(rates, key=lambda rate: (len(rates[rate]), -rate))
    others = [f', but {r:g} for {", ".join(of)}' for r, of in sorted(rates.items()) if r != common]
    return f'{common:g}' + ''.join(others)


def _name(group: Group, known: Mapping[str, str]) -> str:
    more = [getattr(group, key) for key in ('method', 'start') if key not in known]
    # The start is said only where it is not the usual one.
    return ' '.join([group.language, f'K={group.shots}', *(m for m in more if m != 'source')])


def _is_near(size: int | None, official: int | None) -> bool:
    if size is None or official is None:
        return False
    return abs(size - official) <= _TOLERANCE * official
