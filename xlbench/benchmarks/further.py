"""Further benchmarks, whose papers have no tables that xlbench makes: a declaration of each."""

from xlbench.benchmarks import languages
from xlbench.benchmarks.fewshot import LabelBenchmark
from xlbench.benchmarks.monolingual import MonolingualBenchmark, ReplyBenchmark
from xlbench.benchmarks.parallel import PairBenchmark, ParallelBenchmark

# English conversations and their summaries (arXiv:2307.04018). What a task reads and writes is one
# of both; with summary behind its name, the English summary and that in another language.
_SUMMARIES = (('en', 'en'), ('en', 'zh'), ('en', 'fr'), ('en', 'uk'))
CONVSUMX = PairBenchmark(
    name='convsumx',
    languages=('en', 'zh', 'fr', 'uk'),
    task_titles={
        'dialogsumx': 'summary of everyday dialogues',
        'qmsumx': 'summary of meetings, asked about with a query',
        'dialogsumxsummary': 'translated summary of everyday dialogues',
        'qmsumxsummary': 'translated summary of meetings, asked about with a query',
    },
    scores=('rouge_1', 'rouge_2', 'rouge_l', 'bleu'),
    title='Revisiting Cross-Lingual Summarization: A Corpus-based Study and A New Benchmark with '
    'Improved Annotation',
    arxiv='2307.04018',
    # The published files; of the meetings there is no published number of the other splits.
    split_sizes={
        f'{corpus}{kind}': sizes
        for kind in ('', 'summary')
        for corpus, sizes in (
            ('dialogsumx', {'train': 400, 'validation': 100, 'test': 500}),
            ('qmsumx', {'validation': 40}),
        )
    },
    pairs={
        'dialogsumx': _SUMMARIES,
        'qmsumx': _SUMMARIES,
        'dialogsumxsummary': _SUMMARIES[1:],
        'qmsumxsummary': _SUMMARIES[1:],
    },
)

# English dialogues (arXiv:2105.06762).
_TASKS = {'summary': 'summary of everyday dialogues', 'topic': 'their topic, in a few words'}

DIALOGSUM = PairBenchmark(
    name='dialogsum',
    languages=('en',),
    task_titles=_TASKS,
    # Of the three references of a test dialogue the best one; the mean over them.
    scores=('rouge_1', 'rouge_2', 'rouge_l', 'rouge_1_mean', 'rouge_2_mean', 'rouge_l_mean'),
    title='DialogSum: A Real-Life Scenario Dialogue Summarization Dataset',
    arxiv='2105.06762',
    split_sizes={task: {'train': 12_460, 'validation': 500, 'test': 500} for task in _TASKS},
    scenario_names=('mono',),
    pairs=dict.fromkeys(_TASKS, (('en', 'en'),)),
)

# Named entities in twenty African languages (arXiv:2210.12391). No English: its source of transfer
# in the paper is CoNLL 2003, whose texts need an agreement. The pivot is the language of the table
# with the most speakers.
for _code, _name, _family, _alpha3 in (
    ('bm', 'bambara', 'mande', 'bam'),
    ('bbj', 'ghomala', 'bantoid', 'bbj'),
    ('ee', 'ewe', 'kwa', 'ewe'),
    ('fon', 'fon', 'volta-niger', 'fon'),
    ('rw', 'kinyarwanda', 'bantu', 'kin'),
    ('luo', 'luo', 'nilotic', 'luo'),
    ('mos', 'mossi', 'gur', 'mos'),
    ('ny', 'chichewa', 'bantu', 'nya'),
    ('tn', 'setswana', 'bantu', 'tsn'),
    ('tw', 'twi', 'kwa', 'twi'),
    ('wo', 'wolof', 'senegambian', 'wol'),
    ('zu', 'zulu', 'bantu', 'zul'),
):
    languages.register(_code, _name, 'latin', family=_family, alpha3=_alpha3)

MASAKHANER2 = LabelBenchmark(
    name='masakhaner2',
    languages=(
        'sw', 'bm', 'bbj', 'ee', 'fon', 'ha', 'ig', 'rw', 'lg', 'luo', 'mos', 'ny', 'pcm', 'sn',
        'tn', 'tw', 'wo', 'xh', 'yo', 'zu',
    ),
    task_titles={'ner': 'named entities'},
    scores=('chunk_f1', 'tag_accuracy'),
    title='MasakhaNER 2.0: Africa-centric Transfer Learning for Named Entity Recognition',
    arxiv='2210.12391',
    pivot='sw',
    tables=(('chunk_f1',),),
    tagging=('ner',),
)  # fmt: skip

# News articles (arXiv:2304.09972). The corpus is made for topics; here are the titles of its
# articles. Nobody's official title generation: no published scores to compare with.
MASAKHANEWS = MonolingualBenchmark(
    name='masakhanews',
    languages=(
        'en', 'fr', 'am', 'ha', 'ig', 'lg', 'ln', 'om', 'pcm', 'rn', 'sn', 'so', 'sw', 'ti', 'xh',
        'yo',
    ),
    task_titles={'tg': 'title', 'tgdev': 'title, of the dev files alone'},
    scores=('rouge_l', 'bleu', 'distinct_1', 'distinct_texts', 'bertscore'),
    metrics={'bertscore': 'bertscore'},
    title='MasakhaNEWS: News Topic Classification for African languages',
    arxiv='2304.09972',
)  # fmt: skip

# Topics of sentences in 71 of its 205 languages and dialects (arXiv:2309.07445): the same ones of
# FLORES-200 in every language, whose English topics hold for all. FLORES-200 has all languages of
# the table but Nigerian Pidgin.
SIB200 = LabelBenchmark(
    name='sib200',
    languages=('en', *(code for code in languages.TABLE if code not in ('en', 'pcm'))),
    task_titles={'topic': 'topic of a sentence'},
    scores=('accuracy', 'macro_f1'),
    title='SIB-200: A Simple, Inclusive, and Big Evaluation Dataset for Topic Classification in '
    '200+ Languages and Dialects',
    arxiv='2309.07445',
    tables=(('accuracy',),),
    most_shots=4,  # Its rarest topic has 58 sentences for training.
    split_sizes={'topic': {'train': 701, 'validation': 99, 'test': 204}},
)

# Parallel texts, as ClidSum's Trans-WMT is trained on them (arXiv:2202.05599). The sizes of
# newstest2020: statmt.org/wmt20/translation-task.html, and the same in sacrebleu. The pairs that
# the paper trained on are not published.
_TASKS = {'wmt20': 'news of WMT20', 'xdailydialog': 'utterances of XDailyDialog'}
TRANSLATION = PairBenchmark(
    name='translation',
    languages=('en', 'de', 'zh'),
    task_titles=_TASKS,
    scores=('bleu', 'ter', 'chrf'),
    title='A Benchmark Dataset for Cross-Lingual Dialogue Summarization',
    arxiv='2202.05599',
    paper_models=('Trans-WMT', 'OPUS-MT', 'Google Trans.'),
    paper_note='Rows of the paper are those of Table 4 of arXiv:2202.05599, on newstest2020. It '
    'does not say how its TER cuts Chinese into words; here it does so by character.',
    has_unpublished_sizes=True,
    scenario_names=('cross',),
    pairs=dict.fromkeys(_TASKS, (('en', 'de'), ('en', 'zh'), ('de', 'en'), ('zh', 'en'))),
)

# Parallel dialogues, whose consecutive utterances are pairs of message and reply. Nobody's official
# reply suggestion: no published scores to compare with.
XDAILYDIALOG = ReplyBenchmark(
    name='xdailydialog',
    languages=('en', 'de', 'it', 'zh'),
    title='XDailyDialog: A Multilingual Parallel Dialogue Corpus',
    arxiv='',
)

# Dialogues of personas (arXiv:2003.07568).
XPERSONA = ReplyBenchmark(
    name='xpersona',
    languages=('en', 'fr', 'id', 'it', 'ja', 'ko', 'zh'),
    title='XPersona: Evaluating Multilingual Personalized Chatbot',
    arxiv='2003.07568',
)

# Questions from passages (arXiv:1910.11856), parallel in more languages than MTG has, Chinese among
# them. The published set is one file of 1190 questions a language, without splits; nobody's
# official question generation, so there are neither split sizes nor paper scores to compare with.
XQUAD = ParallelBenchmark(
    name='xquad',
    languages=('en', 'ar', 'de', 'el', 'es', 'hi', 'ro', 'ru', 'th', 'tr', 'vi', 'zh'),
    task_titles={'qg': 'question'},
    scores=('rouge_l', 'bleu', 'distinct_1', 'distinct_texts', 'bertscore'),
    metrics={'bertscore': 'bertscore'},
    title='On the Cross-lingual Transferability of Monolingual Representations',
    arxiv='1910.11856',
)
