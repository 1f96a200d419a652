"""Tests of tasks/xdailydialog.py, tasks/xpersona.py and dialogue files of one's own."""

import itertools
import json
import shutil

import dialogue_files
import mtg_files
import own_task_file
import pytest
from task_records import examples

from xlbench import metrics, pipeline
from xlbench.benchmarks import XDAILYDIALOG, XPERSONA
from xlbench.data import prepared
from xlbench.prepare import mixtures

SPLITS = ('train', 'validation', 'test')


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp('made')
    dialogue_files.write_xdailydialog(folder)
    dialogue_files.write_xpersona(folder)
    mtg_files.write_vocabulary(folder)
    return folder


def pairs(name, split):
    source = pipeline.get(name).source
    chunks = source.chunks(split, source.paths(split))
    return [pair for c in chunks for pair in zip(c['message'], c['reply'], strict=True)]


def consecutive(*dialogues):
    return [pair for d in dialogues for pair in itertools.pairwise(d)]


# --- XDailyDialog.


def test_consecutive_utterances_are_pairs(root):
    for view in XDAILYDIALOG.tasks:
        for lang in XDAILYDIALOG.languages:
            found = pairs(f'xdailydialog_{view}_{lang}_{lang}', 'train')
            assert found == consecutive(*(dialogue_files.utterances(lang, d) for d in range(3)))


def test_held_out_pairs_are_unseen(root, tmp_path, capsys):
    name = 'xdailydialog_retrieval_de_de'
    for number, split in enumerate(('validation', 'test'), 1):
        wanted = consecutive(
            *(dialogue_files.utterances('de', d) for d in (10 * number, 10 * number + 1))
        )
        assert pairs(name, split) == wanted
        assert not set(wanted) & set(pairs(name, 'train'))
        assert pipeline.get(name).num_input_examples(split) == 6
    shutil.copytree(root, tmp_path / 'root')
    done = mixtures.prepare(
        name, SPLITS, root=str(tmp_path / 'root'), vocabulary='sample', force=True
    )
    assert [d.manifest['left_out'] for d in done] == [{}, *[{'pairs that training has': 3}] * 2]
    assert all(d.manifest['skipped'] == [] for d in done)
    assert f'{name}/test: 6 examples' in (out := capsys.readouterr().out)
    assert out.count('; without 3 pairs that training has') == 2
    # Training has other pairs: what is held out is to be made anew.
    path = tmp_path / 'root/xdailydialog/1k_part_data/dialogues_text_De.txt'
    path.write_text('Hallo . __eou__ Ja ?\n')
    with pytest.raises(prepared.NotPrepared, match=r'dialogues_text_De\.txt has changed'):
        prepared.open_task(str(tmp_path / 'root'), 'sample', name, 'test')
    pipeline.use_root(str(tmp_path / 'root'))
    assert len(pairs(name, 'test')) == 9


# --- XPersona.


@pytest.mark.parametrize('lang', XPERSONA.languages)
def test_splits_of_every_language(root, lang):
    """The test file is for test; of the other, every tenth dialogue is for validation."""
    found = {s: pairs(f'xpersona_generation_{lang}_{lang}', s) for s in SPLITS}
    numbers = {'train': [*range(8), 9, 10, 11], 'validation': [8], 'test': [100, 101, 102]}
    for split, wanted in numbers.items():
        made = [dialogue_files.utterances(lang, number) for number in wanted]
        if lang == 'en':  # Without the pair that opens with __SILENCE__.
            assert found[split] == [tuple(texts[1:3]) for texts in made]
        else:
            assert found[split] == [pair for t in made for pair in (tuple(t[:2]), tuple(t[2:]))]


# --- One's own.


@pytest.fixture
def own_tasks(root, tmp_path):
    with own_task_file.forgotten():
        yield tmp_path


def test_a_single_registration_is_enough(own_tasks, root):
    train = own_tasks / 'train.txt'
    train.write_text('Hallo | Hi | Wie geht es ?\n? | !\n')
    (own_tasks / 'test.txt').write_text('hallo! | Hi | Und nun ? | ...\n! | ?\n')
    (own_tasks / 'test2.txt').write_text('Hi | Wie geht es ? | Gut\n')
    files = {'train': str(train), 'test': f'{own_tasks}/test*.txt'}
    pipeline.register_dialogue_tasks('chat', 'de', separator='|', files=files)
    for view in ('retrieval', 'generation'):
        found = pairs(f'chat_{view}_de_de', 'train')
        assert found == [('Hallo', 'Hi'), ('Hi', 'Wie geht es ?'), ('?', '!')]
        # Of two files, without what training has.
        assert pairs(f'chat_{view}_de_de', 'test') == [
            ('Hi', 'Und nun ?'), ('Und nun ?', '...'), ('!', '?'), ('Wie geht es ?', 'Gut'),
        ]  # fmt: skip
    scored = [type(m).__name__ for m in pipeline.get('chat_retrieval_de_de').metric_fns]
    assert 'MrsRouge' in scored


def test_json_and_what_training_has_kept(own_tasks):
    path = own_tasks / 'all.json'
    path.write_text(json.dumps([{'dialogue': ['a', 'b', 'c']}, {'dialogue': [['a', 'b']]}]))
    pipeline.register_dialogue_tasks(
        'talk', 'en', format='json', drop_seen=False, metrics=metrics.only(),
        files=dict.fromkeys(('train', 'test'), str(path)),
        part_of=lambda split, number: (split == 'train') == (number == 0),
    )  # fmt: skip
    assert pairs('talk_retrieval_en_en', 'train') == [('a', 'b'), ('b', 'c')]
    assert pairs('talk_retrieval_en_en', 'test') == [('a', 'b')]
    assert pipeline.get('talk_generation_en_en').metric_fns == []


def test_a_broken_training_file_is_not_passed_over(own_tasks):
    (own_tasks / 'train.json').write_text('[{')
    (own_tasks / 'test.json').write_text('[{"dialogue": ["a", "b"]}]')
    files = {split: f'{own_tasks}/{split}.json' for split in ('train', 'test')}
    pipeline.register_dialogue_tasks('broken', 'en', format='json', files=files)
    with pytest.raises(Exception, match=r'train\.json:1: not JSON'):
        examples('broken_retrieval_en_en', 'test')


def test_a_dataset_keeps_the_root_that_it_was_built_with(root, tmp_path):
    """It is read in threads of TensorFlow; its files must stay in place until then."""
    dataset = pipeline.get('xdailydialog_retrieval_de_de').source.batches('test')
    before = [batch['message'].numpy().tolist() for batch in dataset]
    with pipeline.bound(None, str(tmp_path)):
        assert [batch['message'].numpy().tolist() for batch in dataset] == before != []
    shutil.copytree(root, tmp_path / 'copy')
    with pipeline.bound(None, str(tmp_path / 'copy')):
        dataset = pipeline.get('xdailydialog_retrieval_de_de').source.batches('test')
        shutil.rmtree(tmp_path / 'copy')
        with pytest.raises(Exception, match=r'files of xdailydialog changed .* split .test.'):
            list(dataset)
