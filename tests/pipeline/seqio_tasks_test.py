"""A registry file as T5X's users have it: prepared as it stands, or refused in one line."""

import functools
import json
import textwrap

import mtg_files
import numpy as np
import own_task_file
import pytest
import seqio
import xtreme_files
from task_records import examples

from xlbench import metrics, pipeline
from xlbench.data import postprocess, prepared, tokenizers
from xlbench.prepare import mixtures
from xlbench.settings.blocks import Data
from xlbench.system import errors

# What such files hold: their own vocabulary, all kinds of sources, their own preprocessors,
# features that need not be there or end without eos, postprocessors, fields for these.
REGISTRY = """
    import functools

    import seqio
    import tensorflow as tf

    VOCABULARY = seqio.SentencePieceVocabulary(FOLDER + '/spiece.model', extra_ids=100)
    FEATURES = {
        'inputs': seqio.Feature(vocabulary=VOCABULARY, add_eos=False, required=False),
        'targets': seqio.Feature(vocabulary=VOCABULARY, add_eos=True),
    }


    def parse_tsv(dataset, names):
        def parse(line):
            cells = tf.io.decode_csv(line, [''] * len(names), field_delim='\\t')
            return dict(zip(names, cells))

        return dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE)


    @seqio.map_over_dataset
    def to_answer(example):
        return {
            'inputs': tf.strings.join(['question: ', example['question']]),
            'targets': example['answer'],
            'answers': tf.strings.split(example['answer'], ' '),
            'count': tf.strings.length(example['answer']),
            'weight': tf.constant(0.5),
        }


    def answers_of(text, example=None, is_target=False, lower=False):
        text = text.lower() if lower else text
        return [a.decode() for a in example['answers']] if is_target else text


    def any_right(targets, predictions):
        right = [p in t for t, p in zip(targets, predictions)]
        return {'any_right': 100 * sum(right) / len(right)}


    seqio.TaskRegistry.add(
        'trivia_v001',
        source=seqio.TextLineDataSource(
            {'train': FOLDER + '/train.tsv', 'validation': FOLDER + '/dev-*.tsv'},
            skip_header_lines=1,
        ),
        preprocessors=[
            functools.partial(parse_tsv, names=['question', 'answer']),
            to_answer,
            seqio.preprocessors.tokenize,
            seqio.CacheDatasetPlaceholder(),
            seqio.preprocessors.append_eos_after_trim,
        ],
        postprocess_fn=functools.partial(answers_of, lower=True),
        metric_fns=[any_right],
        output_features=FEATURES,
    )


    def lines(split, shuffle_files, seed=None):
        return tf.data.Dataset.from_tensor_slices({'targets': ['aß', 'b', 'c']})


    @seqio.map_over_dataset
    def same(example):
        return {'inputs': example['targets'], 'targets': example['targets']}


    BYTES = seqio.Feature(vocabulary=seqio.ByteVocabulary(), add_eos=True)
    seqio.TaskRegistry.add(
        'copy_bytes', seqio.FunctionDataSource(lines, splits=['train']), metric_fns=[],
        preprocessors=[same, seqio.preprocessors.tokenize, seqio.preprocessors.append_eos],
        output_features={'inputs': BYTES, 'targets': BYTES},
    )


    @seqio.map_over_dataset
    def words(example):
        text = tf.strings.reduce_join(example['tokens'], separator=' ')
        return {'inputs': VOCABULARY.encode_tf(text), 'targets': VOCABULARY.encode_tf(text)}


    seqio.TaskRegistry.add(
        'entities_copy',
        seqio.TfdsDataSource('wikiann/de:1.0.0', FOLDER + '/tfds', splits=['test', 'gone']),
        preprocessors=[words, seqio.preprocessors.append_eos],
        metric_fns=[], output_features=FEATURES,
    )
    seqio.MixtureRegistry.add('all_of_it', ['trivia_v001', 'entities_copy'], default_rate=1.0)


    def no_source(dataset, sequence_length):
        return dataset.take(sequence_length['inputs'])


    PASS, RANK = seqio.PassThroughVocabulary(9), seqio.Feature(VOCABULARY, rank=2)
    GONE = seqio.Feature(seqio.SentencePieceVocabulary(FOLDER + '/gone.model'))
    for name, change in {
        'no_inputs': {'output_features': {'targets': FEATURES['targets']}},
        'no_ids': {'output_features': FEATURES | {'targets': seqio.Feature(PASS, rank=1)}},
        'no_rank': {'output_features': FEATURES | {'inputs': RANK}},
        'no_lengths': {'preprocessors': [no_source]},
        'no_model': {'output_features': {'inputs': GONE, 'targets': GONE}},
        'no_file': {'source': seqio.TextLineDataSource({'train': FOLDER + '/gone.tsv'})},
        'no_split': {'source': seqio.TfdsDataSource('no_such/set:1.0.0', FOLDER, splits=['train'])},
    }.items():
        source = seqio.TextLineDataSource({'train': FOLDER + '/train.tsv'})
        usual = {'source': source, 'preprocessors': [], 'output_features': FEATURES}
        seqio.TaskRegistry.add(name, **usual | change)
"""


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    """The files that the registry reads, and the registry, by which the module finds its tasks."""
    folder = tmp_path_factory.mktemp('registry')
    mtg_files.write_vocabulary(folder, 'spiece.model')
    mtg_files.write_vocabulary(folder, 'other.model', vocab_size=340)
    (folder / 'sample.model').write_bytes((folder / 'other.model').read_bytes())
    for name, count in (('train', 5), ('dev-0', 2), ('dev-1', 2)):
        rows = [f'{mtg_files.sentence("de", i, 5)}\tDie Brücke {i}' for i in range(count)]
        (folder / f'{name}.tsv').write_text('\n'.join(['question\tanswer', *rows]) + '\n')
    for split in ('train', 'dev', 'test'):
        lines = (f'de:Frau\tO\nde:{split}:{i}\tB-PER\n' for i in range(4))
        xtreme_files.write(folder / 'wikiann' / 'de' / split, '\n'.join(lines))
    xtreme_files.built('wikiann/de', folder / 'tfds', folder / 'wikiann')
    text = textwrap.dedent(REGISTRY).replace('FOLDER', repr(str(folder)))
    (folder / 'my_registry.py').write_text(text)
    return folder


@pytest.fixture
def registry(made, monkeypatch):
    """`prepare` for tasks of the registry, which is named as one file."""
    monkeypatch.setenv('XLBENCH_TASKS', str(made / 'my_registry.py'))

    def run(*names, vocabulary=made / 'spiece.model', **kwargs):
        return mixtures.prepare(
            names, 'train', root=str(made), vocabulary=str(vocabulary), **kwargs
        )

    with own_task_file.forgotten():
        yield run
    pipeline.use_root(None)
    postprocess._of_task.cache_clear()


def test_it_is_prepared_as_seqio_has_it(made, registry, capsys):
    names = 'trivia_v001:train', 'trivia_v001:validation', 'entities_copy:test'
    train, dev, entities = registry(*names)
    model = made / 'spiece.model'
    tokenizer = tokenizers.load(str(model), str(made))
    for one, count, files in (
        (train, 5, ['train.tsv']),
        (dev, 4, ['dev-0.tsv', 'dev-1.tsv']),
        (entities, 4, None),
    ):
        task, split = one.job.task, one.job.split
        assert one.manifest['vocabulary'] == tokenizer.manifest()
        assert one.manifest['vocabulary']['sha256'] == tokenizer.sha256
        paths = [entry['path'] for entry in one.manifest['inputs']]
        assert paths[-2:] == ['spiece.model', 'my_registry.py']
        assert files is None or paths[:-2] == files
        found = prepared.open_task(str(made), str(model), task, split)
        expected = examples(task, split)
        assert len(found) == len(expected) == count
        for ours, theirs in zip(found, expected, strict=True):
            for side in ('inputs', 'targets'):
                np.testing.assert_array_equal(ours[side], theirs[side])
                text = theirs.get(f'{side}_pretokenized')
                text = text.decode() if text else tokenizer.decode(theirs[side])
                assert ours[f'{side}_pretokenized'] == text
    assert any('wikiann-test' in entry['path'] for entry in entities.manifest['inputs'])
    assert train.manifest['postprocessor'] and not entities.manifest['postprocessor']
    assert (found[0]['inputs'][-1] == 1, found[0]['targets'][-1] == 1) == (False, True)
    assert all(done.fresh for done in registry(*names))

    # What it is made from has changed: its source, a further file of it, its vocabulary.
    (made / 'train.tsv').write_text('question\tanswer\nwer\twer\n')
    (made / 'dev-2.tsv').write_text('question\tanswer\nwer\twer\n')
    seqio.utils._list_files_for_glob.cache_clear()  # As in another process.
    train, dev, entities = registry(*names)
    assert [one.fresh for one in (train, dev, entities)] == [False, False, True]
    assert [one.manifest['num_examples'] for one in (train, dev)] == [1, 5]
    before = model.read_bytes()
    mtg_files.write_vocabulary(made, 'spiece.model', vocab_size=340)
    with pytest.raises(prepared.NotPrepared, match=r'its input spiece.model has changed'):
        prepared.open_task(str(made), str(model), 'trivia_v001', 'train')
    model.write_bytes(before)


def test_a_postprocessor_gets_what_seqio_gives_it(made, registry):
    (done,) = registry('trivia_v001:validation')
    found = prepared.open_task(str(made), str(made / 'spiece.model'), *done.job)
    records = list(found)
    expected = examples('trivia_v001', 'validation')
    for record, theirs in zip(records, expected, strict=True):
        ours = postprocess.example(record)
        assert ours.keys() == theirs.keys()
        for name, value in theirs.items():
            np.testing.assert_array_equal(ours[name], value, name)
            assert np.asarray(ours[name]).dtype == np.asarray(value).dtype or name == 'answers'
    process = postprocess.Postprocess(found)
    targets, predictions = process(records, [['DIE', 'x']] * len(records))
    assert process and targets[0] == ['Die', 'Brücke', '0']
    assert predictions[0] == ['die', 'x']

    task = pipeline.get('trivia_v001')
    task._postprocess_fn = lambda text, example, is_target: text / 2
    postprocess._of_task.cache_clear()
    with pytest.raises(errors.UserError, match=r"trivia_v001 ended on the target 'Die Br.*TypeErr"):
        postprocess.Postprocess(found)(records, [['x']] * len(records))
    task._postprocess_fn = None
    postprocess._of_task.cache_clear()
    with pytest.raises(errors.UserError, match='has none now'):
        postprocess.Postprocess(found)
    with pytest.raises(errors.UserError, match=r'postprocessor is broken .KeyError.'):
        postprocess.example(records[0] | {'example': json.dumps({'x': {'dtype': 'ragged'}})})
    with pytest.raises(errors.UserError, match=r'is broken .ValueError.'):
        postprocess.example(records[0] | {'example': '{"x": {"values": [1], "dtype": "V9"}}'})


def test_a_run_trains_and_scores_it(made, registry, tmp_path, monkeypatch):
    """With its own vocabulary, postprocessor and metric; prepared by a process of its own."""
    import tiny

    from xlbench import train

    config = tiny.brief_config(made)
    config.data = dict(root=str(made), vocabulary=str(made / 'spiece.model'), sample=False)
    config.stages.stage1.update(mixture='trivia_v001', split='train', num_steps=2)
    config.batches.lengths = dict(inputs=32, targets=16)
    for block in config.evals.values():
        block.update(tasks=('trivia_v001',), split='validation', lengths=config.batches.lengths)
    config.evals.dev.every = 2
    config.baselines = ('copy_input',)
    monkeypatch.chdir(made)
    train.train(config, str(tmp_path / 'run'))
    [scored, copied] = sorted((tmp_path / 'run' / 'eval').rglob('trivia_v001/metrics.json'))
    for path in (scored, copied):
        assert set(json.loads(path.read_text())['scores']) >= {'any_right'}
    about = json.loads((tmp_path / 'run' / 'config.json').read_text())
    model = made / 'spiece.model'
    assert about['vocabulary']['sha256'] == tokenizers.load(str(model), '').sha256

    # A word of the answer is right: its words are what the postprocessor makes of a target.
    task = prepared.open_task(str(made), str(model), 'trivia_v001', 'validation')
    suite = metrics.Suite(task.name, task.manifest['metrics'])
    assert pipeline.registry.user_task_file('trivia_v001') == str(made / 'my_registry.py')
    records = task.read(range(len(task)))
    n_best = [['0']] * len(records)  # Answers are numbered, in each of several files.
    share = np.mean([record['targets_pretokenized'].endswith(' 0') for record in records])
    compared = postprocess.Postprocess(task)(records, n_best)
    assert suite.score(*compared)[0] == {'any_right': 100 * share}
    monkeypatch.setenv('XLBENCH_TASKS', str(tmp_path))
    postprocess._of_task.cache_clear()
    seqio.TaskRegistry.remove('trivia_v001')
    with pytest.raises(errors.UserError, match='its task file is needed to score it: unknown task'):
        postprocess.Postprocess(task)


def test_what_a_function_reads_is_read_again(made, registry, capsys):
    (done,) = registry('copy_bytes', vocabulary='bytes')
    assert done.manifest['unseen'] and done.manifest['vocabulary']['name'] == 'bytes'
    found = prepared.open_task(str(made), 'bytes', 'copy_bytes', 'train')
    assert found[0]['inputs'].tolist() == [ord('a') + 3, 0xC3 + 3, 0x9F + 3, 1]
    tokenizer = tokenizers.load('bytes', '')
    assert tokenizer.decode(found[0]['inputs']) == found[0]['inputs_pretokenized'] == 'aß'
    np.testing.assert_array_equal(found[0]['inputs'][:-1], tokenizer.encode('aß'))
    assert not registry('copy_bytes', vocabulary='bytes')[0].fresh
    assert 'is prepared again: a function reads its data' in capsys.readouterr().out
    data = Data(root=str(made), vocabulary='bytes', sample=False)
    prepared.ensure([('copy_bytes', 'train')], data)
    assert 'a function reads the data of copy_bytes:train; the earlier' in capsys.readouterr().out


@pytest.mark.parametrize(
    ('name', 'vocabulary', 'message'),
    [
        ('trivia_v001', 'sample', 'SentencePiece model /.*spiece.model, and vocabulary .sample.'),
        ('trivia_v001', 'bytes', 'choose --vocabulary=/.*spiece.model, in a config data'),
        ('copy_bytes', 'sample', r'by bytes .ByteVocabulary., .*choose --vocabulary=bytes'),
        ('no_inputs', None, r"no_inputs has no feature 'inputs' \(it has targets\)"),
        ('no_ids', None, 'targets of task no_ids are encoded by PassThroughVocabulary'),
        ('no_rank', None, "feature 'inputs' of task no_rank has rank 2 and type int32"),
        ('no_lengths', None, r'my_registry.py:\d+: task no_lengths: TypeError'),
        ('no_model', None, 'no_model reads its vocabulary from /.*gone.model, which is not there'),
        ('no_file', None, 'there is no file /.*gone.tsv .task no_file, split .train.'),
        ('no_split', None, 'task no_split cannot find its TensorFlow Datasets'),
        ('entities_copy:gone', None, 'task entities_copy cannot find .*gone'),
    ],
)
def test_what_cannot_be_is_one_line(made, registry, name, vocabulary, message):
    with pytest.raises(errors.UserError, match=message) as caught:
        registry(name, vocabulary=vocabulary or made / 'spiece.model')
    assert '\n' not in str(caught.value)


def test_no_vocabulary_is_trained_on_what_has_one(made, registry):
    for name, brought in (('trivia_v001', r'/.*spiece.model'), ('copy_bytes', 'bytes')):
        with pytest.raises(errors.UserError, match=f'brings its own .*--vocabulary={brought}, in'):
            mixtures.make_vocabulary(name, 'train', f'{made}/new.model', root=str(made), size=300)


def test_rates_count_what_a_source_does_not(made, registry):
    registry('trivia_v001')
    mixture = pipeline.add_mixture('counted', ['trivia_v001'], ['proportional'])[0]
    count = len(examples('trivia_v001', 'validation'))
    assert pipeline.mixture_rates(mixture, 'validation') == {'trivia_v001': count}
    seqio.MixtureRegistry.remove('counted')
    rate = functools.partial(seqio.mixing_rate_num_examples, maximum=1000)
    of_seqio = seqio.MixtureRegistry.add('counted', ['trivia_v001'], default_rate=rate)
    count = len(examples('trivia_v001', 'train'))  # Whatever the split, as in SeqIO.
    assert pipeline.mixture_rates(of_seqio, 'validation') == {'trivia_v001': count}
    assert 'num_input_examples' not in vars(seqio.TaskRegistry.get('trivia_v001'))
    seqio.MixtureRegistry.remove('counted')
