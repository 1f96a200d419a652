"""The tables of the four papers as they are printed: heads, labels of rows, and their order.

Each is declared once, as a `Form`; what stands in its cells comes from the numbers that the paper
prints (paper_scores/) or from runs. arXiv:2108.07140 (MTG), 2106.02017 (MRS), 2202.05599 (ClidSum)
and 2012.15682 (few-shot transfer).
"""

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from xlbench.benchmarks import paper
from xlbench.benchmarks.mrs import MRS
from xlbench.benchmarks.mtg import MTG

Key = Mapping[str, str]
_NAME = re.compile(r'[A-Za-z]\w*|\b\d\b')  # Of a score in the `score` of a key.


class Line(NamedTuple):
    """A row: its labels, the part of the key of its cells, and the heading that it stands below."""

    labels: tuple[str, ...]
    key: Key
    section: str = ''


class Head(NamedTuple):
    """A column: its names from the top one down, and the part of the key of its cells."""

    path: tuple[str, ...]
    key: Key

    @property
    def scores(self) -> list[str]:
        """The names of its scores."""
        return _NAME.findall(self.key.get('score', ''))


@dataclasses.dataclass(frozen=True)
class Form:
    """A table as a paper prints it.

    The key of a cell is that of the table, of its row and of its column together. `score` names the
    scores in it, such as 'rouge_1 / rouge_2'; the other entries say of which result they are. A
    value may refer to the key of the row: '{lang}'. An entry `text` is what stands in the cell.

    Attributes:
        name: 'table 4'.
        caption: What it shows.
        printed: The file of paper_scores with its numbers.
        heads: The heads of the labels.
        lines: Its rows.
        columns: Its other columns.
        key: The part of the key that all cells share.
        notes: What has to be known of it.
        leading_zero: Whether numbers below 1 begin with 0.
    """

    name: str
    caption: str
    printed: str
    heads: tuple[str, ...]
    lines: tuple[Line, ...]
    columns: tuple[Head, ...]
    key: Key = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    leading_zero: bool = True

    def cells(self, value: Callable[[Key, str], str | None]) -> list[list[str]]:
        """The texts of all cells, row by row.

        Args:
            value: Gives the text of a score, by the key of its cell and its name; None for none.
        """
        return [[self._cell(line, head, value) for head in self.columns] for line in self.lines]

    def _cell(self, line: Line, head: Head, value: Callable[[Key, str], str | None]) -> str:
        whole = {**self.key, **line.key, **head.key}
        key = {name: text.format_map(whole) for name, text in whole.items()}
        if 'text' in key:
            return key['text']
        values = {name: value(key, name) for name in _NAME.findall(key['score'])}
        if not any(values.values()) and '/' not in key['score']:
            return '-'
        text = _NAME.sub(lambda name: values[name[0]] or '-', key['score'])
        return text if self.leading_zero else re.sub(r'\b0\.', '.', text)

    def with_stand_in(self, replaced: Sequence[str], name: str) -> 'Form':
        """A form in which one translator has the rows of others, under its own name.

        Args:
            replaced: The paper's translators; of their rows that become equal, the first stays.
            name: The translator that stands in for them.
        """
        lines: dict[tuple[object, ...], Line] = {}
        for line in self.lines:
            model, labels = line.key.get('model', ''), line.labels
            for one in replaced:
                model = model.replace(one, name)
                labels = tuple(label.replace(one, name) for label in labels)
            key = {**line.key, **({'model': model} if model else {})}
            lines.setdefault(tuple(key.values()), Line(labels, key, line.section))
        return dataclasses.replace(self, lines=tuple(lines.values()))

    def decimals(self, score: str) -> int:
        """The most digits behind the point that the paper prints of a score."""
        texts = (row.get(score) or '' for row in paper.printed_rows(self.printed))
        return max((len(text.partition('.')[2]) for text in texts), default=0)

    def printed_value(self, key: Key, score: str) -> str | None:
        """The text that the paper prints, for `cells`."""
        rows = paper.printed_rows(self.printed)
        names = tuple(sorted(key.keys() & rows[0].keys()))
        row = _index(self.printed, names).get(tuple(key[name] for name in names), {})
        return row.get(score) or None


@functools.cache
def _index(printed: str, names: tuple[str, ...]) -> dict[tuple[str, ...], dict[str, str]]:
    return {tuple(row[name] for name in names): row for row in paper.printed_rows(printed)}


def _heads(names: Mapping[str, str], *group: str, **key: str) -> tuple[Head, ...]:
    """Columns of scores by their printed names."""
    return tuple(Head((*group, name), {**key, 'score': score}) for name, score in names.items())


# ------------------------------------------------------------------------------------------- MTG

_FULL = (
    *_heads({'BLEU': 'bleu', 'ROUGE-L': 'rouge_l', 'METEOR': 'meteor'}, 'N-gram-based'),
    *_heads({'BERTScore': 'bertscore', 'BLEURT': 'bleurt'}, 'Embedding-based'),
    *_heads({'Distant-1': 'distinct_1'}, 'Others'),
    *_heads({'Ensemble': 'ensemble'}, 'Ours'),
)
_AVERAGED = _heads({
    'BLEU': 'bleu', 'R-1': 'rouge_1', 'R-2': 'rouge_2', 'R-L': 'rouge_l', 'METEOR': 'meteor',
    'BERTScore': 'bertscore', 'D-1': 'distinct_1', 'D-2': 'distinct_2', 'Ensemble': 'ensemble',
})  # fmt: skip
_RATED = _heads({'Gram.': 'grammar', 'Flu.': 'fluency', 'Rel.': 'relevance'})
_SETTINGS = {
    'mono': 'Mono', 'multi': 'Multi', 'mono_multitask': 'Mono-M', 'multi_multitask': 'Multi-M',
    'cross': 'Cross', 'zero_shot': 'Zero',
}  # fmt: skip
_REGRESSORS = {
    'AdaBoost': 'AdaBoost', 'Bagging': 'Bagging', 'DecisionTree': 'DecisionTree',
    'ExtraTree': 'ExtraTrees', 'GradientBoosting': 'GradientBoosting',
    'Kneighbors': 'KNeighbors', 'Linear': 'LinearRegression', 'RandomForest': 'RandomForest',
    'SVR': 'SVR',
}  # fmt: skip
_ASPECTS = {'Grammar': 'Grammar', 'Fluency': 'Fluency', 'Logical': 'Relevance', 'Avg': 'mean'}


def _pairs(number: int, caption: str, scenario: str, source: str = '') -> Form:
    """Tables 11 to 19 of MTG."""
    lines = tuple(
        Line((task.upper(), model, f'{a}->{b}'), {'task': task, 'model': model, 'source': a,
                                                  'target': b})
        for task in MTG.tasks
        for model in MTG.paper_models
        for a, b in MTG.pairs(scenario, (source,) if source else ())
    )  # fmt: skip
    heads = ('Task', 'Model', 'Language')
    return Form(f'table {number}', caption, 'mtg', heads, lines, _FULL, {'scenario': scenario})


def _rated(number: int, texts: str, task: str, scenarios: Sequence[str]) -> Form:
    """Tables 5 and 8 to 10 of MTG."""
    lines = tuple(
        Line((_SETTINGS[scenario], model), {'scenario': scenario, 'model': model})
        for scenario in scenarios
        for model in MTG.paper_models
    )
    caption = f'Human ratings of {texts}, from 1 to 5, averaged over four languages'
    return Form(
        f'table {number}', caption, 'mtg_human', ('Setting', 'Model'), lines, _RATED, {'task': task}
    )


_MTG = (
    Form(
        'table 3', 'Pearson correlation of regressors with human ratings', 'mtg_regressors',
        ('Human score',),
        tuple(Line((label,), {'target': aspect}) for label, aspect in _ASPECTS.items()),
        tuple(Head((name,), {'score': column}) for name, column in _REGRESSORS.items()),
    ),
    Form(
        'table 4', 'Zero-shot transfer, averaged over en->de, en->fr and en->es', 'mtg_zero_shot',
        ('Setting', 'Model'),
        tuple(
            Line((task.upper(), model), {'task': task, 'model': model})
            for task in MTG.tasks for model in MTG.paper_models
        ),
        _AVERAGED, {'scenario': 'zero_shot'},
    ),
    _rated(5, 'titles', 'tg', ('mono', 'multi', 'cross', 'zero_shot')),
    Form(
        'table 6', 'Examples that the filter of back-translation leaves, by its threshold',
        'mtg_thresholds', ('Threshold',),
        tuple(Line((t,), {'threshold': t}) for t in ('0', '0.3', '0.4', '0.5', '0.6')),
        _heads({'QG': 'qg', 'TG': 'tg', 'SG': 'sg'}),
    ),
    Form(
        'table 7', 'Ensemble metric after the first and the second stage, question generation',
        'mtg_stages', ('',),
        tuple(
            Line((label,), {'score': score})
            for label, score in (('stage1', 'stage1'), ('stage2', 'stage2'), ('p-value', 'p_value'))
        ),
        tuple(Head((label,), {'scenario': scenario}) for scenario, label in _SETTINGS.items()),
        {'task': 'qg', 'model': 'mBART'},
    ),
    _rated(8, 'questions', 'qg', tuple(_SETTINGS)),
    _rated(9, 'titles', 'tg', tuple(_SETTINGS)),
    _rated(10, 'story endings', 'sg', tuple(_SETTINGS)),
    _pairs(11, 'Monolingual training', 'mono'),
    _pairs(12, 'Multilingual training', 'multi'),
    _pairs(13, 'Monolingual multitask training', 'mono_multitask'),
    _pairs(14, 'Multilingual multitask training', 'multi_multitask'),
    _pairs(15, 'Cross-lingual training from English', 'cross', 'en'),
    _pairs(16, 'Cross-lingual training from German', 'cross', 'de'),
    _pairs(17, 'Cross-lingual training from French', 'cross', 'fr'),
    _pairs(18, 'Cross-lingual training from Spanish', 'cross', 'es'),
    _pairs(19, 'Zero-shot transfer', 'zero_shot'),
)  # fmt: skip

# ------------------------------------------------------------------------------------------- MRS


def _replies(number: int, caption: str, task: str, model: str, dist: str) -> Form:
    """Tables 3 to 5 of MRS; the paper does not number the one of its appendix."""
    settings = {'mono': 'Monolingual', 'zero_shot': 'Zero-Shot', 'mt': 'MT',
                'multi': 'Multilingual'}  # fmt: skip
    if task == 'generation':
        del settings['zero_shot']
    scores = {'ROUGE': 'mrs_rouge', f'{dist}1': 'dist_1', f'{dist}2': 'dist_2'}
    columns = tuple(h for s, label in settings.items() for h in _heads(scores, label, scenario=s))
    lines = tuple(Line((lang,), {'source': lang, 'target': lang}) for lang in MRS.languages)
    key = {'task': task, 'model': model}
    return Form(f'table {number}', caption, 'mrs', ('',), lines, columns, key, leading_zero=False)


_MRS = (
    _replies(3, 'Retrieval with mBERT', 'retrieval', 'mBERT', 'Dist-'),
    _replies(4, 'Generation', 'generation', 'Unicoder-xDAE', 'Dist'),
    _replies(5, 'Retrieval with XLM-R', 'retrieval', 'XLM-R', 'Dist-'),
)

# --------------------------------------------------------------------------------------- ClidSum

_ROUGES = {'R1 / R2 / R-L / B-S': 'rouge_1 / rouge_2 / rouge_l / bertscore'}
_TARGETS = {'de': 'En⇒De', 'zh': 'En⇒Zh'}
_TRANSLATORS = ('Trans-WMT', 'OPUS-MT', 'Google Trans.')
_SUMMARISERS = ('PEGASUS', 'T5', 'BART', 'mBART', 'MV-BART', 'BART(D_ALL)')
_INTERVIEWS = 'xmediasum40k'


def _in_targets(task: str, corpus: str = '') -> tuple[Head, ...]:
    key = {'task': task, 'source': 'en'}
    return tuple(
        head
        for lang, label in _TARGETS.items()
        for head in _heads(_ROUGES, f'{corpus} {label}'.strip(), **key, target=lang)
    )


def _all_systems() -> tuple[Line, ...]:
    """The rows of ClidSum's table 3."""
    rows = [
        ('Sum-Trans Methods', (a, b), f'{a} + {b}', 'cross')
        for a in _SUMMARISERS
        for b in _TRANSLATORS
    ]
    rows += [('Trans-Sum Methods', (a, 'mBART'), f'{a} + mBART', 'cross') for a in _TRANSLATORS]
    rows += [
        ('End-to-end Methods', (label, ''), model, scenario)
        for label, model, scenario in (
            ('mBART', 'mBART', 'cross'),
            ('+DA †', 'mBART + DA', 'semi'),
            ('mDialBART (our) †', 'mDialBART', 'semi'),
            ('+DA †', 'mDialBART + DA', 'semi'),
        )
    ]
    return tuple(
        Line((str(number), *labels), {'model': model, 'scenario': scenario}, section)
        for number, (section, labels, model, scenario) in enumerate(rows, 1)
    )


def _ablation(label: str) -> Key:
    """The key of a row of tables 5 and 7, such as '+AcI+UP'."""
    if label == 'mBART':
        return {'model': label, 'scenario': 'cross'}
    model = 'mBART' + label.replace('+', ' + ') if label.startswith('+') else label
    return {'model': model, 'scenario': 'semi'}


_PRETRAINING = ('AcI', 'UP', 'MDS', 'MT')
_EVERY = (
    'mBART',
    *(
        ''.join(f'+{task}' for task in chosen)
        for count in (1, 2, 3)
        for chosen in itertools.combinations(_PRETRAINING, count)
    ),
    'mDialBART',
)
_SINGLE = (*_EVERY[:5], 'mDialBART')
_JUDGED = {
    'BART(D_ALL)+Google': 'BART(D_ALL) + Google Trans.', 'Google+mBART': 'Google Trans. + mBART',
    'mBART': 'mBART', 'mDialBART': 'mDialBART',
}  # fmt: skip

_KAPPAS = tuple(paper.printed_rows('clidsum_human')[-1].values())[1:]

_CLIDSUM = (
    Form(
        'table 3', 'All systems', 'clidsum', ('#', '', ''), _all_systems(),
        (*_in_targets('xsamsum', 'XSAMSum'), *_in_targets(_INTERVIEWS, 'XMediaSum40k')),
        notes=('†: trained on the pairs of the semi-supervised setting, too.',),
    ),
    Form(
        'table 4', 'Translators on newstest2020 of WMT20', 'translation', ('Methods',),
        tuple(Line((name,), {'model': name}) for name in _TRANSLATORS),
        tuple(
            head
            for lang, label in _TARGETS.items()
            for head in _heads({'BLEU ↑': 'bleu', 'TER ↓': 'ter'}, label, target=lang)
        ),
        {'scenario': 'cross', 'task': 'wmt20', 'source': 'en'},
        notes=('↑: higher is better; ↓: lower is better.',),
    ),
    Form(
        'table 5', 'Each task of pre-training alone, XMediaSum40k', 'clidsum', ('Model',),
        tuple(Line((label.replace('+', 'w/ '),), _ablation(label)) for label in _SINGLE),
        _in_targets(_INTERVIEWS),
    ),
    Form(
        'table 6', 'Human judgement by best-worst scaling, XMediaSum40k (En⇒Zh)', 'clidsum_human',
        ('Model',),
        tuple(Line((label,), {'model': model}) for label, model in _JUDGED.items()),
        _heads({'Gram.': 'grammaticality', 'Info.': 'informativeness', 'Conci.': 'conciseness'}),
        notes=(f"Fleiss' kappa of the judges, in the order of the columns: {', '.join(_KAPPAS)}.",),
    ),
    Form(
        'table 7', 'Every combination of tasks of pre-training, XMediaSum40k', 'clidsum',
        ('#', 'Model'),
        tuple(Line((str(n), label), _ablation(label)) for n, label in enumerate(_EVERY, 1)),
        _in_targets(_INTERVIEWS),
    ),
)  # fmt: skip

# ------------------------------------------------------------------------------ few-shot transfer

_TASKS = {
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


def _shots(counts: str, path: str = '', method: str = 'full', **key: str) -> tuple[Head, ...]:
    """Columns of numbers of shots; without any, nothing is trained and there is no deviation."""
    made = []
    for k in counts.split():
        how = ('zero_shot', 'mean') if k == '0' else (method, _SPREAD)
        where = {'shots': k, 'method': how[0], 'start': 'source', 'score': how[1], **key}
        made.append(Head((path, f'K={k}') if path else (f'K={k}',), where))
    return tuple(made)


def _languages(number: int) -> tuple[Line, ...]:
    """The rows of tables 2, 12 and 13, in the order of their numbers."""
    rows = [r for r in paper.printed_rows('fewshot_scores') if r['table'] == str(number)]
    places = dict.fromkeys((row['task'], row['language']) for row in rows)
    return tuple(
        Line((_TASKS[task], lang) if number == 2 else (lang.upper(),),
             {'task': task, 'language': lang})
        for task, lang in places
    )  # fmt: skip


def _untrained(number: int, caption: str, printed: str, key: Key) -> Form:
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
            Head((_TASKS[task], f'K={k}'), {'task': task, 'shots': str(k), 'language': lang})
            for k in (1, last) * bool(task)
        ]
    key = {'table': str(number), **key}
    return Form(f'table {number}', caption, printed, ('',), tuple(lines), tuple(columns), key)


def _by_shots(number: int, caption: str, counts: str) -> Form:
    heads = ('', '') if number == 2 else ('',)
    key = {'table': str(number)}
    lines, columns = _languages(number), _shots(counts)
    return Form(f'table {number}', caption, 'fewshot_scores', heads, lines, columns, key)


_FACTORS = {'overlap': 'lexical overlap', 'features': '# of common linguistic features'}
_PANX = tuple(dict.fromkeys(r['language'] for r in paper.printed_rows('fewshot_overlap')))
_TOKENS = tuple(row['token'] for row in paper.printed_rows('fewshot_attention'))

_FEWSHOT = (
    Form(
        'table 1', 'The tasks', 'fewshot_tasks', ('Name',),
        tuple(Line((_TASKS[t],), {'task': t, 'long': _LONG[t]}) for t in _LONG),
        (
            *_heads({'Metric': 'metric'}), Head(('Task',), {'text': '{long}'}),
            *_heads({'|T|': 'labels', 'TS': 'target_training_sets', '# of lang.': 'languages'}),
        ),
    ),
    _by_shots(2, 'Classification by language and shots', '0 1 2 4 8'),
    Form(
        'table 3', 'Spearman (S) and Pearson (P) correlation of gains with two factors',
        'fewshot_correlations', ('Task', 'Factor'),
        tuple(
            Line((_TASKS[task], label), {'task': task, 'factor': factor})
            for task in ('panx', 'udpos') for factor, label in _FACTORS.items()
        ),
        _heads({'S': 'spearman', 'P': 'pearson'}),
    ),
    _untrained(4, 'What the lack of source training costs', 'fewshot_gaps',
               {'score': 'difference'}),
    Form(
        'table 5', 'Tokens whose attention from [CLS] changes most, MARC in German',
        'fewshot_attention', ('token',), (Line(('Attn',), {'score': 'change'}),),
        tuple(Head((token,), {'token': token}) for token in _TOKENS),
    ),
    Form(
        'table 6', 'What is trained in adaptation, MARC', 'fewshot_scores', ('',),
        tuple(Line((lang,), {'language': lang}) for lang in ('de', 'fr', 'es', 'zh', 'ja')),
        (
            *_shots('0 1 8', _METHODS['full']),
            *(h for m in list(_METHODS)[1:] for h in _shots('1 8', _METHODS[m], m)),
        ),
        {'table': '6', 'task': 'marc'},
    ),
    Form(
        'table 7', 'Source training: English dev score, and learning rate', 'fewshot_source', (),
        tuple(Line((), {'score': score}) for score in ('dev_score', 'learning_rate')),
        tuple(Head((label,), {'task': task}) for task, label in _TASKS.items()),
    ),
    Form(
        'table 10', 'Confusions of stars, MARC', 'fewshot_confusion', ('', ''),
        tuple(
            Line((lang, stars), {'language': lang, 'stars': stars})
            for lang in ('de', 'zh') for stars in '12345'
        ),
        tuple(
            Head((f'K={k}', stars), {'shots': k, 'score': stars}) for k in '01' for stars in '12345'
        ),
        notes=('The paper prints the numbers without heads: a row for the stars of the review, a '
               'column for those predicted.',),
    ),
    _untrained(11, 'Adaptation without source training', 'fewshot_scores',
               {'start': 'none', 'method': 'full', 'score': _SPREAD}),
    _by_shots(12, 'Parts of speech by language and shots', '0 1 2 4'),
    _by_shots(13, 'Named entities by language and shots', '0 1 2 4'),
    Form(
        'table 14', 'Lexical overlap of shots with English, in percent', 'fewshot_overlap', ('',),
        tuple(Line((lang.upper(),), {'language': lang}) for lang in _PANX),
        tuple(
            Head((_TASKS[task], f'K={k}'), {'task': task, 'shots': k, 'score': 'overlap'})
            for task in ('panx', 'udpos') for k in '124'
        ),
    ),
)  # fmt: skip

FORMS = {'mtg': _MTG, 'mrs': _MRS, 'clidsum': _CLIDSUM, 'fewshot': _FEWSHOT}
