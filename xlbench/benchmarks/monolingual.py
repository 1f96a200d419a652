"""Benchmarks whose examples are each in one language; of reply suggestion, as MRS is, too."""

import dataclasses
from collections.abc import Mapping

from xlbench.benchmarks.benchmark import Added, Benchmark, Scenario
from xlbench.system import errors


@dataclasses.dataclass(frozen=True, eq=False)
class MonolingualBenchmark(Benchmark):
    """Inputs and targets in one language, so that a target language is the source.

    Unless a benchmark says otherwise, mono trains one language, zero_shot the pivot and evaluates
    the others, and multi trains the languages `multi` and evaluates all of them.

    Attributes:
      multi: the languages that the multilingual setting trains on, by default all of them.
      scores_pivot: whether zero_shot evaluates the pivot, too.
    """

    scenario_names: tuple[str, ...] = ('mono', 'zero_shot', 'multi')
    multi: tuple[str, ...] = ()
    scores_pivot: bool = False

    def task_names(self) -> tuple[str, ...]:
        """Lists every SeqIO task of the benchmark: each task in each of its languages."""
        return tuple(
            self.task_name(task, lang) for task in self.tasks for lang in self.languages_of(task)
        )

    def train_languages(self, task: str) -> tuple[str, ...]:
        """The languages of a task that have a split 'train'."""
        return self.languages_of(task)

    def _scenario(self, name: str, task: str, source: str | None, target: str | None) -> Scenario:
        """The scenario of a language that is trained; of others, of what they evaluate."""
        lang = source or target
        if name == 'mono':
            lang = self._needed(name, task, lang, self.train_languages(task))
            tasks = self._named(task, (lang,))
            return Scenario(name, f'{self.name}_mono_{task}_{lang}', tasks, tasks, task, lang, lang)
        evaluated = self.languages_of(task)
        train = self.multi or evaluated
        if name == 'zero_shot':
            train = (self.pivot,)
            evaluated = tuple(one for one in evaluated if self.scores_pivot or one != self.pivot)
        if lang not in (None, *evaluated):
            raise errors.UserError(
                f"scenario 'zero_shot' trains on {self.pivot} and evaluates another language, got "
                f'{lang}'
            )
        return Scenario(
            name,
            f'{self.name}_{name}_{task}',
            train=self._named(task, train),
            evaluate=self._named(task, (lang,) if lang else evaluated),
            task=task,
            source=lang,
            target=lang,
        )

    def scenarios(self) -> tuple[Scenario, ...]:
        """Lists every scenario, each with a mixture of its own name."""
        several = [name for name in ('zero_shot', 'multi') if name in self.scenario_names]
        scenarios = []
        for task in self.tasks:
            scenarios += [self.scenario('mono', task, one) for one in self.train_languages(task)]
            scenarios += [self.scenario(name, task) for name in several]
        return tuple(scenarios)

    def _named(self, task: str, languages: tuple[str, ...]) -> tuple[str, ...]:
        """The SeqIO tasks of a task in these languages."""
        return tuple(self.task_name(task, lang) for lang in languages)

    def _needed(self, name: str, task: str, lang: str | None, allowed: tuple[str, ...]) -> str:
        """The language that a scenario needs; UserError unless it is among those that have it."""
        if lang is None or lang not in allowed:
            raise errors.UserError(
                f'scenario {name!r} trains one language, got {lang}; give source, for {task} one '
                f'of {", ".join(allowed)}'
            )
        return lang

    def _check(self, task: str | None, source: str | None, target: str | None) -> None:
        super()._check(task, source, target)
        if None not in (source, target) and source != target:
            raise errors.UserError(
                f'{self.name} has inputs and targets in one language, got {source} -> {target}; '
                'leave out the target'
            )


# The settings of reply suggestion. `zero_shot` asks for replies in languages that training had none
# of; `mt` trains on English pairs that were machine-translated into the language it asks for, and
# `mixed` on these and on English pairs as they are (arXiv:2106.02017, section 6). Without
# translated pairs there is neither.
REPLY_SCENARIOS = ('mono', 'zero_shot', 'mt', 'multi', 'mixed')
TRANSLATED = ('mt', 'mixed')

# The settings as columns, in the order of that paper's tables.
SETTING_TITLES = {
    'mono': 'Monolingual',
    'zero_shot': 'Zero-Shot',
    'mt': 'MT',
    'multi': 'Multilingual',
    'mixed': 'Zero-Shot + MT',
}

# What the paper of reply suggestion prints (arXiv:2106.02017, section 3.3), and how well replies
# are ranked: in a random pool, and in the response set; last as the official code counts.
REPLY_SCORES = ('mrs_rouge', 'dist_1', 'dist_2')
RANKING_SCORES = (
    'recall_10', 'mrr', 'p_at_1', 'set_mrr', 'set_p_at_1', 'set_macro_mrr',
    'mrr_code', 'p_at_3_code', 'macro_mrr_code',
)  # fmt: skip

TASKS = {'retrieval': 'reply from a response set', 'generation': 'generated reply'}


@dataclasses.dataclass(frozen=True, eq=False)
class ReplyBenchmark(MonolingualBenchmark):
    """Messages with their replies, both in one language; not parallel between languages.

    Its tasks are two views of the same pairs: 'retrieval' from a response set, and 'generation'.

    Attributes:
      num_pairs: official number of pairs of each language, all splits together.
      shares: of them in each split.
      num_responses: official size of each language's response set.
      num_mt_pairs: official number of machine-translated pairs, of each language.
    """

    task_titles: Mapping[str, str] = dataclasses.field(default_factory=TASKS.copy)
    scores: tuple[str, ...] = REPLY_SCORES + RANKING_SCORES
    tables: tuple[tuple[str, ...], ...] = (REPLY_SCORES, RANKING_SCORES)
    decimals: int = 2
    num_pairs: Mapping[str, int] = dataclasses.field(default_factory=dict)
    shares: Mapping[str, float] = dataclasses.field(default_factory=dict)
    num_responses: Mapping[str, int] = dataclasses.field(default_factory=dict)
    num_mt_pairs: int = 0

    def _scenario(self, name: str, task: str, source: str | None, target: str | None) -> Scenario:
        """Makes a setting, also one with translated data (arXiv:2106.02017, section 3.2)."""
        if name not in TRANSLATED:
            return super()._scenario(name, task, source, target)
        others = tuple(other for other in self.languages if other != self.pivot)
        lang = self._needed(name, task, source or target, others)
        tasks, mixture = self._named(task, (lang,)), f'{self.name}_mt_{task}_{lang}'
        # Pairs that were written in the language are what these settings do without: the pairs
        # that were translated are English.
        select = self._named(task, (self.pivot,))
        if name == 'mt':
            return Scenario(name, mixture, tasks, tasks, task, lang, lang, 'mt_train', select)
        added = (Added('mt', mixture, 'mt_train'),)
        mixture = f'{self.name}_mixed_{task}_{lang}'
        return Scenario(name, mixture, select, tasks, task, lang, lang, added=added)

    def by_translated_dev(self, scenario: Scenario) -> Scenario:
        """The same scenario, whose checkpoint machine-translated validation pairs choose.

        Raises:
          UserError: it trains on no translated pairs.
        """
        if scenario.name not in TRANSLATED:
            raise errors.UserError(
                f'scenario {scenario.name!r} has no translated pairs; dev=translated is for '
                f'{" and ".join(TRANSLATED)}'
            )
        return dataclasses.replace(scenario, select=scenario.evaluate, select_split='mt_validation')

    def scenarios(self) -> tuple[Scenario, ...]:
        """Every scenario, each with a mixture of its own name."""
        others = [lang for lang in self.languages if lang != self.pivot]
        translated = [
            self.scenario(name, task, lang)
            for name in TRANSLATED
            if name in self.scenario_names
            for task in self.tasks
            for lang in others
        ]
        return (*super().scenarios(), *translated)

    def official_size(self, task: str, split: str, source: str) -> int | None:
        """The number of examples of a split, as far as it is published; None if it is not."""
        if split == 'responses':
            return self.num_responses.get(source)
        if split == 'mt_train':
            return self.num_mt_pairs or None
        if split not in self.shares or source not in self.num_pairs:
            return None
        return round(self.shares[split] * self.num_pairs[source])
