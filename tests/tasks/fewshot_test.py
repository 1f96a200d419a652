"""Tests of tasks/fewshot.py, of the views 'classification' and 'tagging', and of FEWSHOT."""

import itertools
import json
import pathlib

import bucket_files
import numpy as np
import put_files
import pytest
import tokenizer_files

from xlbench import benchmarks, pipeline
from xlbench.benchmarks import FEWSHOT, languages
from xlbench.data import labelled, prepared, tokenizers
from xlbench.metrics import from_spec
from xlbench.prepare import examples, mixtures
from xlbench.system import errors
from xlbench.tasks.samples import labels

SPLITS = ('train', 'validation', 'test')


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    """The sample corpora, and vocabularies of BERT and XLM-R."""
    folder = tmp_path_factory.mktemp('made')
    with pytest.MonkeyPatch.context() as patch:
        sizes = {'train': 300, 'dev': 20, 'test': 30}
        patch.setattr(labels, 'SPLITS', {'udpos': sizes, 'xnli': sizes})
        patch.setattr(labels, 'BUCKETS', {'udpos': ('train', 3), 'xnli': ('dev', 3)})
        labels.write(str(folder))
    for family in ('bert-cased', 'xlm-roberta'):
        tokenizer_files.write(folder / family, family)
    return folder


@pytest.fixture
def root(made):
    with pipeline.bound(str(made / 'bert-cased'), str(made)):
        yield made


@pytest.fixture
def own_root(made, tmp_path):
    """A root whose files a test writes."""
    with pipeline.bound(str(made / 'bert-cased'), str(tmp_path)):
        yield tmp_path


def put(root: pathlib.Path, path: str, *lines: str) -> None:
    put_files.put(root / 'fewshot', path, ''.join(f'{line}\n' for line in lines))


def records(name: str, split: str) -> list[dict]:
    found = itertools.chain.from_iterable(examples.examples(pipeline.get(name), split))
    return list(found)


def shown(name: str, split: str) -> list[tuple[str, str]]:
    return [(r['inputs_pretokenized'], r['targets_pretokenized']) for r in records(name, split)]


def test_names_of_tasks_and_scenarios():
    names = FEWSHOT.task_names()
    assert len(names) == len({*names}) == 15 + 7 + 8 + 6 + 29 + 40
    assert FEWSHOT.task_name('udpos', 'ta') == 'fewshot_udpos_ta_ta'
    assert [len(FEWSHOT.task_languages[task]) for task in FEWSHOT.tasks] == [15, 7, 8, 6, 29, 40]
    scenarios = FEWSHOT.scenarios()
    assert len({s.mixture for s in scenarios}) == len(scenarios) == 6 + 1 + 1 + 8 + 6 + 29 + 40
    assert {*FEWSHOT.task_languages['xnli']} == {*labelled.XNLI_LANGUAGES}
    assert FEWSHOT.main_score('panx') == 'chunk_f1' and FEWSHOT.main_score('marc') == 'accuracy'


def test_splits_views_and_labels():
    for name in FEWSHOT.task_names():
        task, parsed = pipeline.get(name), benchmarks.parse_task(name)
        has_train = parsed.source in FEWSHOT.train_languages(parsed.task)
        assert ('train' in task.splits) == has_train
        numbers = tuple(int(s[6:]) for s in task.splits if s.startswith('shots_'))
        assert numbers == FEWSHOT.shots(parsed.task)
        tagging = parsed.task in ('udpos', 'panx')
        assert pipeline.view(task) == ('tagging' if tagging else 'classification')
    assert len(pipeline.labels(pipeline.get('fewshot_udpos_ta_ta'))) == 17
    assert len(pipeline.labels(pipeline.get('fewshot_panx_jv_jv'))) == 7
    assert pipeline.labels(pipeline.get('fewshot_xnli_de_de')) == labelled.LABELS['xnli']


def test_tagging_encodes_each_word_alone(root):
    chosen = pipeline.tokenizer()
    for record in records('fewshot_udpos_fr_fr', 'validation'):
        words = record['inputs_pretokenized'].split(' ')
        pieces = [chosen.encode(word) for word in words]
        assert record['piece_counts'].tolist() == [len(ids) for ids in pieces]
        expected = np.concatenate([[chosen.bos_id], *pieces, [chosen.eos_id]])
        assert record['inputs'].dtype == record['targets'].dtype == np.int32
        np.testing.assert_array_equal(record['inputs'], expected)
        tags = pipeline.labels(pipeline.get('fewshot_udpos_fr_fr'))
        assert ' '.join(tags[i] for i in record['targets']) == record['targets_pretokenized']


def test_a_word_that_the_vocabulary_leaves_nothing_of_is_unknown(own_root):
    put(own_root, 'udpos/test-de.tsv', '\u200b\tX', 'Brücke\tNOUN')
    chosen = pipeline.tokenizer()
    assert not chosen.encode('\u200b').size
    [record] = records('fewshot_udpos_de_de', 'test')
    assert record['inputs'][1] == chosen.unk_id and record['piece_counts'][0] == 1
    assert record['targets'].tolist() == [16, 7]


@pytest.mark.parametrize('family, ends', [('bert-cased', 1), ('xlm-roberta', 2)])
def test_pairs_have_the_separators_of_their_model(root, family, ends):
    pipeline.use_vocabulary(str(root / family), str(root))
    chosen = pipeline.tokenizer()
    for record in records('fewshot_xnli_de_de', 'validation'):
        texts = record['inputs_pretokenized'].split('\t')
        a, b = map(chosen.encode, texts)
        between = [chosen.eos_id] * ends
        expected = [chosen.bos_id, *a, *between, *b, chosen.eos_id]
        assert record['inputs'].tolist() == expected
        assert record['piece_counts'].tolist() == [len(a), len(b)]
        [label] = record['targets']
        assert labelled.LABELS['xnli'][label] == record['targets_pretokenized']
        assert labelled.Uid.parse(record['uid']).lang == 'de'


def test_models_of_translation_are_refused(made, tmp_path):
    tokenizer_files.write(tmp_path / 'mbart', 'mbart50')
    refused = pytest.raises(errors.UserError, match='not a vocabulary for tagging')
    with pipeline.bound(str(tmp_path / 'mbart'), str(made)), refused:
        records('fewshot_udpos_de_de', 'test')


def test_seqio_gives_the_same_examples(root):
    names = ('fewshot_xnli_es_es', 'fewshot_udpos_es_es')
    for name, split in itertools.product(names, ('test', 'shots_1')):
        dataset = pipeline.get(name).get_dataset(
            sequence_length=None, split=split, shuffle=False, try_in_mem_cache=False
        )
        for example, record in zip(dataset.as_numpy_iterator(), records(name, split), strict=True):
            assert {*example} == {*record}
            for key, value in example.items():
                value = value.decode() if isinstance(value, bytes) else value
                np.testing.assert_array_equal(value, record[key])


def test_prepared(made):
    names = 'fewshot_zero_shot_xnli,fewshot_udpos_de_de:test,fewshot_xnli_fr_fr:validation'
    mixtures.prepare(names, 'train', root=str(made), vocabulary='sample_fewshot')
    opened = prepared.open_task(str(made), 'sample_fewshot', 'fewshot_udpos_de_de', 'test')
    assert opened.manifest['view'] == 'tagging'
    assert opened.manifest['labels'] == list(pipeline.labels(pipeline.get('fewshot_udpos_de_de')))
    assert len(opened) == 30 and opened.manifest['data'] == 'sample'
    for i, (inputs, targets) in enumerate(opened.lengths()):
        record = opened[i]
        assert record['piece_counts'].sum() == inputs - 1 == len(record['inputs']) - 1
        assert len(record['piece_counts']) == len(record['targets']) == targets
    chunk_f1, accuracy = map(from_spec, opened.manifest['metrics'])
    texts = [record['targets_pretokenized'] for record in opened.read(range(30))]
    assert chunk_f1(texts, texts)['chunk_f1'] == accuracy(texts, texts)['tag_accuracy'] == 100

    zero_shot = 'fewshot_zero_shot_xnli', 'train'
    [train], _ = prepared.open_mixture(str(made), 'sample_fewshot', *zero_shot)
    assert train.manifest['view'] == 'classification' and len(train) == 300
    assert train.manifest['labels'] == ['contradiction', 'entailment', 'neutral']
    assert train[0]['uid'] == 'english-0-trn' and len(train[0]['targets']) == 1
    [metric] = map(from_spec, train.manifest['metrics'])
    assert metric.labels == labelled.LABELS['xnli']
    dev = prepared.open_task(str(made), 'sample_fewshot', 'fewshot_xnli_fr_fr', 'validation')
    assert dev[0]['uid'] == 'french-14940-val'
    pipeline.use_root(None)


def test_a_vocabulary_is_trained_on_texts_without_labels(made, tmp_path):
    path = str(tmp_path / 'own.model')
    names = 'fewshot_udpos_de_de:test,fewshot_xnli_de_de:validation'
    mixtures.make_vocabulary(names, 'test', path, root=str(made), size=500)
    assert tokenizers.load(path, str(made)).decode([]) == ''
    with pipeline.bound(None, str(made)):
        found = [*examples.texts(pipeline.get('fewshot_xnli_de_de'), 'validation')]
        [*words] = examples.texts(pipeline.get('fewshot_udpos_de_de'), 'test')
    assert len(found) == 2 * 20 and not {*found} & {*labelled.LABELS['xnli']}
    assert len(words) == 30 and not any('PUNCT' in text for text in words)


# ---------------------------------------------------------------------------------------------
# The files.


def xnli_row(lang, label, first, second):
    columns = [lang, label, *[''] * 12, '9', 'x', first, second, 'x']
    return '\t'.join(columns)


def test_files_of_xnli(own_root):
    head = '\t'.join(['language', 'gold_label', *['x'] * 17])
    # The official columns are tokenised premise and hypothesis, third and second from the right.
    rows = [xnli_row('de', 'neutral', 'a', 'b')]
    filler = [xnli_row('ar', 'neutral', 'p', 'q')] * (2 * 5010)
    put(own_root, 'xnli/xnli.test.tsv.gz', head, *filler, *rows)
    assert shown('fewshot_xnli_de_de', 'test') == [('a\tb', 'neutral')]
    assert records('fewshot_xnli_de_de', 'test')[0]['uid'] == 'german-10020-tst'
    put(own_root, 'xnli/dev-de.tsv', 'Es regnet .\tEs ist nass .\tentailment\r')
    german = [('Es regnet .\tEs ist nass .', 'entailment')]
    assert shown('fewshot_xnli_de_de', 'validation') == german
    put(own_root, 'xnli/train-en.tsv', 'x\ty\tneutral')
    assert shown('fewshot_xnli_en_en', 'train') == [('x\ty', 'neutral')]
    columns = ['0', '1', '1n', 'fiction', *['p'] * 4, 'First .', 'Second .', 'neutral', 'neutral']
    put(own_root, 'xnli/train.tsv', '\t'.join(['index', *['x'] * 11]), '\t'.join(columns))
    assert shown('fewshot_xnli_en_en', 'train') == [('First .\tSecond .', 'neutral')]
    assert pipeline.get('fewshot_xnli_en_en').num_input_examples('train') == 1


def test_files_of_pawsx_mldoc_and_marc(own_root):
    put(own_root, 'pawsx/de/test_2k.tsv', 'id\tsentence1\tsentence2\tlabel', '1\ta\tb\t1')
    put(own_root, 'pawsx/dev-de.tsv.gz', 'c\td\t0')
    assert shown('fewshot_pawsx_de_de', 'test') == [('a\tb', '1')]
    assert shown('fewshot_pawsx_de_de', 'validation') == [('c\td', '0')]
    put(own_root, 'mldoc/en/en.train.10000', 'CCAT\tA text .\tmore', 'MCAT\tAnother .')
    put(own_root, 'mldoc/german.test', 'GCAT\tEin Text .')
    found = records('fewshot_mldoc_en_en', 'train')
    assert shown('fewshot_mldoc_en_en', 'train') == [('A text .', 'CCAT'), ('Another .', 'MCAT')]
    assert [r['targets'].tolist() for r in found] == [[0], [3]]
    assert all(len(r['piece_counts']) == 1 for r in found)
    assert shown('fewshot_mldoc_de_de', 'test') == [('Ein Text .', 'GCAT')]
    review = {'stars': 5, 'review_title': ' Gut', 'review_body': 'Ja.', 'product_category': 'toy'}
    put(own_root, 'marc/dev/dataset_de_dev.json', json.dumps(review))
    assert shown('fewshot_marc_de_de', 'validation') == [('Ja.\tGut . toy', '5')]
    assert records('fewshot_marc_de_de', 'validation')[0]['targets'].tolist() == [4]


CONLLU = (
    '# text = Im Haus', '1-2\tIm' + '\t_' * 8, '1\tIn\tin\tADP' + '\t_' * 6,
    '2\tdem\tder\tDET' + '\t_' * 6, '2.1\tist\tsein\tAUX' + '\t_' * 6,
    '3\tHaus\tHaus\tNOUN' + '\t_' * 6, '',
)  # fmt: skip


@pytest.mark.parametrize('task', FEWSHOT.tasks)
def test_every_language_reads_its_official_files(own_root, task):
    """The same file under each language's name."""
    words = {'udpos': 'NOUN', 'panx': 'B-LOC'}
    for lang in FEWSHOT.task_languages[task]:
        marc = dict.fromkeys(('review_title', 'review_body', 'product_category'), f'{lang} a')
        path, *lines = {
            'xnli': (f'test-{lang}.tsv', f'{lang} a\tb\tneutral'),
            'pawsx': (f'{lang}/test_2k.tsv', 'id\tx\ty\tlabel', f'1\t{lang} a\tb\t1'),
            'mldoc': (f'{languages.get(lang).name}.test', f'CCAT\t{lang} a'),
            'marc': (f'test/dataset_{lang}_test.json', json.dumps(marc | {'stars': 3})),
        }.get(task, (f'test-{lang}.tsv', f'{lang}\t{words.get(task)}', ''))
        put(own_root, f'{task}/{path}', *lines)
        source = pipeline.get(FEWSHOT.task_name(task, lang)).source
        [record] = source.read('test', *source.paths('test'))
        assert (record.get('text_a') or record['words']).split()[0] == lang


def test_files_of_treebanks_and_entities(own_root):
    put(own_root, 'udpos/de_gsd-ud-dev.conllu.gz', *CONLLU)
    put(own_root, 'udpos/de_hdt-ud-dev.conllu', *CONLLU, *CONLLU)
    put(own_root, 'udpos/nl_gsd-ud-dev.conllu', *CONLLU)
    assert shown('fewshot_udpos_de_de', 'validation') == [('In dem Haus', 'ADP DET NOUN')] * 3
    put(own_root, 'udpos/dev-de.tsv', 'Ja\tINTJ')  # The file of the benchmark goes first.
    assert shown('fewshot_udpos_de_de', 'validation') == [('Ja', 'INTJ')]
    put(own_root, 'panx/de_pud-ud-test.iob2', '# text = Berlin', '1\tBerlin\tB-LOC\t-\tx', '')
    assert shown('fewshot_panx_de_de', 'test') == [('Berlin', 'B-LOC')]


SHOTS = 'buckets/udpos/1-shots/de'


@pytest.mark.parametrize(
    ('path', 'lines', 'message'),
    [
        ('xnli/test-de.tsv', ['a\tb'], 'test-de.tsv:1: 2 TAB-separated columns'),
        ('xnli/test-de.tsv', ['a\tb\tmaybe'], "test-de.tsv:1: the label is 'maybe'"),
        ('udpos/test-de.tsv', ['a\tNN'], 'test-de.tsv: NN of .a. in the sentence .a. is'),
        ('udpos/test-de.tsv', ['a'], 'test-de.tsv:1: 1 TAB-separated columns'),
        ('buckets/udpos/2-shots/de/0-th/train.tsv', ['a\tNOUN'], 'no .*/1-shots/de; one is TASK'),
        (f'{SHOTS}/0-th/train.txt', ['a'], r'no files of buckets below .*1-shots/de'),
        (f'{SHOTS}/0-th/train.tsv', ['a\tNN'], r'0-th/train.tsv: NN of .a. in the sentence'),
        (f'{SHOTS}/0-th/train.tsv', ['a'], r'0-th/train.tsv:1: 1 TAB-separated columns'),
        (f'{SHOTS}.jsonl', ['{"bucket":'], r'1-shots/de.jsonl:1: not JSON'),
        (f'{SHOTS}/0-th/train.tsv', [], r'has no usable examples'),
    ],
)
def test_what_is_wrong_is_said_or_skipped(own_root, path, lines, message):
    name, has_good = path.removeprefix('buckets/').split('/')[0], not path.startswith('buckets/')
    good = {'xnli': ['c\td\tneutral'], 'udpos': ['', 'b\tNOUN']}[name]
    put(own_root, path, *lines, *(good if has_good else []))
    task, split = f'fewshot_{name}_de_de', 'test' if has_good else 'shots_1'
    arguments = {'root': str(own_root), 'vocabulary': pipeline.tokenizer().name}
    with pytest.raises(errors.UserError, match=message) as raised:
        mixtures.prepare(task, split, **arguments)
    assert '\n' not in str(raised.value)
    if has_good:
        [done] = mixtures.prepare(task, split, skip_bad=1, **arguments)
        assert done.manifest['num_examples'] == len(done.manifest['skipped']) == 1


def test_a_missing_split(own_root):
    arguments = {'root': str(own_root), 'vocabulary': pipeline.tokenizer().name}
    with pytest.raises(errors.UserError, match="no split 'train'; it has validation, test"):
        mixtures.prepare('fewshot_xnli_de_de', 'train', **arguments)


# ---------------------------------------------------------------------------------------------
# Buckets.


def sampled(*examples: tuple[str, int, str]) -> str:
    """The content of sampled.json: uid, text and label of each example."""
    found = {}
    for uid, text, label in examples:
        record = {'uid': uid, 'text_a': text, 'label': label, 'portion_identifier': -1}
        found.setdefault(label, []).append(record | {'text_b': f'{text} ?'})
    return json.dumps(found)


def of_buckets(name: str, split: str) -> list[tuple[str, str]]:
    return [(r['bucket'], r['inputs_pretokenized']) for r in records(name, split)]


def test_buckets_in_folders(own_root):
    place = 'buckets/udpos/1-shots/de'
    put(own_root, f'{place}/10-th/train.tsv', 'Elf\tNUM')
    put(own_root, f'{place}/2-th/train.tsv.gz', 'Hunde\tNOUN', 'bellen\tVERB')
    put(own_root, f'{place}/2-th/train.tsv', 'Hunde\tNOUN', 'bellen\tVERB')
    put(own_root, f'{place}/1-th/train.tsv')  # Some published ones have 0 bytes.
    put(own_root, f'{place}/0-th/train.tsv', 'Ja\tINTJ', '', 'Ach\tINTJ')
    put(own_root, 'buckets/udpos/1-shots/de.jsonl', 'is not read beside a folder')
    expected = [('0', 'Ja'), ('0', 'Ach'), ('2', 'Hunde bellen'), ('10', 'Elf')]
    assert of_buckets('fewshot_udpos_de_de', 'shots_1') == expected
    assert pipeline.get('fewshot_udpos_de_de').num_input_examples('shots_1') == 4

    uid = 'german-4980-val'
    place = 'buckets/xnli/8-shots/german/0-th/sampled.json.gz'
    put(own_root, place, sampled((uid, 'Es regnet', 'neutral')))
    [record] = records('fewshot_xnli_de_de', 'shots_8')
    assert (record['uid'], record['bucket']) == (uid, '0') and record['targets'].tolist() == [2]
    assert record['inputs_pretokenized'] == 'Es regnet\tEs regnet ?'


def test_buckets_of_a_language_in_one_file(own_root):
    lines = [
        {'bucket': 0, 'file': 'x', 'data': 'Ja\tINTJ\n'},
        {'bucket': 1, 'file': 'x', 'data': ''},
        {'bucket': 2, 'file': 'x', 'data': 'B\tB-PER\n\nC\tO\n'},
    ]
    put(own_root, 'buckets/udpos/2-shots/tamil.jsonl.gz', json.dumps(lines[0]))
    assert of_buckets('fewshot_udpos_ta_ta', 'shots_2') == [('0', 'Ja')]
    put(own_root, 'buckets/panx/2-shots/ta.jsonl', *map(json.dumps, lines[1:]))
    assert of_buckets('fewshot_panx_ta_ta', 'shots_2') == [('2', 'B'), ('2', 'C')]
    reviews = {'bucket': 7, 'data': {'5': [{'uid': 'german-3-trn', 'text_a': 'Gut', 'label': 5}]}}
    put(own_root, 'buckets/marc/1-shots/de.jsonl', json.dumps(reviews))
    [record] = records('fewshot_marc_de_de', 'shots_1')
    assert (record['uid'], record['bucket']) == ('german-3-trn', '7')
    assert record['targets'].tolist() == [4]


def test_prepared_buckets_know_of_empty_and_of_further_ones(own_root):
    for index, lines in enumerate((['Ja\tINTJ'], [], ['Nein\tINTJ'])):
        put(own_root, f'buckets/udpos/1-shots/de/{index}-th/train.tsv', *lines)
    root, vocabulary = str(own_root), pipeline.tokenizer().name
    task = 'fewshot_udpos_de_de'
    [done] = mixtures.prepare(task, 'shots_1', root=root, vocabulary=vocabulary)
    assert done.manifest['left_out'] == {'empty buckets': 1}
    opened = prepared.open_task(root, vocabulary, task, 'shots_1')
    assert [opened[i]['bucket'] for i in range(len(opened))] == ['0', '2']
    put(own_root, 'buckets/udpos/1-shots/de/3-th/train.tsv.gz', 'Vier\tNUM')
    with pytest.raises(prepared.NotPrepared, match='there is a further input'):
        prepared.open_task(root, vocabulary, task, 'shots_1')


def test_real_files(dev_data, own_root):
    """The development data as it is: each folder's files below fewshot/<task>."""
    folders = {'xnli': 'xnli', 'pawsx': 'pawsx', 'udpos_xtreme': 'udpos', 'ud': 'udpos'}
    for folder, task in (folders | {'uner': 'panx'}).items():
        (own_root / 'fewshot' / task).mkdir(parents=True, exist_ok=True)
        for path in (dev_data / folder).rglob('*.*'):
            if path.is_file():
                (own_root / 'fewshot' / task / path.name).symlink_to(path)
    for name, split, count in (
        ('xnli_sw_sw', 'validation', 2490), ('pawsx_ja_ja', 'validation', 2000),
        ('udpos_mr_mr', 'train', 373), ('panx_zh_zh', 'test', 500),
    ):  # fmt: skip
        assert pipeline.get(f'fewshot_{name}').num_input_examples(split) == count
    found = records('fewshot_udpos_mr_mr', 'train')
    assert all(len(r['targets']) == len(r['piece_counts']) for r in found)
    tags = {tag for r in found for tag in r['targets_pretokenized'].split()}
    assert {'NOUN', 'VERB', 'PUNCT'} <= tags and '_' not in tags


def test_real_buckets(dev_data, own_root):
    """The published buckets of a language as splits, in the form in which they are repacked."""
    (own_root / 'fewshot').mkdir()
    (own_root / 'fewshot' / 'buckets').symlink_to(dev_data / 'fsxlt_buckets')
    for task, lang, number in (('udpos', 'ta', 2), ('panx', 'jv', 1), ('xnli', 'sw', 8)):
        published = bucket_files.load(dev_data / 'fsxlt_buckets', task, lang, number)
        found = records(FEWSHOT.task_name(task, lang), f'shots_{number}')
        field = 'words' if task in FEWSHOT.tagging else 'text_a'
        wanted = [(str(b.index), example[field]) for b in published for example in b.examples]
        assert [(r['bucket'], r['inputs_pretokenized'].split('\t')[0]) for r in found] == wanted
        if task == 'xnli':
            assert len(found) == len({r['uid'] for r in found}) == len(published) * 3 * number
        else:
            for record in found:
                assert len(record['targets']) == len(record['piece_counts'])
