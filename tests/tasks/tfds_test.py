"""XTREME's data as TFDS has it, read back from its own builders."""

import json
import pathlib
from unittest import mock

import pytest
import xtreme_files

from xlbench import pipeline
from xlbench.data import conllu, labelled, readers
from xlbench.data.readers import BadRecord, LeftOut
from xlbench.system.errors import UserError
from xlbench.tasks import xtreme

LANGS = labelled.XNLI_LANGUAGES
NLI = ('neutral', 'contradiction', 'entailment')


@pytest.fixture(scope='module')
def source(tmp_path_factory):
    """Official files of made-up texts: 23 rows, so that a wrong order is seen."""
    folder = tmp_path_factory.mktemp('source')
    header = 'id\tsentence1\tsentence2\tlabel\n'
    for split in ('translated_train', 'dev_2k', 'test_2k'):
        rows = (f'{i}\tSatz {i} {split}\t„Noch“ ein {i}\t{i % 2}\n' for i in range(1, 24))
        xtreme_files.write(folder / 'x-final' / 'de' / f'{split}.tsv', header + ''.join(rows))
    columns = [f'column{i}' for i in range(7)]
    names = ['index', *columns, 'sentence1', 'sentence2', 'label1', 'gold_label']
    rows = ['\t'.join(names)] + [
        '\t'.join([str(i), *'abcdefg', f'Premise "{i}', f'Hypothesis {i}', 'x', NLI[i % 3]])
        for i in range(23)
    ]
    for name in ('train', 'dev_matched', 'dev_mismatched', 'test_matched', 'test_mismatched'):
        xtreme_files.write(folder / 'MNLI' / f'{name}.tsv', '\n'.join(rows) + '\n')
    names = ['language', 'gold_label', 'sentence1', 'sentence2', 'pairID', 'tok1', 'tok2']
    for split, count in (('dev', 9), ('test', 5)):
        rows = ['\t'.join(names)] + [
            f'{lang}\t{NLI[i % 3]}\t{lang} {i}\t{split}, {lang} {i}.\t{3 * i}\tx\ty'
            for lang in LANGS
            for i in range(count)
        ]
        xtreme_files.write(folder / 'XNLI-1.0' / f'xnli.{split}.tsv', '\n'.join(rows) + '\n')
    for split in ('train', 'dev', 'test'):
        sentences = (f'de:Frau\tO\nde:{split}:{i}\tB-PER\nde:K\tI-PER\n' for i in range(23))
        xtreme_files.write(folder / 'de' / split, '\n'.join(sentences))
    return folder


@pytest.fixture(scope='module')
def data_dir(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp('root') / 'tfds'
    for name in ('paws_x_wiki/de', 'glue/mnli', 'xnli', 'wikiann/de'):
        xtreme_files.built(name, folder, source)
    return str(folder)


def test_rows_of_pawsx_are_those_of_the_official_file(source, data_dir, monkeypatch):
    monkeypatch.setitem(
        xtreme.HOSTED['pawsx'], '*', xtreme.Hosted('paws_x_wiki/{lang}', first=1, rows=23)
    )
    for split, name, short in (('validation', 'dev_2k', 'val'), ('test', 'test_2k', 'tst')):
        official = labelled.read_pawsx(str(source / 'x-final/de' / f'{name}.tsv'), 'de', short)
        found = list(xtreme.read('pawsx', 'de', split, data_dir))
        assert found == list(official) and found[0]['uid'] == f'german-1-{short}'


def test_without_all_rows_none_is_claimed(data_dir):
    found = list(xtreme.read('pawsx', 'de', 'validation', data_dir))  # It should have 2,000.
    assert len({record['uid'] for record in found}) == 23
    for record in found:
        with pytest.raises(UserError, match='is not a uid'):
            labelled.Uid.parse(record['uid'])


def test_xnli(source, data_dir):
    official = labelled.read_xnli(str(source / 'MNLI' / 'train.tsv'), 'en', 'trn')
    found = xtreme.read('xnli', 'en', 'train', data_dir)
    assert sorted(found, key=lambda record: record['uid']) == sorted(
        official, key=lambda record: record['uid']
    )
    for lang in ('sw', 'en'):
        found = {record['text_a']: record for record in xtreme.read('xnli', lang, 'test', data_dir)}
        assert len(found) == 5
        for i in range(5):
            record = found[f'{lang} {i}']
            assert record['text_b'] == f'test, {lang} {i}.' and record['label'] == NLI[i % 3]
    found = list(xtreme.read('xnli', 'de', 'validation', data_dir))
    assert len(found) == 9 and all(record['uid'].startswith('tfds/') for record in found)


def test_panx(data_dir):
    for split, name in (('train', 'train'), ('validation', 'dev'), ('test', 'test')):
        found = list(xtreme.read('panx', 'de', split, data_dir))
        assert found == [
            {'words': f'Frau {name}:{i} K', 'tags': 'O B-PER I-PER'} for i in range(23)
        ]


def test_udpos_and_the_names_of_tamil_and_tagalog(tmp_path):
    """xtreme_pos calls Tamil "tl": its own glob finds the treebanks here."""
    treebanks, folder = tmp_path / 'ud-treebanks-v2.5', tmp_path / 'tfds'
    for name, splits in (('Tamil-TTB', 'train dev test'), ('Tagalog-TRG', 'test')):
        for split in splits.split():
            code = {'Tamil-TTB': 'ta_ttb', 'Tagalog-TRG': 'tl_trg'}[name]
            lines = [
                [(str(i), f'{name[:3]} {split}\u200c{i}', 'NOUN'), ('2', '.', 'PUNCT')]
                for i in range(23)
            ]
            blocks = (
                ''.join(f'{n}\t{word}\t_\t{tag}\t_\t_\t_\t_\t_\t_\n' for n, word, tag in block)
                for block in [*lines, [('1', '_', '_')]]
            )
            path = treebanks / f'UD_{name}' / f'{code}-ud-{split}.conllu'
            xtreme_files.write(path, '\n'.join(blocks))

    def examples(self, filepaths, process_example_fn):
        key = 0
        for path in filepaths:
            for block in pathlib.Path(path).read_text(encoding='utf-8').split('\n\n'):
                rows = [line.split('\t') for line in block.strip().splitlines()]
                sentence = [{'form': row[1], 'upos': row[3]} for row in rows]
                yield key, process_example_fn(sentence, key, self.builder_config.features)
                key += 1

    for config in ('tl', 'ta'):
        xtreme_files.built(
            f'xtreme_pos/xtreme_pos_{config}', folder, tmp_path, _generate_examples=examples
        )
    for split in ('train', 'validation', 'test'):
        *found, last = xtreme.read('udpos', 'ta', split, str(folder))
        name = {'validation': 'dev'}.get(split, split)
        assert found == [{'words': f'Tam{name}{i} .', 'tags': 'NOUN PUNCT'} for i in range(23)]
        assert last == LeftOut('no word has a text, or none has a tag')
        official = conllu.read_conllu(str(treebanks / 'UD_Tamil-TTB' / f'ta_ttb-ud-{name}.conllu'))
        assert last in official
    # If the names are put right one day, "tl" has no train split, and is not taken for Tamil.
    info = folder / 'xtreme_pos' / 'xtreme_pos_tl' / '1.0.0' / xtreme.INFO
    about = json.loads(info.read_text())
    about['splits'] = [split for split in about['splits'] if split['name'] == 'test']
    info.write_text(json.dumps(about))
    assert not xtreme.available('udpos', 'ta', 'test', str(folder))


def test_the_tasks_fall_back_to_it(source, data_dir):
    with pipeline.bound(None, str(pathlib.Path(data_dir).parent)):
        task = pipeline.get('fewshot_panx_de_de')
        [path, _] = task.source.patterns('validation')
        assert path.startswith(data_dir) and path.endswith(xtreme.INFO)
        found = [row for batch in task.source.batches('validation') for row in batch['words']]
        assert len(found) == task.source.num_input_examples('validation') == 23
        assert {text.numpy().decode() for text in found} == {f'Frau dev:{i} K' for i in range(23)}
        # An official file that is there is taken.
        official = xtreme_files.write(
            pathlib.Path(data_dir).parent / 'fewshot/panx/dev-de.tsv', 'Haus\tO\n\n'
        )
        assert task.source.patterns('validation') == [official]
        # Neither is there: the message names the official one.
        with pytest.raises(UserError, match=r'no file .*panx/test-nl.tsv'):
            pipeline.get('fewshot_panx_nl_nl').source.paths('test')


def test_what_is_there(data_dir):
    there = {('pawsx', 'de'), ('panx', 'de'), *(('xnli', lang) for lang in LANGS)}
    for task, lang, split in [
        (task, lang, split)
        for task in ('xnli', 'pawsx', 'udpos', 'panx', 'mldoc')
        for lang in ('de', 'en', 'jv')
        for split in ('train', 'validation', 'test', 'shots_1')
    ]:
        expected = (task, lang) in there and split != 'shots_1'
        if split == 'train' and task in ('xnli', 'pawsx'):
            expected = expected and lang == 'en'
        assert xtreme.available(task, lang, split, data_dir) == expected, (task, lang, split)
    info, shards = xtreme.files('panx', 'de', 'validation', data_dir)
    assert info.endswith('wikiann/de/1.0.0/dataset_info.json')
    assert [path.rpartition('/')[2] for path in readers.find(shards)] == [
        'wikiann-validation.tfrecord-00000-of-00001'
    ]


@pytest.mark.parametrize(
    ('place', 'message'),
    [
        (('panx', 'fr', 'test'), r'has no split test; python -m xlbench.data xtreme .* --lang=fr'),
        (('udpos', 'fr', 'test'), 'has no test of udpos in fr that stands for the official one'),
        (('udpos', 'de', 'test'), 'no test of udpos in de'),
        (('xnli', 'de', 'train'), 'no train of xnli in de'),
        (('mldoc', 'de', 'test'), 'no test of mldoc in de'),
    ],
)
def test_what_is_not_there_is_said(data_dir, place, message):
    assert not xtreme.available(*place, data_dir)
    with pytest.raises(UserError, match=message):
        next(xtreme.read(*place, data_dir))


def test_an_empty_text_is_a_bad_record(tmp_path):
    examples = [(0, {'sentence1': b' ', 'sentence2': b'x', 'label': 'paraphrase'})]
    (bad,) = xtreme._texts('pawsx', 'de', 'test', 'folder', iter(examples))
    assert bad == BadRecord('folder', 1, 'a text is empty')


def test_the_command_downloads_each_dataset_once(tmp_path, monkeypatch, capsys):
    made = []
    builder = mock.Mock()
    monkeypatch.setattr(
        xtreme.tensorflow_datasets(), 'builder', lambda name, data_dir: made.append(name) or builder
    )
    xtreme.main(['xtreme', f'--root={tmp_path}', '--task=xnli,udpos'])
    assert {'glue/mnli:2.0.0', 'xnli:1.1.0', 'xtreme_pos/xtreme_pos_tl:1.0.0'} <= set(made)
    assert len(made) == len(set(made)) == builder.download_and_prepare.call_count
    assert not any(name.endswith(('_fr:1.0.0', '_zh:1.0.0')) for name in made)
    made.clear()
    xtreme.main(['xtreme', f'--root={tmp_path}', '--task=panx', '--lang=de'])
    assert made == ['wikiann/en:1.0.0', 'wikiann/de:1.0.0']
    assert f'wikiann/de -> {tmp_path}/tfds/wikiann/de/1.0.0' in capsys.readouterr().out
    builder.download_and_prepare.side_effect = OSError('no\nroute')
    with pytest.raises(UserError, match=r'wikiann/en cannot be down.*: OSError: no route'):
        xtreme.main(['xtreme', f'--root={tmp_path}', '--task=panx'])
    with pytest.raises(UserError, match="unknown task 'mldoc'"):
        xtreme.main(['xtreme', f'--root={tmp_path}', '--task=mldoc'])
    with pytest.raises(UserError, match="unknown language of pawsx 'xx'"):
        xtreme.main(['xtreme', f'--root={tmp_path}', '--task=pawsx', '--lang=xx'])
