"""Few-shot transfer: texts and words to label (arXiv:2012.15682)."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from xlbench.benchmarks import paper
from xlbench.benchmarks.monolingual import MonolingualBenchmark
from xlbench.benchmarks.paper import Head, Key, Line, PaperTable, heads
from xlbench.system import errors


@dataclasses.dataclass(frozen=True)
class LabelBenchmark(MonolingualBenchmark):
    """Texts or words to label, each in one language; not parallel between languages.

    Its settings are those before any shot (arXiv:2012.15682, section 4.1): zero_shot trains the
    pivot and evaluates every language, mono trains the language itself, where it has more than
    shots.

    Attributes:
      task_languages: the languages of each task, the pivot first.
      pivot_only: the tasks whose split 'train' is there in the pivot alone.
      tagging: the tasks that label words, whose main score is chunk_f1.
      most_shots: of a label in a bucket; small corpora have buckets of fewer only.
    """

    scenario_names: tuple[str, ...] = ('zero_shot', 'mono')
    scores_pivot: bool = True
    task_languages: Mapping[str, tuple[str, ...]] = dataclasses.field(
        hash=False, default_factory=dict
    )
    pivot_only: tuple[str, ...] = ()
    tagging: tuple[str, ...] = ()
    most_shots: int = 8

    def main_score(self, task: str) -> str:
        """The score that counts for one of `tasks`."""
        return 'chunk_f1' if task in self.tagging else self.scores[0]

    def languages_of(self, task: str) -> tuple[str, ...]:
        """The languages of a task, the pivot first."""
        return self.task_languages[task]

    def train_languages(self, task: str) -> tuple[str, ...]:
        """The languages of a task that have a split 'train'."""
        return (self.pivot,) if task in self.pivot_only else self.task_languages[task]

    def shots(self, task: str) -> tuple[int, ...]:
        """The numbers of shots of a task (arXiv:2012.15682, section 4.1): its splits shots_1, ...

        No eight of each tag: K shots of tagging are K words at least, and sentences have many.
        """
        self._check(task, None, None)
        most = min(self.most_shots, 4 if task in self.tagging else 8)
        return tuple(number for number in (1, 2, 4, 8) if number <= most)

    def _check(self, task: str | None, source: str | None, target: str | None) -> None:
        super()._check(task, source, target)
        languages = self.task_languages.get(task or '', self.languages)
        for lang in (source, target):
            if lang is not None and lang not in languages:
                raise errors.unknown(f'language of {task}', lang, languages)


# --------------------------------------------------------------------- the paper's tables

_NAMES = {
    'mldoc': 'MLDoc', 'marc': 'MARC', 'xnli': 'XNLI', 'pawsx': 'PAWSX', 'udpos': 'POS',
    'panx': 'NER',
}  # fmt: skip
_LONG = dict(
    xnli='Natural language inference', pawsx='Paraphrase identification',
    mldoc='News article classification', marc='Amazon reviews', udpos='Part-of-speech tagging',
    panx='Named-entity recognition',
)  # fmt: skip
_SPREAD = 'mean ±deviation'
_METHODS = {
    'full': 'Full-Model Finetuning', 'fc': 'FC only', 'fc_pooler': 'FC + Pooler',
    'cos_pooler': 'COS + Pooler', 'fc_reset_pooler': 'FC (reset) + Pooler',
}  # fmt: skip


_RATES = ('1e-5', '3e-5', '5e-5', '7e-5')  # That the paper searches (appendix A.4).
# Of tables 4 and 11: adaptation without source training.
_UNTRAINED = ('mldoc', 'pawsx', 'udpos', 'panx')


def _sweeps(*tasks: str) -> tuple[str, ...]:
    return tuple(f'sweep-{task}' for task in tasks)


def _shots(counts: str, path: str = '', method: str = 'full', **key: str) -> tuple[Head, ...]:
    """Columns of numbers of shots; without any, nothing is trained and there is no deviation."""
    made = []
    for k in counts.split():
        how = ('zero_shot', 'mean') if k == '0' else (method, _SPREAD)
        where = {'shots': k, 'method': how[0], 'start': 'source', 'score': how[1], **key}
        made.append(Head((path, f'K={k}') if path else (f'K={k}',), where))
    return tuple(made)


def _by_shots(number: int, title: str, counts: str, tasks: Sequence[str]) -> PaperTable:
    """Tables 2, 12 and 13, whose rows have the order of their numbers."""
    rows = [r for r in paper.printed_rows('fewshot_scores') if r['table'] == str(number)]
    places = dict.fromkeys((row['task'], row['language']) for row in rows)
    lines = tuple(
        Line((_NAMES[task], lang) if number == 2 else (lang.upper(),),
             {'task': task, 'language': lang})
        for task, lang in places
    )  # fmt: skip
    labels = ('', '') if number == 2 else ('',)
    return PaperTable(
        f'table {number}', title, '', 'fewshot_scores', labels, lines, _shots(counts),
        {'table': str(number)}, experiments=_sweeps(*tasks), made_by=('scores',),
    )  # fmt: skip


def _halves(number: int, title: str, printed: str, key: Key) -> PaperTable:
    """Tables 4 and 11: two halves side by side, each with languages of its own."""
    texts = ('de', 'fr', 'es', 'it', 'ru', 'zh', 'ja', 'ko')
    words = ('ru', 'es', 'vi', 'tr', 'ta', 'mr')
    lines = []
    for lang, tag in itertools.zip_longest(texts, words, fillvalue='-'):
        names = (lang, tag) if number == 4 else (lang.upper(), tag.upper())
        lines.append(Line(names[:1], {'lang': lang, 'tag': tag, 'label': names[1]}))
    columns = []
    for task, last, lang in (('mldoc', 8, '{lang}'), ('pawsx', 8, '{lang}'), ('', 0, ''),
                             ('udpos', 4, '{tag}'), ('panx', 4, '{tag}')):  # fmt: skip
        if not task:
            columns.append(Head(('', ''), {'text': '{label}'}))
        columns += [
            Head((_NAMES[task], f'K={k}'), {'task': task, 'shots': str(k), 'language': lang})
            for k in (1, last) * bool(task)
        ]
    key = {'table': str(number), **key}
    made = tuple(name for task in _UNTRAINED for name in (f'sweep-{task}', f'untrained-{task}'))
    return PaperTable(
        f'table {number}', title, '', printed, ('',), tuple(lines), tuple(columns), key,
        experiments=made, made_by=('starts',),
    )  # fmt: skip


def _tables(benchmark: LabelBenchmark) -> tuple[PaperTable, ...]:
    factors = {'overlap': 'lexical overlap', 'features': '# of common linguistic features'}
    tokens = tuple(row['token'] for row in paper.printed_rows('fewshot_attention'))
    overlap = dict.fromkeys(row['language'] for row in paper.printed_rows('fewshot_overlap'))
    searched = tuple(f'source-{task}-{rate}' for task in benchmark.tasks for rate in _RATES)
    described = 'it describes the data; no run makes it'

    def figure(number: int, title: str, *experiments: str) -> PaperTable:
        made_by = (f'figure{number}',)
        return PaperTable(f'figure {number}', title, experiments=experiments, made_by=made_by)

    return (
        PaperTable(
            'table 1', 'The tasks', '', 'fewshot_tasks', ('Name',),
            tuple(Line((_NAMES[t],), {'task': t, 'long': _LONG[t]}) for t in _LONG),
            (
                *heads({'Metric': 'metric'}), Head(('Task',), {'text': '{long}'}),
                *heads({'|T|': 'labels', 'TS': 'target_training_sets', '# of lang.': 'languages'}),
            ),
            experiments=_sweeps(*benchmark.tasks), made_by=('about',),
        ),
        _by_shots(
            2, 'Classification by language and shots', '0 1 2 4 8',
            ('mldoc', 'marc', 'xnli', 'pawsx'),
        ),
        PaperTable(
            'table 3', 'Spearman (S) and Pearson (P) correlation of gains with two factors', '',
            'fewshot_correlations', ('Task', 'Factor'),
            tuple(
                Line((_NAMES[task], label), {'task': task, 'factor': factor})
                for task in ('panx', 'udpos') for factor, label in factors.items()
            ),
            heads({'S': 'spearman', 'P': 'pearson'}),
            experiments=_sweeps('panx', 'udpos'), made_by=('correlations',),
        ),
        _halves(4, 'What the lack of source training costs', 'fewshot_gaps',
                {'score': 'difference'}),
        PaperTable(
            'table 5', 'Tokens whose attention from [CLS] changes most, MARC in German', '',
            'fewshot_attention', ('token',), (Line(('Attn',), {'score': 'change'}),),
            tuple(Head((token,), {'token': token}) for token in tokens),
            experiments=('attention-marc',), made_by=('attention',),
        ),
        PaperTable(
            'table 6', 'What is trained in adaptation, MARC', '', 'fewshot_scores', ('',),
            tuple(Line((lang,), {'language': lang}) for lang in ('de', 'fr', 'es', 'zh', 'ja')),
            (
                *_shots('0 1 8', _METHODS['full']),
                *(h for m in list(_METHODS)[1:] for h in _shots('1 8', _METHODS[m], m)),
            ),
            {'table': '6', 'task': 'marc'},
            experiments=(*_sweeps('marc'), 'methods-marc'), made_by=('methods',),
        ),
        PaperTable(
            'table 7', 'Source training: English dev score, and learning rate', '',
            'fewshot_source', (),
            tuple(Line((), {'score': score}) for score in ('dev_score', 'learning_rate')),
            tuple(Head((label,), {'task': task}) for task, label in _NAMES.items()),
            experiments=(*_sweeps(*benchmark.tasks), *searched), made_by=('source',),
        ),
        PaperTable('table 8', 'Examples', instead=described),
        PaperTable('table 9', 'Languages and their features', instead=described),
        PaperTable(
            'table 10', 'Confusions of stars, MARC', '', 'fewshot_confusion', ('', ''),
            tuple(
                Line((lang, stars), {'language': lang, 'stars': stars})
                for lang in ('de', 'zh') for stars in '12345'
            ),
            tuple(
                Head((f'K={k}', stars), {'shots': k, 'score': stars})
                for k in '01' for stars in '12345'
            ),
            notes=('The paper prints the numbers without heads: a row for the stars of the review, '
                   'a column for those predicted.',),
            experiments=_sweeps('marc'), made_by=('figure5',),
        ),
        _halves(11, 'Adaptation without source training', 'fewshot_scores',
                {'start': 'none', 'method': 'full', 'score': _SPREAD}),
        _by_shots(12, 'Parts of speech by language and shots', '0 1 2 4', ('udpos',)),
        _by_shots(13, 'Named entities by language and shots', '0 1 2 4', ('panx',)),
        PaperTable(
            'table 14', 'Lexical overlap of shots with English, in percent', '', 'fewshot_overlap',
            ('',), tuple(Line((lang.upper(),), {'language': lang}) for lang in overlap),
            tuple(
                Head((_NAMES[task], f'K={k}'), {'task': task, 'shots': k, 'score': 'overlap'})
                for task in ('panx', 'udpos') for k in '124'
            ),
            experiments=_sweeps('panx', 'udpos'), made_by=('overlap',),
        ),
        figure(1, 'Seeds and buckets', 'sweep-mldoc', 'seeds-mldoc', 'sweep-marc', 'seeds-marc'),
        figure(2, 'Gains of tagging by language', *_sweeps('panx', 'udpos')),
        figure(3, 'Buckets and what they improve', *_sweeps('udpos')),
        figure(4, 'Improved words in buckets', *_sweeps('udpos')),
        figure(5, 'Confusions', *_sweeps('marc')),
        figure(6, 'Learning curve', *_sweeps('marc')),
    )  # fmt: skip


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
    tasks=tuple(_LANGUAGES),
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
    declare_tables=_tables,
)
