"""ClidSum: English dialogues and their summaries in three languages (arXiv:2202.05599)."""

import dataclasses
from collections.abc import Mapping

from xlbench import errors
from xlbench.benchmarks.benchmark import Benchmark, Scenario


@dataclasses.dataclass(frozen=True)
class SummaryBenchmark(Benchmark):
    """Dialogues in the pivot's language, with summaries in all languages.

    mono trains on the pivot's own summaries; cross on those in another language, `target`, or in
    all others.

    Attributes:
        pairs: Of each task, the (source, target) languages that it has.
    """

    pairs: Mapping[str, tuple[tuple[str, str], ...]] = dataclasses.field(
        hash=False, default_factory=dict
    )
    scenario_names: tuple[str, ...] = ('mono', 'cross')

    def task_names(self) -> tuple[str, ...]:
        """Lists every SeqIO task of the benchmark: each task in each of its pairs."""
        return tuple(
            self.task_name(task, *pair) for task in self.tasks for pair in self.pairs[task]
        )

    def task_name(self, task: str, source: str, target: str | None = None) -> str:
        """The SeqIO task of one task and pair; the target defaults to the source."""
        name = super().task_name(task, source, target)
        if (source, target or source) not in self.pairs[task]:
            known = ', '.join(' -> '.join(pair) for pair in self.pairs[task])
            raise errors.UserError(
                f'{self.name} {task} has no {source} -> {target or source}; it has {known}'
            )
        return name

    def _scenario(
        self, name: str, task: str | None, source: str | None, target: str | None
    ) -> Scenario:
        source = source or self.pivot
        if name == 'mono':
            target = target or source
            if target != source:
                raise errors.UserError(
                    f"scenario 'mono' has the same source and target, got {source} -> {target}; "
                    "for another target use 'cross'"
                )
        targets = [t for _, t in self.pairs[task] if t != source] if target is None else [target]
        if name == 'cross' and (not targets or source in targets):
            raise errors.UserError(
                f"scenario 'cross' of {self.name} {task} goes from {self.pivot} to another "
                f'language, got {source} -> {target or source}'
            )
        train = tuple(self.task_name(task, source, t) for t in targets)
        mixture = train[0] if target else f'{self.name}_cross_{task}'
        return Scenario(name, mixture, train, train, task, source, target)

    def scenarios(self) -> tuple[Scenario, ...]:
        """Lists every scenario that has a mixture of its own: cross into all languages."""
        return tuple(
            self.scenario('cross', task) for task in self.tasks if len(self.pairs[task]) > 1
        )


SUMMARIZE = '[summarize]'  # The token that mDialBART reads before a dialogue to sum up.
_SUMMARIES = (('en', 'en'), ('en', 'de'), ('en', 'zh'))
# Table 2 of the paper.
_SIZES = {
    'xsamsum': {'train': 14_732, 'validation': 818, 'test': 819},
    'xmediasum40k': {'train': 20_000, 'validation': 10_000, 'test': 10_000},
}
# What a task reads and writes, as the end of its name says: a dialogue and its summary, twice the
# dialogue (what a denoiser repairs), a summary and its translation; mDialBART's dialogue with its
# mark and the summary, and a dialogue with noise and the same without.
_KINDS = {
    '': _SUMMARIES,
    'dialogue': _SUMMARIES[:1],
    'summary': _SUMMARIES[1:],
    'summarize': _SUMMARIES,
    'permutation': _SUMMARIES[:1],
    'infilling': _SUMMARIES[:1],
}
_KIND_TITLES = {
    '': 'summary of {}',
    'dialogue': 'dialogue of {}',
    'summary': 'translated summary of {}',
    'summarize': 'summary of {}, marked',
    'permutation': 'restored order of {}',
    'infilling': 'restored actions of {}',
}
_TITLES = {'xsamsum': 'chats', 'xmediasum40k': 'interviews'}

CLIDSUM = SummaryBenchmark(
    name='clidsum',
    tasks=tuple(f'{corpus}{kind}' for kind in _KINDS for corpus in _SIZES),
    languages=('en', 'de', 'zh'),
    task_titles={
        f'{corpus}{kind}': form.format(title)
        for kind, form in _KIND_TITLES.items() for corpus, title in _TITLES.items()
    },
    scores=('rouge_1', 'rouge_2', 'rouge_l', 'bertscore'),
    title='A Benchmark Dataset for Cross-Lingual Dialogue Summarization',
    arxiv='2202.05599',
    paper_models=(
        *(
            f'{summariser} + {translator}'
            for summariser in ('PEGASUS', 'T5', 'BART', 'mBART', 'MV-BART', 'BART(D_ALL)')
            for translator in ('Trans-WMT', 'OPUS-MT', 'Google Trans.')
        ),
        *(f'{translator} + mBART' for translator in ('Trans-WMT', 'OPUS-MT', 'Google Trans.')),
        'mBART',
    ),
    paper_note='Rows of the paper are those of Table 3 of arXiv:2202.05599 that use the supervised '
    'data alone; summariser + translator summarises first, translator + summariser translates '
    'first.',
    split_sizes={f'{corpus}{kind}': sizes for kind in _KINDS for corpus, sizes in _SIZES.items()},
    pairs={f'{corpus}{kind}': pairs for kind, pairs in _KINDS.items() for corpus in _SIZES},
)  # fmt: skip
