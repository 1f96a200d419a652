"""ClidSum: English dialogues and their summaries in three languages (arXiv:2202.05599)."""

import dataclasses
import itertools
from collections.abc import Mapping

from xlbench.benchmarks import paper
from xlbench.benchmarks.benchmark import Scenario
from xlbench.benchmarks.parallel import PairBenchmark
from xlbench.system import errors


@dataclasses.dataclass(frozen=True, eq=False)
class SummaryBenchmark(PairBenchmark):
    """Dialogues in the pivot's language, with summaries in all languages, and more of both.

    semi is cross, or mono where the target is the pivot, with the pairs of a larger corpus before
    the others in each epoch (the paper's section 6.1).

    Attributes:
      added: of each task that has a scenario semi, the tasks whose pairs come before its own;
        they share its languages among them.
      pretrained: what a second stage of pre-training may be made of, by short names: the task
        that it trains on, and the one whose validation examples it is judged by.
    """

    scenario_names: tuple[str, ...] = ('mono', 'cross', 'semi')
    added: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    pretrained: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)

    def _scenario(self, name: str, task: str, source: str | None, target: str | None) -> Scenario:
        if name == 'semi':
            return self._semi(task, source or self.pivot, target)
        return super()._scenario(name, task, source, target)

    def _semi(self, task: str, source: str, target: str | None) -> Scenario:
        """The scenario of the pairs of the tasks that are `added`, followed by a task's own."""
        if task not in self.added:
            known = ', '.join(self.added)
            raise errors.UserError(
                f"scenario 'semi' of {self.name} adds pairs of another corpus to those of {known}, "
                f'got {task}'
            )
        targets = self._targets(task, source, target)
        real = [self.task_name(task, source, t) for t in targets]
        more = [
            self.task_name(name, source, t)
            for t in targets
            for name in self.added[task]
            if (source, t) in self.pairs[name]
        ]
        mixture = f'{self.name}_semi_{task}'
        if target:
            mixture, curriculum = f'{mixture}_{source}_{target}', (*more, *real)
        else:
            several = next(name for name in self.added[task] if len(self.pairs[name]) > 1)
            curriculum = tuple(f'{self.name}_cross_{name}' for name in (several, task))
        return Scenario(
            'semi', mixture, (*more, *real), tuple(real), task, source, target,
            select=tuple(real), curriculum=curriculum,
        )  # fmt: skip

    def pretraining(self, tasks: str, target: str | None = None) -> Scenario:
        """The tasks of a second stage of pre-training, as a scenario.

        They are keys of `pretrained` with + between them, in any order, such as 'aci+mt'; those
        that translate do so into the target, or into all languages.
        """
        words = tasks.split('+')
        for word in words:
            if word not in self.pretrained:
                hint = 'Several have + between them, as aci+mt'
                raise errors.unknown('task of pre-training', word, self.pretrained, hint)
        if len(set(words)) < len(words):
            raise errors.UserError(f'pre-training {tasks} names a task twice; name each once')
        chosen = [word for word in self.pretrained if word in words]
        trained, judged = (
            tuple(
                self.task_name(self.pretrained[word][place], *pair)
                for word in chosen
                for pair in self._pretrained_pairs(word, target)
            )
            for place in (0, 1)
        )
        marks = [*chosen, *([target] if target and 'mt' in chosen else [])]
        mixture = f'{self.name}_pretraining_{"_".join(marks)}' if len(trained) > 1 else trained[0]
        return Scenario(
            'pretraining', mixture, trained, judged, None, self.pivot, target, select=judged
        )

    def _pretrained_pairs(self, word: str, target: str | None) -> list[tuple[str, str]]:
        """The pairs of a task of pre-training: those it trains on, into the target if it has it."""
        task = self.pretrained[word][0]
        pairs = self.pairs[task]
        chosen = [pair for pair in pairs if target in (None, pair[1]) or pair[1] == self.pivot]
        if not chosen:
            self.task_name(task, self.pivot, target)  # Which says what it has.
        return chosen

    def scenarios(self) -> tuple[Scenario, ...]:
        """Every scenario with a mixture of its own: cross into all languages, semi, pretraining."""
        semi = [
            self.scenario('semi', task, target=target)
            for task in self.added
            for target in (None, *(pair[1] for pair in self.pairs[task]))
        ]
        pretraining = {
            scenario.mixture: scenario
            for count in range(1, len(self.pretrained) + 1)
            for words in itertools.combinations(self.pretrained, count)
            for target in (None, *(lang for lang in self.languages if lang != self.pivot))
            if len((scenario := self.pretraining('+'.join(words), target)).train) > 1
        }
        return (*super().scenarios(), *semi, *pretraining.values())


SUMMARIZE = '[summarize]'  # The token that mDialBART reads before a dialogue to sum up.
_SUMMARIES = (('en', 'en'), ('en', 'de'), ('en', 'zh'))
_ENGLISH, _TRANSLATED = _SUMMARIES[:1], _SUMMARIES[1:]
_WITHIN = (('de', 'de'), ('zh', 'zh'))
# Table 2 of the paper; MediaSum424k (Table 1) is for training alone.
_SIZES = {
    'xsamsum': {'train': 14_732, 'validation': 818, 'test': 819},
    'xmediasum40k': {'train': 20_000, 'validation': 10_000, 'test': 10_000},
    'mediasum424k': {'train': 423_596},
}
# What a task reads and writes, as the end of its name says: a dialogue and its summary, twice the
# dialogue (what a denoiser repairs), a summary and its translation, a dialogue that a machine has
# translated and the summary in its language; mDialBART's dialogue with its mark and the summary, a
# dialogue with noise and the same without, and MV-BART's two views of a dialogue and the summary.
# Each with its title, and its pairs of (source, target) languages: of the first two corpora, and of
# MediaSum424k, whose summaries are English; those in other languages a machine has translated.
_Pairs = tuple[tuple[str, str], ...]
_KINDS: dict[str, tuple[str, _Pairs, _Pairs]] = {
    '': ('summary of {}', _SUMMARIES, _ENGLISH),
    'dialogue': ('dialogue of {}', _ENGLISH, _ENGLISH),
    'summary': ('translated summary of {}', _TRANSLATED, ()),
    'translated': ('summary of machine-translated {}', _WITHIN, ()),
    'summarize': ('summary of {}, marked', _SUMMARIES, _ENGLISH),
    'permutation': ('restored order of {}', _ENGLISH, _ENGLISH),
    'infilling': ('restored actions of {}', _ENGLISH, _ENGLISH),
    'views': ('summary of two views of {}', _ENGLISH, ()),
    'pseudo': ('machine-translated summary of {}', (), _TRANSLATED),
    'pseudosummarize': ('machine-translated summary of {}, marked', (), _TRANSLATED),
}
_CORPORA = {'xsamsum': 'chats', 'xmediasum40k': 'interviews', 'mediasum424k': 'further interviews'}
_TASKS = {
    f'{corpus}{kind}': (corpus, title.format(_CORPORA[corpus]), pairs)
    for kind, (title, usual, further) in _KINDS.items()
    for corpus, pairs in zip(_CORPORA, (usual, usual, further), strict=True)
    if pairs
}

CLIDSUM = SummaryBenchmark(
    name='clidsum',
    languages=('en', 'de', 'zh'),
    task_titles={task: title for task, (_, title, _) in _TASKS.items()},
    scores=('rouge_1', 'rouge_2', 'rouge_l', 'bertscore'),
    metrics={'bertscore': 'bertscore_clidsum'},
    title='A Benchmark Dataset for Cross-Lingual Dialogue Summarization',
    arxiv='2202.05599',
    paper_models=paper.tables('clidsum')[2].values('model'),
    paper_note='Rows of the paper are those of Table 3 of arXiv:2202.05599; summariser + '
    'translator summarises first, translator + summariser translates first.',
    paper_tasks={f'{corpus}summarize': corpus for corpus in ('xsamsum', 'xmediasum40k')},
    split_sizes={task: _SIZES[corpus] for task, (corpus, _, _) in _TASKS.items()},
    pairs={task: pairs for task, (_, _, pairs) in _TASKS.items()},
    added={
        f'xmediasum40k{kind}': (f'mediasum424k{kind}', f'mediasum424kpseudo{kind}')
        for kind in ('', 'summarize')
    },
    # Table 7 of the paper: action infilling, utterance permutation, monolingual dialogue
    # summarisation, machine translation (section 5.1).
    pretrained={
        'aci': ('mediasum424kinfilling', 'xmediasum40kinfilling'),
        'up': ('mediasum424kpermutation', 'xmediasum40kpermutation'),
        'mds': ('mediasum424ksummarize', 'xmediasum40ksummarize'),
        'mt': ('xmediasum40ksummary', 'xmediasum40ksummary'),
    },
)  # fmt: skip
