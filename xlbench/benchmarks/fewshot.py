"""Few-shot transfer: texts and words to label (arXiv:2012.15682)."""

import dataclasses
from collections.abc import Mapping

from xlbench.benchmarks.monolingual import MonolingualBenchmark
from xlbench.system import errors


@dataclasses.dataclass(frozen=True, eq=False)
class LabelBenchmark(MonolingualBenchmark):
    """Texts or words to label, each in one language; not parallel between languages.

    Its settings are those before any shot (arXiv:2012.15682, section 4.1): zero_shot trains the
    pivot and evaluates every language, mono trains the language itself, where it has more than
    shots.

    Attributes:
      task_languages: the languages of each task that lacks some, the pivot first.
      pivot_only: the tasks whose split 'train' is there in the pivot alone.
      tagging: the tasks that label words, whose main score is chunk_f1.
      most_shots: of a label in a bucket; small corpora have buckets of fewer only.
    """

    scenario_names: tuple[str, ...] = ('zero_shot', 'mono')
    scores_pivot: bool = True
    task_languages: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    pivot_only: tuple[str, ...] = ()
    tagging: tuple[str, ...] = ()
    most_shots: int = 8

    def main_score(self, task: str) -> str:
        """The score that counts for one of `tasks`."""
        return 'chunk_f1' if task in self.tagging else self.scores[0]

    def languages_of(self, task: str) -> tuple[str, ...]:
        """The languages of a task, the pivot first."""
        return self.task_languages.get(task, self.languages)

    def train_languages(self, task: str) -> tuple[str, ...]:
        """The languages of a task that have a split 'train'."""
        return (self.pivot,) if task in self.pivot_only else self.languages_of(task)

    def shots(self, task: str) -> tuple[int, ...]:
        """The numbers of shots of a task (arXiv:2012.15682, section 4.1): its splits shots_1, ...

        No eight of each tag: K shots of tagging are K words at least, and sentences have many.
        """
        self._check(task, None, None)
        most = min(self.most_shots, 4 if task in self.tagging else 8)
        return tuple(number for number in (1, 2, 4, 8) if number <= most)

    def _check(self, task: str | None, source: str | None, target: str | None) -> None:
        super()._check(task, source, target)
        languages = self.languages_of(task or '')
        for lang in (source, target):
            if lang is not None and lang not in languages:
                raise errors.unknown(f'language of {task}', lang, languages)


# Table 1 of the paper; the languages of XTREME's data, less those of UD POS without a train split.
_LANGUAGES = {
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
    languages=tuple(_LANGUAGES['panx'].split()),  # The other tasks have some of them.
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
    task_languages={task: tuple(langs.split()) for task, langs in _LANGUAGES.items()},
    # The dev sets that shots are numbered in; their buckets are read by these numbers.
    split_sizes={'xnli': {'validation': 2490}, 'pawsx': {'validation': 2000}},
    pivot_only=('xnli', 'pawsx'),
    tagging=('udpos', 'panx'),
)
