"""Classification, tagging and translation of a user's own files: pipeline.register_..."""

import collections
import gzip
import itertools
import json
import os
import textwrap

import mtg_files
import own_task_file
import pyarrow
import pytest
import tokenizer_files
from pyarrow import parquet

from xlbench import metrics, pipeline
from xlbench.benchmarks import languages
from xlbench.data import prepared, readers
from xlbench.metrics import ChrF, from_spec
from xlbench.prepare import examples, jobs, mixtures
from xlbench.system import errors

CONLL = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

# id = 7
# NN I-NP O
Rome NNP B-NP B-LOC
"""
CONLLU = (
    '# text = Im Zug\n1-2\tIm\t_\t_\t_\t_\t_\t_\t_\t_\n1\tIn\tin\tADP\tAPPR\t_\t_\t_\t_\t_\n'
    '2\tdem\tder\tDET\tART\t_\t_\t_\t_\t_\n3\tZug\tZug\tNOUN\tNN\t_\t_\t_\t_\t_\n\n'
)


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp('root')
    tokenizer_files.write(folder / 'bert', 'bert-cased')
    pipeline.use_vocabulary(str(folder / 'bert'), str(folder))
    yield folder
    pipeline.use_root(None)


@pytest.fixture(autouse=True)
def forget(root):
    with own_task_file.forgotten(), own_task_file.languages_forgotten():
        yield


def put(root, name, text):
    (root / name).write_bytes(textwrap.dedent(text).encode())
    return name


def records(task, split):
    return list(itertools.chain.from_iterable(examples.examples(task, split)))


def shown(task, split):
    """What an example is made of, and ids of its labels, read by prepare and by SeqIO."""
    read = records(task, split)
    dataset = task.get_dataset(sequence_length=None, split=split, shuffle=False)
    for ours, theirs in zip(read, dataset.as_numpy_iterator(), strict=True):
        for name in ('inputs', 'targets', 'piece_counts'):
            assert ours[name].tolist() == theirs[name].tolist()
    names = ('inputs_pretokenized', 'targets_pretokenized')
    return [(*(r[name] for name in names), r['targets'].tolist()) for r in read]


def test_classification_reads_its_labels_from_the_training_data(root):
    put(root, 'train.csv', 'review,stars,nr\n"Well, no",10,a\nGood,9,b\nAh,-1,c\nOh,10,d\n')
    put(root, 'dev.tsv', 'review\tstars\tnr\n"sie sagte ""ja"""\t9\te\n')
    table = pyarrow.table({'review': ['Nun'], 'stars': [-1], 'nr': ['f']})
    parquet.write_table(table, root / 'test.parquet')
    task = pipeline.register_classification_task(
        'reviews_stars', text='review', label='stars', keep=['nr'], lang='en',
        files={'train': 'train.csv', 'validation': 'dev.tsv', 'test': 'test.parquet'},
    )  # fmt: skip
    assert pipeline.labels(task) == ('-1', '9', '10') and pipeline.view(task) == 'classification'
    assert shown(task, 'train')[0] == ('Well, no', '10', [2])
    assert shown(task, 'validation') == [('sie sagte "ja"', '9', [1])]
    assert shown(task, 'test') == [('Nun', '-1', [0])]
    assert [record['nr'] for record in records(task, 'test')] == ['f']
    assert [task.num_input_examples(split) for split in task.splits] == [4, 1, 1]
    manifest = jobs.manifest_of(jobs.Job('reviews_stars', 'test'), str(root), [])
    assert manifest['labels'] == ['-1', '9', '10'] and manifest['headline'] == 'accuracy'
    (metric,) = manifest['metrics']
    assert list(metric['kwargs']['labels']) == ['-1', '9', '10']
    # The labels come from the training file: whatever is prepared is stale when it changes.
    assert [os.path.basename(p) for p in task.source.paths('test')] == ['test.parquet', 'train.csv']
    put(root, 'train.csv', 'review,stars,nr\nGood,yes,b\nAh,no,c\n')
    assert pipeline.labels(task) == ('no', 'yes')


def test_a_task_is_shown_without_reading_its_files(root):
    task = pipeline.register_classification_task(
        'gone_stars', text='review', label='stars', lang='en', files={'train': 'gone.csv'}
    )
    assert 'Labels' in repr(task.output_features)


def test_classification_of_pairs_with_labels_in_an_order(root):
    lines = [
        {'premise': 'Es regnet', 'hypothesis': 'Es ist nass', 'label': True},
        {'premise': 'Es regnet', 'hypothesis': 'Es schneit', 'label': False},
    ]
    put(root, 'pairs.json', json.dumps(lines))
    task = pipeline.register_classification_task(
        'pairs_nli_de', files={'test': 'pairs.json'}, text=('premise', 'hypothesis'),
        labels=('true', 'false'), headline='macro_f1',
    )  # fmt: skip
    assert shown(task, 'test') == [
        ('Es regnet\tEs ist nass', 'true', [0]),
        ('Es regnet\tEs schneit', 'false', [1]),
    ]
    assert len(records(task, 'test')[0]['piece_counts']) == 2
    assert pipeline.headline(task) == 'macro_f1'
    (metric,) = pipeline.scoring.metric_fns(task)
    assert metric.labels == ('true', 'false')


def test_tagging_reads_conll_conllu_and_lists(root):
    put(root, 'train.conll', CONLL)
    put(root, 'train.conllu', CONLLU)
    first = '{"tokens": ["New York", "ruft"], "ner": ["B-LOC", "O"]}\n'
    put(root, 'train.jsonl', first + '{"tokens": ["ja"], "ner": ["O"]}\n')
    conll = pipeline.register_tagging_task('places_ner', files={'train': 'train.conll'})
    assert pipeline.labels(conll) == ('B-LOC', 'B-ORG', 'O')
    assert shown(conll, 'train') == [
        ('EU rejects', 'B-ORG O', [1, 2]),
        ('# Rome', 'O B-LOC', [2, 0]),
    ]
    assert conll.num_input_examples('train') == 2
    files = {'train': 'train.conll'}
    chunks = pipeline.register_tagging_task('places_chunks', files=files, tag_column=2)
    assert [tags for _, tags, _ in shown(chunks, 'train')] == ['B-NP B-VP', 'I-NP B-NP']
    upos = pipeline.register_tagging_task('words_upos', files={'train': 'train.conllu'}, lang='de')
    assert shown(upos, 'train') == [('In dem Zug', 'ADP DET NOUN', [0, 1, 2])]
    xpos = pipeline.register_tagging_task(
        'words_xpos', files={'train': 'train.conllu'}, tag_column=4, headline='chunk_f1'
    )
    assert pipeline.labels(xpos) == ('APPR', 'ART', 'NN')
    lists = pipeline.register_tagging_task('cities_ner', files={'train': 'train.jsonl'}, tags='ner')
    assert shown(lists, 'train')[0] == ('NewYork ruft', 'B-LOC O', [0, 1])
    # Spans are scored as spans, and other tags word by word, where nothing else is asked for.
    assert [pipeline.headline(task) for task in (conll, lists, upos, xpos)] == [
        'chunk_f1', 'chunk_f1', 'tag_accuracy', 'chunk_f1',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ('name', 'text', 'reason'),
    [
        ('a.csv', 'text,label\nJa,gut\n', "'train' has only the label gut: there"),
        ('a.csv', 'text,sort\nJa,gut\n', "a.csv:1: no column 'label'; the columns are"),
        ('a.csv', 'text,label\nJa,gut\nNein,\n', 'a.csv:3: label is empty'),
        ('a.jsonl', '{"text": "Ja", "label": 1.5}\n', 'a.jsonl:1: label is 1.5; a label is a text'),
        ('a.jsonl', '{"text": 3, "label": "x"}\n', 'a.jsonl:1: text is a number, not a text'),
        ('a.conll', 'EU B-ORG\nrejects\n', 'a.conll:1: 2 columns instead of 1'),
        ('b.conll', 'EU B-ORG\nsays  \n\n', 'b.conll:1: 2 columns instead of 1'),
        ('c.conll', 'EU\n\n', 'c.conll:1: 1 columns; there must be 2 or more'),
        ('b.jsonl', '{"tokens": ["EU", "x"], "tags": ["O"]}\n', 'b.jsonl:1: 2 tokens and 1 tags'),
        ('b.jsonl', '{"tokens": ["EU"], "tags": "O O"}\n', '1 tokens and 2 tags'),
        ('b.jsonl', '{"tokens": [], "tags": []}\n', 'tokens is not a list with something in it'),
        ('b.jsonl', '{"tokens": ["EU"], "tags": ["A B"]}\n', "'A B' is not a tag"),
    ],
)
def test_malformed_records_are_named(root, name, text, reason):
    put(root, name, text)
    is_tagging = 'conll' in name or 'tokens' in text
    kind = 'tagging' if is_tagging else 'classification'
    task = getattr(pipeline, f'register_{kind}_task')('bad_x', files={'train': name})
    with pytest.raises(errors.UserError, match=reason) as error:
        records(task, 'train')
    assert '\n' not in str(error.value)


def test_labels_that_training_does_not_have_are_named(root):
    put(root, 'train.csv', 'text,label\nJa,gut\nNein,schlecht\n')
    put(root, 'dev.csv', 'text,label\nJa,gut\nHm,-1\n')
    files = {'train': 'train.csv', 'test': 'dev.csv'}
    task = pipeline.register_classification_task('strange_x', files=files)
    with pytest.raises(errors.UserError, match=r"dev.csv:3: '-1' is none of .* gut, schlecht"):
        records(task, 'test')
    put(root, 'train.conll', 'EU B-ORG\nsays O\n')
    put(root, 'dev.conll', 'EU B-ORG\nsays I-LOC\n')
    files = {'train': 'train.conll', 'test': 'dev.conll'}
    task = pipeline.register_tagging_task('strange_y', files=files)
    with pytest.raises(errors.UserError, match=r"sentence 'EU says' 'I-LOC' is none of .* O"):
        records(task, 'test')


def test_the_headline_is_a_score_of_the_task(root):
    files = {'train': 'a.csv'}
    fields = {'inputs': 'a', 'targets': 'b'}

    def text(name, **options):
        task = pipeline.register_text_task(name, files=files, fields=fields, **options)
        return pipeline.headline(task)

    assert text('heads_a', lang='de') == 'rouge_l'
    assert text('heads_b', lang='de', headline='chrf') == 'chrf'
    assert text('heads_c') == ''
    assert text('heads_d', metrics=[ChrF()]) == ''  # The first score of the first metric.
    assert text('heads_f', lang='de', metrics=[ChrF()]) == 'rouge_l'
    assert text('heads_g', lang='de', metrics=metrics.only(ChrF())) == ''
    pipeline.register_dialogue_tasks('heads', 'de', files=files, headline='bleu')
    pipeline.register_dialogue_tasks('talks', 'de', files=files)
    names = ('heads_retrieval_de_de', 'talks_generation_de_de')
    assert [pipeline.headline(pipeline.get(name)) for name in names] == ['bleu', 'mrs_rouge']


def test_a_registered_language_goes_with_what_is_prepared(root):
    """The process that evaluates never imports the task file."""
    put(root, 'lo.jsonl', '{"a": "ສະບາຍດີ", "b": "ດີ"}\n')
    languages.register('lo', 'lao', 'lao', segmenter='characters')
    pipeline.register_text_task(
        'lo_x', files={'train': 'lo.jsonl'}, fields={'inputs': 'a', 'targets': 'b'}, lang='lo'
    )
    mtg_files.write_vocabulary(root)  # BERT's has tokens of languages, and none of this one.
    mixtures.prepare('lo_x', 'train', root=str(root), vocabulary='sample')
    pipeline.use_vocabulary(str(root / 'bert'), str(root))
    del languages.LANGUAGES['lo']
    task = prepared.open_task(str(root), 'sample', 'lo_x', 'train')
    assert languages.get('lo').segmenter == 'characters'
    rouge = from_spec(task.manifest['metrics'][0])
    assert 'tok:characters' in rouge.signature


def test_shots_are_drawn_from_the_training_data(root):
    lines = [f'"text {i}",{"good" if i % 3 else "bad"}' for i in range(30)]
    put(root, 'many.csv', '\n'.join(['text,label', *lines]) + '\n')
    task = pipeline.register_classification_task(
        'few_x', files={'train': 'many.csv', 'test': 'many.csv'}, shots=pipeline.Shots((1, 4), 3)
    )
    assert task.splits == ('train', 'test', 'shots_1', 'shots_4')
    drawn = records(task, 'shots_4')
    assert task.num_input_examples('shots_4') == len(drawn)
    counts = collections.Counter((r['bucket'], r['targets_pretokenized']) for r in drawn)
    # The rarer label runs out: there are ten of it for twelve places.
    assert [counts[str(i), 'good'] for i in range(3)] == [4, 4, 4]
    assert [counts[str(i), 'bad'] for i in range(3)] == [4, 4, 2]
    texts = [record['inputs_pretokenized'] for record in drawn]
    assert len(set(texts)) == len(texts)
    assert {record['bucket'] for record in records(task, 'train')} == {''}
    put(root, 'many.conll', 'EU B-ORG\nsays O\n\nRome B-LOC\nis O\n\nso O\n\n' * 5)
    task = pipeline.register_tagging_task(
        'few_y', files={'train': 'many.conll'}, shots=pipeline.Shots((2,), buckets=2)
    )
    drawn = records(task, 'shots_2')
    for bucket in '01':
        tags = [r['targets_pretokenized'] for r in drawn if r['bucket'] == bucket]
        count = collections.Counter(' '.join(tags).split())
        assert count == {'B-ORG': 2, 'B-LOC': 2, 'O': 4}
    with pytest.raises(errors.UserError, match='not a whole one above 0'):
        pipeline.Shots((0,))


# Parallel texts, and TMX.

TMX = """<?xml version="1.0" encoding="{encoding}"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en"/><body>
<tu><prop>x</prop><tuv xml:lang="en-GB"><seg>Good <hi>morning</hi>
 &amp; more<bpt i="1">&lt;b&gt;</bpt>.</seg></tuv>
<tuv xml:lang="DE_at"><seg>Guten Morgen.</seg></tuv><tuv lang="de"><seg>Anders</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Yes</seg></tuv><tuv xml:lang="fr"><seg>Oui</seg></tuv></tu>
<tu><tuv lang="de"><seg>Grüße</seg></tuv><tuv lang="en"><seg>Greetings</seg></tuv></tu>
</body></tmx>
"""
PAIRS = [('Good morning & more.', 'Guten Morgen.'), ('Greetings', 'Grüße')]


@pytest.fixture
def folder(tmp_path):
    with pipeline.bound(None, str(tmp_path)):
        yield tmp_path


def pairs_of(task, split):
    chunks = task.source.chunks(split, task.source.paths(split))
    return [pair for c in chunks for pair in zip(c['inputs'], c['targets'], strict=True)]


def test_the_usual_forms_are_read_in_both_directions(folder):
    (folder / 'a.en.gz').write_bytes(gzip.compress(b'Good morning & more.\nGreetings\n'))
    (folder / 'a.de').write_text('Guten Morgen.\nGrüße\n')
    (folder / 'b.tmx').write_text(TMX.format(encoding='UTF-8'))
    (folder / 'c.tmx.gz').write_bytes(gzip.compress(TMX.format(encoding='UTF-16').encode('utf-16')))
    (folder / 'd.tmx').write_bytes(TMX.format(encoding='windows-1252').encode('cp1252'))
    lines = ''.join(f'{en}\t{de}\n' for en, de in PAIRS)
    (folder / 'e.tsv').write_text(f'en\tde\n{lines}')
    lines = ''.join(f'{{"en": "{en}", "de": "{de}"}}\n' for en, de in PAIRS)
    (folder / 'f.jsonl').write_text(lines)
    (folder / 'g.csv').write_text('de,en\n' + ''.join(f'"{de}","{en}"\n' for en, de in PAIRS))
    files = {'pair': (folder / 'a.en.gz', 'a.de')}
    files |= {name[0]: name for name in ('b.tmx', 'c.tmx.gz', 'd.tmx', 'e.tsv', 'f.jsonl', 'g.csv')}
    forth, back = pipeline.register_translation_tasks('mine', 'en', 'de', files=files)
    assert (forth.name, back.name) == ('mine_translation_en_de', 'mine_translation_de_en')
    for split in files:
        assert pairs_of(forth, split) == PAIRS, split
        assert pairs_of(back, split) == [pair[::-1] for pair in PAIRS], split
        assert forth.source.num_input_examples(split) == 2
    assert pipeline.headline(forth) == 'bleu'
    assert (back.source.source_lang, back.source.target_lang) == ('de', 'en')


def test_columns_and_quotes(folder):
    (folder / 'x.tsv').write_text('1\t"So\tSo\n2\tJa"\tYes\n')
    task, _ = pipeline.register_translation_tasks(
        'other', 'de', 'en', files={'train': 'x.tsv'},
        columns=['id', 'left', 'right'], fields={'de': 'left', 'en': 'right'},
        headline='ter',
    )  # fmt: skip
    assert pairs_of(task, 'train') == [('"So', 'So'), ('Ja"', 'Yes')]
    assert pipeline.headline(task) == 'ter'


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        ('<tmx><tu>\n<tuv', r'x.tmx:2: not well-formed XML: unclosed token'),
        ('', r'x.tmx:1: not well-formed XML: no element found'),
        ('<html/>', 'x.tmx:1: the outermost element is <html>, not <tmx>'),
        ('<tmx>' * 65, 'x.tmx:1: has more than 64 elements inside each other'),
        ('<!DOCTYPE tmx [<!ENTITY a "aa">]><tmx>&a;</tmx>', "declares the entity 'a'"),
        ('<!DOCTYPE tmx [<!ENTITY a SYSTEM "/etc/passwd">]><tmx>&a;</tmx>', 'declares the entity'),
        ('<!DOCTYPE t [<!ENTITY % a SYSTEM "/etc/passwd"> %a;]><tmx/>', 'declares the entity'),
        ('<?xml version="1.0" encoding="klingon"?><tmx/>', 'cannot be read: unknown encoding'),
        ('<tmx><tu><tuv lang="en"><seg>' + 'x' * 3000, 'x.tmx:1: a text is too long: at most 1'),
        ('<tmx>\n<!-- ' + 'x' * 200_000, 'x.tmx:2: a tag or comment is too long: at most 1,000'),
        ('<tmx a="' + 'x' * 200_000, 'x.tmx:1: a tag or comment is too long'),
        (
            '<tmx><tu/>\n<tu><tuv lang="en"><seg> </seg></tuv>'
            '<tuv lang="de"><seg>b</seg></tuv></tu></tmx>',
            'x.tmx:2: the text in en is empty',
        ),
    ],
)  # fmt: skip
def test_a_tmx_is_not_believed(folder, monkeypatch, content, message):
    monkeypatch.setenv('XLBENCH_MAX_LINE_BYTES', '1000')
    (folder / 'x.tmx').write_text(content)
    with pytest.raises(errors.UserError) as raised:
        list(readers.good(readers.read_tmx(str(folder / 'x.tmx'), 'en', 'de')))
    assert message.replace('x.tmx', f'{folder}/x.tmx') in str(raised.value)
