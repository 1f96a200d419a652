"""Translation: parallel texts, as ClidSum's Trans-WMT is trained on them (arXiv:2202.05599)."""

import dataclasses
from collections.abc import Mapping

from xlbench.benchmarks.benchmark import Benchmark, Scenario
from xlbench.system import errors


@dataclasses.dataclass(frozen=True)
class TranslationBenchmark(Benchmark):
    """Pairs of sentences in two languages, of which one is the pivot.

    cross goes from `source`, by default the pivot, to `target`, or with one model to each language
    that it is paired with.

    Attributes:
      test_sizes: of a task, the official number of test examples by source language.
    """

    scenario_names: tuple[str, ...] = ('cross',)
    test_sizes: Mapping[str, Mapping[str, int]] = dataclasses.field(
        hash=False, default_factory=dict
    )

    def _targets(self, source: str) -> tuple[str, ...]:
        others = tuple(lang for lang in self.languages if lang != self.pivot)
        return others if source == self.pivot else (self.pivot,)

    def task_names(self) -> tuple[str, ...]:
        """Lists every SeqIO task of the benchmark: into the pivot's language and out of it."""
        return tuple(
            self.task_name(task, source, target)
            for task in self.tasks
            for source in self.languages
            for target in self._targets(source)
        )

    def _scenario(self, name: str, task: str, source: str | None, target: str | None) -> Scenario:
        source = source or self.pivot
        targets = self._targets(source) if target is None else (target,)
        self._check(task, source, targets[0])
        train = tuple(self.task_name(task, source, other) for other in targets)
        mixture = train[0] if len(train) == 1 else f'{self.name}_{name}_{task}'
        return Scenario(name, mixture, train, train, task, source, target)

    def scenarios(self) -> tuple[Scenario, ...]:
        """Lists every scenario that has a mixture of its own: from the pivot to all languages."""
        return tuple(self.scenario('cross', task) for task in self.tasks)

    def official_size(self, task: str, split: str, source: str) -> int | None:
        """The published number of test examples.

        The other splits have none: the pairs that the paper trained on are not published.
        """
        return self.test_sizes.get(task, {}).get(source) if split == 'test' else None

    def is_official(self, task: str, split: str, num_examples: int, source: str = '') -> bool:
        """Returns whether a split has the published number of examples, if there is one."""
        return self.official_size(task, split, source) in (None, num_examples)

    def _check(self, task: str | None, source: str | None, target: str | None) -> None:
        super()._check(task, source, target)
        if source and target and target not in self._targets(source):
            known = ', '.join(
                f'{source} -> {target}'
                for source in self.languages
                for target in self._targets(source)
            )
            raise errors.UserError(f'{self.name} has no {source} -> {target}; it has {known}')


TRANSLATION = TranslationBenchmark(
    name='translation',
    tasks=('wmt20', 'xdailydialog'),
    languages=('en', 'de', 'zh'),
    task_titles={'wmt20': 'news of WMT20', 'xdailydialog': 'utterances of XDailyDialog'},
    scores=('bleu', 'ter', 'chrf'),
    title='A Benchmark Dataset for Cross-Lingual Dialogue Summarization',
    arxiv='2202.05599',
    paper_models=('Trans-WMT', 'OPUS-MT', 'Google Trans.'),
    paper_note='Rows of the paper are those of Table 4 of arXiv:2202.05599, on newstest2020. It '
    'does not say how its TER cuts Chinese into words; here it does so by character.',
    # newstest2020: statmt.org/wmt20/translation-task.html, and the same in sacrebleu.
    test_sizes={'wmt20': {'en': 1418, 'de': 785, 'zh': 2000}},
)
