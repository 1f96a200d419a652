"""Each benchmark: its tasks, languages, scenarios, scores and paper.

Every name of a task or a mixture comes from here, in both directions:

  MTG.task_name('qg', 'en', 'de')                 -> 'mtg_qg_en_de'
  MTG.scenario('cross', task='qg', source='en')   -> trains and evaluates en -> de, fr, es
  parse_task('mtg_qg_en_de')                      -> ('mtg', 'qg', 'en', 'de')

A further benchmark is one more `Benchmark(...)` in `BENCHMARKS`.
"""

import csv
import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from xlbench import errors

# What the model is trained on and asked for. `cross` and `zero_shot` ask for a target in another
# language than the source; only `cross` has seen such pairs in training.
SCENARIOS = ('mono', 'mono_multitask', 'multi', 'multi_multitask', 'cross', 'zero_shot')

# The settings of reply suggestion. `zero_shot` asks for replies in languages that training had none
# of; `mt` trains on English pairs that were machine-translated into the language it asks for.
REPLY_SCENARIOS = ('mono', 'zero_shot', 'mt', 'multi')

# The settings as columns, in the order of that paper's tables.
SETTING_TITLES = {
    'mono': 'Monolingual',
    'zero_shot': 'Zero-Shot',
    'mt': 'MT',
    'multi': 'Multilingual',
}

# What the paper of reply suggestion prints (arXiv:2106.02017, section 3.3), and how well replies
# are ranked: in a random pool, and in the response set; last as the official code counts.
REPLY_SCORES = ('mrs_rouge', 'dist_1', 'dist_2')
RANKING_SCORES = (
    'recall_10', 'mrr', 'p_at_1', 'set_mrr', 'set_p_at_1', 'set_macro_mrr',
    'mrr_code', 'p_at_3_code', 'macro_mrr_code',
)  # fmt: skip

# The settings of few-shot transfer before any shot: trained on English and evaluated everywhere, or
# trained on the language itself, where it has more than shots.
FEWSHOT_SCENARIOS = ('zero_shot', 'mono')

# How the tasks of a mixture are weighed; the suffix of its name, '' for the first.
RATES = ('proportional', 'equal', 'temperature', 'capped')

# The paper prints these between 0 and 1; scores are 0 to 100 everywhere in xlbench.
_PRINTED_AS_FRACTION = ('meteor', 'bertscore', 'distinct_1', 'mrs_rouge', 'dist_1', 'dist_2')

# How a language's pairs are split (arXiv:2106.02017, section 2), and how far a split's size may be
# from its share of the published total: the counts of the splits themselves are not published, and
# readers drop pairs with an empty side. Below 1 % for the smallest language, ru, would refuse what
# a random split of it may well have (one standard deviation of its test split is 0.4 %).
_SHARES = {'train': 0.8, 'validation': 0.1, 'test': 0.1}
_TOLERANCE = 0.01


class TaskName(NamedTuple):
    """The parts of a task's name; `benchmark` is a key of `BENCHMARKS`."""

    benchmark: str
    task: str
    source: str
    target: str


@dataclasses.dataclass(frozen=True)
class Scenario:
    """One setting of a benchmark: what is trained on together, and what is evaluated.

    Attributes:
        name: One of the benchmark's `scenario_names`.
        mixture: The SeqIO mixture (or the task, where it is a single one) to train on.
        train: The tasks of that mixture.
        evaluate: The tasks whose test examples are scored.
        task: The benchmark's task, None where all are trained together.
        source: The source language it is narrowed to, None where it covers several.
        target: The target language it is narrowed to, None where it covers several.
        split: The split to train on.
        select: The tasks whose validation examples may choose a checkpoint: those that are trained,
            so that nothing is chosen by what the scenario has never seen.
    """

    name: str
    mixture: str
    train: tuple[str, ...]
    evaluate: tuple[str, ...]
    task: str | None = None
    source: str | None = None
    target: str | None = None
    split: str = 'train'
    select: tuple[str, ...] = ()

    def __post_init__(self):
        object.__setattr__(self, 'select', self.select or self.train)

    def with_rate(self, rate: str) -> 'Scenario':
        """The same scenario with another mixing rate: mtg_multi_qg -> mtg_multi_qg.equal."""
        if rate not in RATES:
            raise errors.unknown('mixing rate', rate, RATES)
        if rate == RATES[0] or self.mixture in self.train:  # A single task has nothing to weigh.
            return self
        base = self.mixture.partition('.')[0]
        return dataclasses.replace(self, mixture=f'{base}.{rate}')


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """A published benchmark.

    Attributes:
        name: First word of all its task names.
        tasks: Its tasks, short names.
        languages: ISO 639-1 codes; every example exists in each of them.
        task_titles: A readable name per task.
        scores: The scores the report shows, the main one first.
        title: Title of the paper.
        arxiv: Its arXiv identifier.
        pivot: The language that zero-shot transfer is trained in.
        paper_models: The systems in the paper's tables.
        split_sizes: Official number of examples, by task and split (of each language).
        scenario_names: What `scenario` takes.
        tables: Scores that share a table with a row a language and a column a setting; none: a
            table a score, with a row a system and a column a language.
        decimals: Of the scores in tables.
        paper_note: What has to be said where scores of the paper are shown.
        doubt_note: Why some of them are marked as doubtful.
        size_tolerance: How far a split may be from its official size, as a share of it.
    """

    name: str
    tasks: tuple[str, ...]
    languages: tuple[str, ...]
    task_titles: Mapping[str, str] = dataclasses.field(hash=False)
    scores: tuple[str, ...]
    title: str
    arxiv: str
    pivot: str = 'en'
    paper_models: tuple[str, ...] = ()
    split_sizes: Mapping[str, Mapping[str, int]] = dataclasses.field(
        hash=False, default_factory=dict
    )
    scenario_names: tuple[str, ...] = SCENARIOS
    tables: tuple[tuple[str, ...], ...] = ()
    decimals: int = 1
    paper_note: str = ''
    doubt_note: str = ''
    size_tolerance: float = 0.0

    def task_name(self, task: str, source: str, target: str | None = None) -> str:
        """The SeqIO task of one task and language pair; the target defaults to the source."""
        self._check(task, source, target)
        return f'{self.name}_{task}_{source}_{target or source}'

    def main_score(self, task: str) -> str:
        """The score that counts for one of `tasks`."""
        del task
        return self.scores[0]

    def task_names(self) -> tuple[str, ...]:
        """Every SeqIO task of the benchmark: all tasks, all ordered pairs of languages."""
        return tuple(
            self.task_name(task, source, target)
            for task in self.tasks
            for source in self.languages
            for target in self.languages
        )

    def scenario(
        self,
        name: str,
        task: str | None = None,
        source: str | None = None,
        target: str | None = None,
    ) -> Scenario:
        """One scenario, narrowed to a task and languages.

        Args:
            name: One of `scenario_names`.
            task: Needed by mono, multi, cross and zero_shot; the multitask ones train them all.
                A benchmark with a single task needs it nowhere.
            source: The language of mono and mono_multitask; narrows cross to one source.
            target: Narrows cross (with source) and what zero_shot evaluates to one target.
        """
        if name not in self.scenario_names:
            raise errors.unknown('scenario', name, self.scenario_names)
        self._check(task, source, target)
        task = self._task_of(name, task)
        if name in ('mono', 'mono_multitask'):
            return self._monolingual(name, task, source, target)
        if name == 'cross':
            return self._cross(task, source, target)
        if name == 'zero_shot':
            return self._zero_shot(task, source, target)
        _refuse(name, source=source, target=target)
        tasks = self.tasks if task is None else (task,)
        train = tuple(self.task_name(t, lang) for t in tasks for lang in self.languages)
        mixture = f'{self.name}_{name}' + (f'_{task}' if task else '')
        return Scenario(name, mixture, train, train, task=task)

    def scenarios(self) -> tuple[Scenario, ...]:
        """Every scenario, each with a mixture of its own name.

        Left out are the narrowings to one pair, whose mixture is that single task.
        """
        found = [self.scenario('mono', t, lang) for t in self.tasks for lang in self.languages]
        found += [self.scenario('mono_multitask', source=lang) for lang in self.languages]
        found += [self.scenario('multi', t) for t in self.tasks]
        found += [self.scenario('multi_multitask')]
        for task in self.tasks:
            found += [self.scenario('cross', task)]
            found += [self.scenario('cross', task, lang) for lang in self.languages]
            found += [self.scenario('zero_shot', task)]
        return tuple(found)

    def official_size(self, task: str, split: str, source: str) -> int | None:
        """The published number of examples of a split; None if there is no such split."""
        del source  # All languages have the same examples.
        return self.split_sizes.get(task, {}).get(split)

    def is_official(self, task: str, split: str, num_examples: int, source: str = '') -> bool:
        """Whether a split has exactly the published number of examples."""
        return self.official_size(task, split, source) == num_examples

    def paper_scores(
        self, model: str, scenario: str, task: str, source: str, target: str | None = None
    ) -> dict[str, float] | None:
        """The paper's scores of one model on one language pair; None where it gives none.

        Args:
            model: A name in `paper_models`.
            scenario: One of `scenario_names`; cross means one model per source language, as in the
                paper.
            task: One of `tasks`.
            source: Source language.
            target: Target language, by default the source.

        Returns:
            MTG: bleu, rouge_l, meteor, bertscore, distinct_1 (0 to 100), ensemble (1 to 5) and,
            into English only, bleurt (unbounded). MRS: mrs_rouge, dist_1, dist_2 (0 to 100).
        """
        return dict(self._paper_row(model, scenario, task, source, target)[0]) or None

    def paper_lacks(self, scenario: Scenario | None) -> str:
        """Why the paper has no scores beside those of a scenario; '' if it may have some."""
        if scenario is None:
            return 'A run follows no scenario of the benchmark: no scores of the paper.'
        if scenario.name == 'cross' and scenario.target is not None:
            return 'The paper trains no model on one pair alone: no scores of the paper.'
        if scenario.name == 'cross' and scenario.source is None:
            return (
                'The paper trains one model per source language, this run one on all pairs: '
                'no scores of the paper. Narrow the scenario to a source to compare.'
            )
        return ''

    def paper_doubts(
        self, model: str, scenario: str, task: str, source: str, target: str | None = None
    ) -> tuple[str, ...]:
        """Which of `paper_scores` can hardly be meant as they are printed."""
        return self._paper_row(model, scenario, task, source, target)[1]

    def _paper_row(self, model, scenario, task, source, target):
        if model not in self.paper_models:
            raise errors.unknown(f'{self.name} model', model, self.paper_models)
        if scenario not in self.scenario_names:
            raise errors.unknown('scenario', scenario, self.scenario_names)
        self._check(task, source, target)
        key = (scenario, task, model, source, target or source)
        return _paper_table(self.name).get(key, ({}, ()))

    def _monolingual(self, name, task, source, target) -> Scenario:
        if source is None:
            raise errors.UserError(
                f'scenario {name!r} trains one language; give source, one of '
                f'{", ".join(self.languages)}'
            )
        if target not in (None, source):
            raise errors.UserError(
                f'scenario {name!r} has the same source and target, got {source} -> {target}; '
                "for another target use 'cross' or 'zero_shot'"
            )
        tasks = self.tasks if task is None else (task,)
        train = tuple(self.task_name(t, source) for t in tasks)
        mixture = f'{self.name}_{name}_' + (f'{task}_' if task else '') + source
        return Scenario(name, mixture, train, train, task, source, source)

    def _cross(self, task, source, target) -> Scenario:
        if target is not None and (source is None or source == target):
            raise errors.UserError(
                f"scenario 'cross' goes from one language to another, got {source} -> {target}; "
                'give two different ones, a source alone, or neither'
            )
        sources = self.languages if source is None else (source,)
        targets = self.languages if target is None else (target,)
        train = tuple(self.task_name(task, s, t) for s in sources for t in targets if s != t)
        mixture = f'{self.name}_cross_{task}' + (f'_{source}' if source else '')
        if target is not None:
            mixture = train[0]  # A single task needs no mixture.
        return Scenario('cross', mixture, train, train, task, source, target)

    def _zero_shot(self, task, source, target) -> Scenario:
        if source not in (None, self.pivot) or target == self.pivot:
            raise errors.UserError(
                f"scenario 'zero_shot' trains {self.pivot} -> {self.pivot} and evaluates from "
                f'{self.pivot} into another language, got {source} -> {target}'
            )
        targets = self.languages if target is None else (target,)
        return Scenario(
            'zero_shot',
            f'{self.name}_zero_shot_{task}',
            train=(self.task_name(task, self.pivot),),
            evaluate=tuple(self.task_name(task, self.pivot, t) for t in targets if t != self.pivot),
            task=task,
            source=self.pivot,
            target=target,
        )

    def _task_of(self, name: str, task: str | None) -> str | None:
        """The task a scenario is about, None for the multitask ones."""
        if name.endswith('_multitask'):
            if task is not None and len(self.tasks) > 1:
                raise errors.UserError(
                    f'scenario {name!r} trains all tasks together and takes no task, got {task!r}'
                )
            return None
        if task is None and len(self.tasks) == 1:
            return self.tasks[0]
        if task is None:
            raise errors.UserError(
                f'scenario {name!r} of {self.name} needs a task, one of {", ".join(self.tasks)}'
            )
        return task

    def _check(self, task: str | None, source: str | None, target: str | None) -> None:
        if task is not None and task not in self.tasks:
            raise errors.unknown(f'{self.name} task', task, self.tasks)
        for lang in (source, target):
            if lang is not None and lang not in self.languages:
                raise errors.unknown(f'{self.name} language', lang, self.languages)


@dataclasses.dataclass(frozen=True)
class ReplyBenchmark(Benchmark):
    """Messages with their replies, both in one language; not parallel between languages.

    Its tasks are two views of the same pairs: 'retrieval' from a response set, and 'generation'.

    Attributes:
        multi: The languages that the multilingual setting trains on; every other one is unseen.
        has_mt: Whether there are machine-translated pairs, the split 'mt_train'.
        num_pairs: Official number of pairs of each language, all splits together.
        num_responses: Official size of each language's response set.
        num_mt_pairs: Official number of machine-translated pairs, of each language.
        paper_checkpoints: What the paper's models were initialised with.
    """

    scenario_names: tuple[str, ...] = REPLY_SCENARIOS
    tables: tuple[tuple[str, ...], ...] = (REPLY_SCORES, RANKING_SCORES)
    decimals: int = 2
    size_tolerance: float = _TOLERANCE
    multi: tuple[str, ...] = ()
    has_mt: bool = False
    num_pairs: Mapping[str, int] = dataclasses.field(hash=False, default_factory=dict)
    num_responses: Mapping[str, int] = dataclasses.field(hash=False, default_factory=dict)
    num_mt_pairs: int = 0
    paper_checkpoints: Mapping[str, str] = dataclasses.field(hash=False, default_factory=dict)

    def task_names(self) -> tuple[str, ...]:
        """Every SeqIO task of the benchmark: both views, each language."""
        return tuple(self.task_name(task, lang) for task in self.tasks for lang in self.languages)

    def scenario(
        self,
        name: str,
        task: str | None = None,
        source: str | None = None,
        target: str | None = None,
    ) -> Scenario:
        """One setting, of one view (arXiv:2106.02017, section 3.2).

        Args:
            name: One of `scenario_names`.
            task: 'retrieval' or 'generation'.
            source: The language of mono and mt; narrows what zero_shot and multi evaluate to one.
            target: None or the source: a reply is in the language of its message.
        """
        allowed = [n for n in self.scenario_names if n != 'mt' or self.has_mt]
        if name not in allowed:
            raise errors.unknown('scenario', name, allowed)
        self._check(task, source, target)
        task = self._task_of(name, task)
        source = source or target
        if name in ('mono', 'mt'):
            return self._one_language(name, task, source)
        train, others = self.multi, self.languages
        if name == 'zero_shot':
            train = (self.pivot,)
            others = tuple(lang for lang in self.languages if lang != self.pivot)
        if source is not None and source not in others:
            raise errors.UserError(
                f"scenario 'zero_shot' trains on {self.pivot} and evaluates another language, got "
                f'{source}'
            )
        return Scenario(
            name,
            f'{self.name}_{name}_{task}',
            train=tuple(self.task_name(task, lang) for lang in train),
            evaluate=tuple(self.task_name(task, lang) for lang in others if source in (None, lang)),
            task=task,
            source=source,
            target=source,
        )

    def scenarios(self) -> tuple[Scenario, ...]:
        """Every scenario, each with a mixture of its own name."""
        found = []
        for task in self.tasks:
            found += [self.scenario('mono', task, lang) for lang in self.languages]
            if self.has_mt:
                others = (lang for lang in self.languages if lang != self.pivot)
                found += [self.scenario('mt', task, lang) for lang in others]
            found += [self.scenario('zero_shot', task), self.scenario('multi', task)]
        return tuple(found)

    def official_size(self, task: str, split: str, source: str) -> int | None:
        """The number of examples of a split, as far as it is published; None if it is not."""
        if split == 'responses':
            return self.num_responses.get(source)
        if split == 'mt_train':
            return self.num_mt_pairs or None
        if split not in _SHARES or source not in self.num_pairs:
            return None
        return round(_SHARES[split] * self.num_pairs[source])

    def is_official(self, task: str, split: str, num_examples: int, source: str = '') -> bool:
        """Whether a split has the published number of examples, up to 1 %."""
        size = self.official_size(task, split, source)
        return size is not None and abs(num_examples - size) <= self.size_tolerance * size

    def _one_language(self, name: str, task: str | None, source: str | None) -> Scenario:
        pivot = self.pivot if name == 'mt' else None
        allowed = [lang for lang in self.languages if lang != pivot]
        if source not in allowed:
            raise errors.UserError(
                f'scenario {name!r} trains one language, got {source}; give source, one of '
                f'{", ".join(allowed)}'
            )
        tasks = (self.task_name(task, source),)
        mixture = f'{self.name}_{name}_{task}_{source}'
        if name == 'mono':
            return Scenario(name, mixture, tasks, tasks, task, source, source)
        # Pairs that were written in the language are what this setting does without: the pairs
        # that were translated are English.
        select = (self.task_name(task, self.pivot),)
        return Scenario(name, mixture, tasks, tasks, task, source, source, 'mt_train', select)

    def _check(self, task: str | None, source: str | None, target: str | None) -> None:
        super()._check(task, source, target)
        if target is not None and target != source and source is not None:
            raise errors.UserError(
                f'replies of {self.name} are in the language of their message, got {source} -> '
                f'{target}; leave out the target'
            )


@dataclasses.dataclass(frozen=True)
class LabelBenchmark(Benchmark):
    """Texts or words to label, each in one language; not parallel between languages.

    Attributes:
        task_languages: The languages of each task, the pivot first.
        pivot_only: The tasks whose split 'train' is there in the pivot alone.
        tagging: The tasks that label words, whose main score is chunk_f1.
    """

    scenario_names: tuple[str, ...] = FEWSHOT_SCENARIOS
    task_languages: Mapping[str, tuple[str, ...]] = dataclasses.field(
        hash=False, default_factory=dict
    )
    pivot_only: tuple[str, ...] = ()
    tagging: tuple[str, ...] = ()

    def main_score(self, task: str) -> str:
        """The score that counts for one of `tasks`."""
        return 'chunk_f1' if task in self.tagging else self.scores[0]

    def task_names(self) -> tuple[str, ...]:
        """Every SeqIO task of the benchmark: each task in each of its languages."""
        return tuple(
            self.task_name(task, lang) for task in self.tasks for lang in self.task_languages[task]
        )

    def train_languages(self, task: str) -> tuple[str, ...]:
        """The languages of a task that have a split 'train'."""
        return (self.pivot,) if task in self.pivot_only else self.task_languages[task]

    def official_size(self, task: str, split: str, source: str) -> int | None:
        """The number of examples of a split in one language, as far as it is published."""
        own = _paper_sizes(self.name).get((task, source, split))
        return own or super().official_size(task, split, source)

    def shots(self, task: str) -> tuple[int, ...]:
        """The numbers of shots of a task (arXiv:2012.15682, section 4.1): its splits shots_1, ...

        No eight of each tag: K shots of tagging are K words at least, and sentences have many.
        """
        self._check(task, None, None)
        return (1, 2, 4) if task in self.tagging else (1, 2, 4, 8)

    def scenario(
        self,
        name: str,
        task: str | None = None,
        source: str | None = None,
        target: str | None = None,
    ) -> Scenario:
        """One setting of one task (arXiv:2012.15682, section 4.1).

        Args:
            name: One of `scenario_names`.
            task: One of `tasks`.
            source: The language of mono; narrows what zero_shot evaluates to one.
            target: None or the source: training and test are in the language of the task.
        """
        if name not in self.scenario_names:
            raise errors.unknown('scenario', name, self.scenario_names)
        task = self._task_of(name, task)
        self._check(task, source, target)
        source = source or target
        evaluate = tuple(
            self.task_name(task, lang)
            for lang in self.task_languages[task]
            if source in (None, lang)
        )
        if name == 'zero_shot':
            train = (self.task_name(task, self.pivot),)
            mixture = f'{self.name}_zero_shot_{task}'
            return Scenario(name, mixture, train, evaluate, task, source, source)
        allowed = self.train_languages(task)
        if source not in allowed:
            raise errors.UserError(
                f'scenario {name!r} trains one language, got {source}; of {task} give one of '
                f'{", ".join(allowed)}'
            )
        mixture = f'{self.name}_mono_{task}_{source}'
        return Scenario(name, mixture, evaluate, evaluate, task, source, source)

    def scenarios(self) -> tuple[Scenario, ...]:
        """Every scenario, each with a mixture of its own name."""
        found = []
        for task in self.tasks:
            found += [self.scenario('zero_shot', task)]
            found += [self.scenario('mono', task, lang) for lang in self.train_languages(task)]
        return tuple(found)

    def _check(self, task: str | None, source: str | None, target: str | None) -> None:
        super()._check(task, source, target)
        languages = self.task_languages.get(task, self.languages)
        for lang in (source, target):
            if lang is not None and lang not in languages:
                raise errors.unknown(f'language of {task}', lang, languages)
        if target is not None and target != source and source is not None:
            raise errors.UserError(
                f'{self.name} labels texts of one language, got {source} -> {target}; leave out '
                'the target'
            )


def _refuse(name: str, **given: str | None) -> None:
    """Raises if a scenario got a narrowing that it has no use for."""
    for key, value in given.items():
        if value is not None:
            raise errors.UserError(
                f'scenario {name!r} covers all languages and takes no {key}, got {value!r}'
            )


@functools.cache
def _paper_table(name: str) -> dict[tuple[str, ...], tuple[dict[str, float], tuple[str, ...]]]:
    """By (scenario, task, model, source, target): scores printed in the paper, and the odd ones."""
    path = pathlib.Path(__file__).with_name('paper_scores') / f'{name}.csv'
    table = {}
    with path.open(encoding='utf-8', newline='') as file:
        for row in csv.DictReader(file):
            keys = ('scenario', 'task', 'model', 'source', 'target')
            key = tuple(row.pop(k) for k in keys)
            doubtful = tuple((row.pop('doubtful', None) or '').split())
            scores = {score: _on_our_scale(score, value) for score, value in row.items() if value}
            table[key] = scores, doubtful
    return table


@functools.cache
def _paper_sizes(name: str) -> dict[tuple[str, str, str], int]:
    """By (task, language, split): examples, as the paper counts them."""
    path = pathlib.Path(__file__).with_name('paper_scores') / f'{name}_sizes.csv'
    with path.open(encoding='utf-8', newline='') as file:
        rows = csv.DictReader(file)
        return {(r['task'], r['language'], r['split']): int(r['examples']) for r in rows}


def _on_our_scale(score: str, printed: str) -> float:
    # Rounded, because 0.967 * 100 is 96.7 only after rounding.
    return round(float(printed) * 100, 6) if score in _PRINTED_AS_FRACTION else float(printed)


MTG = Benchmark(
    name='mtg',
    tasks=('sg', 'qg', 'tg'),
    languages=('en', 'de', 'fr', 'es'),
    task_titles={'sg': 'story ending', 'qg': 'question', 'tg': 'title'},
    scores=('rouge_l', 'bleu', 'distinct_1'),
    title='MTG: A Benchmarking Suite for Multilingual Text Generation',
    arxiv='2108.07140',
    paper_models=('M-BERT', 'XLM', 'mBART', 'mT5'),
    # Annotated: table 2 of the paper. Rough: the row of threshold 0.5 in table 6.
    split_sizes={
        'sg': {'rough_train': 87_003, 'train': 5_000, 'validation': 2_000, 'test': 3_000},
        'qg': {'rough_train': 71_819, 'train': 5_000, 'validation': 2_000, 'test': 3_000},
        'tg': {'rough_train': 280_376, 'train': 5_000, 'validation': 2_000, 'test': 3_000},
    },
    paper_note='Rows marked paper are printed in arXiv:2108.07140, which names neither the tools '
    'nor the versions that scored them.',
)

# Questions from passages that are parallel in more languages than MTG has, Chinese among them. The
# published set is one file of 1190 questions a language, without splits; nobody's official
# question generation, so there are neither split sizes nor paper scores to compare with.
XQUAD = Benchmark(
    name='xquad',
    tasks=('qg',),
    languages=('en', 'de', 'es', 'zh'),
    task_titles={'qg': 'question'},
    scores=('rouge_l', 'bleu', 'distinct_1'),
    title='On the Cross-lingual Transferability of Monolingual Representations',
    arxiv='1910.11856',
)

_REPLY_TASKS = {'retrieval': 'reply from a response set', 'generation': 'generated reply'}

MRS = ReplyBenchmark(
    name='mrs',
    tasks=tuple(_REPLY_TASKS),
    languages=('en', 'es', 'de', 'pt', 'fr', 'ja', 'it', 'sv', 'nl', 'ru'),
    task_titles=_REPLY_TASKS,
    scores=REPLY_SCORES + RANKING_SCORES,
    title='A Dataset and Baselines for Multilingual Reply Suggestion',
    arxiv='2106.02017',
    multi=('en', 'es', 'de', 'pt', 'fr'),
    has_mt=True,
    paper_models=('mBERT', 'XLM-R', 'Unicoder-xDAE'),
    paper_checkpoints={'mBERT': 'bert-base-multilingual-cased', 'XLM-R': 'xlm-roberta-base'},
    # Table 1 of the paper, columns Examples and Response Set; section 3.2 for what is translated.
    num_pairs={
        'en': 48_750_948, 'es': 2_325_877, 'de': 1_864_688, 'pt': 1_822_594, 'fr': 1_396_806,
        'ja': 727_668, 'it': 736_296, 'sv': 738_254, 'nl': 638_634, 'ru': 516_739,
    },
    num_responses={
        'en': 36_997, 'es': 45_152, 'de': 34_747, 'pt': 45_225, 'fr': 32_350,
        'ja': 38_817, 'it': 31_855, 'sv': 32_165, 'nl': 32_293, 'ru': 31_475,
    },
    num_mt_pairs=19_000_000,
    paper_note='Columns marked paper are printed in arXiv:2106.02017. Its code pins no version of '
    'its rouge package and leaves undefined what dist_1 and dist_2 divide by.',
    doubt_note='Figures with a ? stand so in the paper, where dist_1 is near or above dist_2 for '
    'Japanese alone: two columns seem to have been swapped.',
)  # fmt: skip

# Dialogues whose consecutive utterances are pairs of message and reply. Nobody's official reply
# suggestion: no published scores to compare with.
XDAILYDIALOG = ReplyBenchmark(
    name='xdailydialog',
    tasks=tuple(_REPLY_TASKS),
    languages=('en', 'de', 'zh'),
    task_titles=_REPLY_TASKS,
    scores=REPLY_SCORES + RANKING_SCORES,
    title='XDailyDialog: A Multilingual Parallel Dialogue Corpus',
    arxiv='',
    multi=('en', 'de', 'zh'),
)
XPERSONA = ReplyBenchmark(
    name='xpersona',
    tasks=tuple(_REPLY_TASKS),
    languages=('en', 'fr', 'it', 'ja'),
    task_titles=_REPLY_TASKS,
    scores=REPLY_SCORES + RANKING_SCORES,
    title='XPersona: Evaluating Multilingual Personalized Chatbot',
    arxiv='2003.07568',
    multi=('en', 'fr', 'it', 'ja'),
)

# Table 1 of the paper; the languages of XTREME's data, less those of UD POS without a train split.
_FEWSHOT_LANGUAGES = {
    'xnli': 'en ar bg de el es fr hi ru sw th tr ur vi zh',
    'pawsx': 'en de es fr ja ko zh',
    'mldoc': 'en de es fr it ja ru zh',
    'marc': 'en de es fr ja zh',
    'udpos': 'en af ar bg de el es et eu fa fi fr he hi hu id it ja ko mr nl pt ru ta te tr ur vi '
    'zh',
    'panx': 'en af ar bg bn de el es et eu fa fi fr he hi hu id it ja jv ka kk ko ml mr ms my nl '
    'pt ru sw ta te th tl tr ur vi yo zh',
}
FEWSHOT = LabelBenchmark(
    name='fewshot',
    tasks=tuple(_FEWSHOT_LANGUAGES),
    languages=tuple(_FEWSHOT_LANGUAGES['panx'].split()),  # The other tasks have some of them.
    task_titles={
        'xnli': 'entailment',
        'pawsx': 'paraphrase',
        'mldoc': 'topic',
        'marc': 'stars of a review',
        'udpos': 'parts of speech',
        'panx': 'named entities',
    },
    scores=('accuracy', 'macro_f1', 'chunk_f1'),
    title='A Closer Look at Few-Shot Crosslingual Transfer: The Choice of Shots Matters',
    arxiv='2012.15682',
    tables=(('accuracy',), ('chunk_f1',)),
    task_languages={task: tuple(langs.split()) for task, langs in _FEWSHOT_LANGUAGES.items()},
    # The dev sets that shots are numbered in; their buckets are read by these numbers.
    split_sizes={'xnli': {'validation': 2490}, 'pawsx': {'validation': 2000}},
    pivot_only=('xnli', 'pawsx'),
    tagging=('udpos', 'panx'),
)

BENCHMARKS: dict[str, Benchmark] = {
    b.name: b for b in (MTG, XQUAD, MRS, XDAILYDIALOG, XPERSONA, FEWSHOT)
}


def get(name: str) -> Benchmark:
    """The benchmark of that name."""
    if name not in BENCHMARKS:
        raise errors.unknown('benchmark', name, BENCHMARKS)
    return BENCHMARKS[name]


def parse_task(name: str) -> TaskName:
    """The parts of a task's name: mtg_qg_en_de -> ('mtg', 'qg', 'en', 'de')."""
    parts = tuple(name.split('_'))
    benchmark = BENCHMARKS.get(parts[0])
    if benchmark is None or len(parts) != 4 or name not in benchmark.task_names():
        raise errors.unknown('task', name, (t for b in BENCHMARKS.values() for t in b.task_names()))
    return TaskName(*parts)


def parse_mixture(name: str) -> Scenario:
    """The scenario of a mixture's name, its mixing rate included: mtg_multi_qg.equal.

    A task's name gives the scenario that trains on this task alone: mono or cross.
    """
    base, _, rate = name.partition('.')
    known = {s.mixture: s for s in _all_scenarios()}
    if base in known:
        return known[base].with_rate(rate or RATES[0])
    try:
        benchmark, task, source, target = parse_task(name)
    except errors.UserError:
        raise errors.unknown('mixture', name, known) from None
    scenario = 'mono' if source == target else 'cross'
    return BENCHMARKS[benchmark].scenario(scenario, task, source, target)


def _all_scenarios() -> Iterator[Scenario]:
    for benchmark in BENCHMARKS.values():
        yield from benchmark.scenarios()
