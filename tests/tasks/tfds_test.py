"""XTREME's data as TFDS has it, read back from its own builders."""

import json
import pathlib
from unittest import mock

import pytest
import xtreme_files

from xlbench import pipeline
from xlbench.data import conllu, readers
from xlbench.data.readers import LeftOut
from xlbench.system.errors import UserError
from xlbench.tasks import xtreme


@pytest.fixture(scope='module')
def source(tmp_path_factory):
    """Official files of made-up sentences: 23 of them, so that a wrong order is seen."""
    folder = tmp_path_factory.mktemp('source')
    for split in ('train', 'dev', 'test'):
        sentences = (f'de:Frau\tO\nde:{split}:{i}\tB-PER\nde:K\tI-PER\n' for i in range(23))
        xtreme_files.write(folder / 'de' / split, '\n'.join(sentences))
    return folder


@pytest.fixture(scope='module')
def data_dir(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp('root') / 'tfds'
    xtreme_files.built('wikiann/de', folder, source)
    return str(folder)


def test_panx(data_dir):
    for split, name in (('train', 'train'), ('validation', 'dev'), ('test', 'test')):
        [info, _] = xtreme.files('panx', 'de', split, data_dir)
        found = list(xtreme.read('panx', 'de', split, info))
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
        [info, _] = xtreme.files('udpos', 'ta', split, str(folder))
        *found, last = xtreme.read('udpos', 'ta', split, info)
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
    assert not xtreme.files('udpos', 'ta', 'test', str(folder))


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
    for task, lang, split in [
        (task, lang, split)
        for task in ('xnli', 'pawsx', 'udpos', 'panx', 'mldoc')
        for lang in ('de', 'en', 'jv')
        for split in ('train', 'validation', 'test', 'shots_1')
    ]:
        expected = (task, lang) == ('panx', 'de') and split != 'shots_1'
        assert bool(xtreme.files(task, lang, split, data_dir)) == expected, (task, lang, split)
    # Sentences in Swiss German are among those of the test set alone.
    assert xtreme._hosted('udpos', 'de', 'train') and not xtreme._hosted('udpos', 'de', 'test')
    info, shards = xtreme.files('panx', 'de', 'validation', data_dir)
    assert info.endswith('wikiann/de/1.0.0/dataset_info.json')
    assert [path.rpartition('/')[2] for path in readers.find(shards)] == [
        'wikiann-validation.tfrecord-00000-of-00001'
    ]


def test_the_command_downloads_each_dataset_once(tmp_path, monkeypatch, capsys):
    made = []
    builder = mock.Mock()
    monkeypatch.setattr(
        xtreme.tensorflow_datasets(), 'builder', lambda name, data_dir: made.append(name) or builder
    )
    xtreme.main(['xtreme', f'--root={tmp_path}', '--task=panx,udpos'])
    assert {'wikiann/de:1.0.0', 'xtreme_pos/xtreme_pos_tl:1.0.0'} <= set(made)
    assert len(made) == len(set(made)) == builder.download_and_prepare.call_count
    assert not any(name.endswith(('_fr:1.0.0', '_zh:1.0.0')) for name in made)
    made.clear()
    xtreme.main(['xtreme', f'--root={tmp_path}', '--task=panx', '--lang=de'])
    assert made == ['wikiann/en:1.0.0', 'wikiann/de:1.0.0']
    assert f'wikiann/de -> {tmp_path}/tfds/wikiann/de/1.0.0' in capsys.readouterr().out
    builder.download_and_prepare.side_effect = OSError('no\nroute')
    with pytest.raises(UserError, match=r'wikiann/en cannot be down.*: OSError: no route'):
        xtreme.main(['xtreme', f'--root={tmp_path}', '--task=panx'])
    with pytest.raises(UserError, match="unknown task 'xnli'"):
        xtreme.main(['xtreme', f'--root={tmp_path}', '--task=xnli'])
    with pytest.raises(UserError, match="unknown language of panx 'xx'"):
        xtreme.main(['xtreme', f'--root={tmp_path}', '--task=panx', '--lang=xx'])
