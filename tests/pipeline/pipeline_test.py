"""Tests of xlbench/pipeline."""

import contextvars
import json
import sys
import textwrap
import types
from concurrent import futures

import mtg_files
import numpy as np
import own_task_file
import pyarrow
import pytest
import seqio
import tensorflow as tf
from nightly import nightly
from pyarrow import ipc, parquet

from xlbench import pipeline
from xlbench.benchmarks import task_files
from xlbench.data import tokenizers
from xlbench.system import errors


@pytest.fixture(scope='module', autouse=True)
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp('root')
    mtg_files.write_mtg(folder, {'rough_train': 9, 'train': 6, 'validation': 4}, tasks=('qg', 'sg'))
    for lang in ('de', 'fr'):  # Other sizes, so that rates differ.
        for side in ('src', 'trg'):
            path = folder / 'mtg' / 'qg' / lang / f'train.{side}'
            path.write_text(path.read_text() * 4)
    mtg_files.write_vocabulary(folder)
    pipeline.use_vocabulary('sample', str(folder))
    yield folder
    pipeline.use_root(None)


@pytest.fixture
def own_tasks(tmp_path, monkeypatch):
    """Puts task files into a folder that XLBENCH_TASKS names, and forgets them afterwards."""
    monkeypatch.setenv('XLBENCH_TASKS', str(tmp_path))

    def add(word, text):
        (tmp_path / f'{word}.py').write_text(textwrap.dedent(text))

    with own_task_file.forgotten():
        yield add


def examples(task, split, **kwargs):
    dataset = task.get_dataset(sequence_length=None, split=split, shuffle=False, **kwargs)
    return list(dataset.as_numpy_iterator())


def test_vocabulary_is_the_tokenizer():
    vocabulary, tokenizer = pipeline.vocabulary(), pipeline.tokenizer()
    assert vocabulary is pipeline.vocabulary()
    assert (vocabulary.pad_id, vocabulary.eos_id, vocabulary.unk_id) == (0, 1, 2)
    assert vocabulary.vocab_size == tokenizer.vocab_size
    text = 'die alte Brücke'
    ids = tokenizer.encode(text).tolist()
    assert vocabulary.encode(text) == ids
    assert vocabulary.encode_tf(tf.constant(text)).numpy().tolist() == ids
    assert vocabulary.decode([*ids, 1, 5, 6]) == text
    decoded = vocabulary.decode_tf(tf.constant([[*ids, 1, 5], [1, 5, *ids]]))
    assert [value.decode() for value in decoded.numpy()] == [text, '']
    assert 'sample' in str(vocabulary)
    assert pipeline.vocabulary('targets') is not vocabulary
    features = pipeline.text_features()
    assert [*features] == ['inputs', 'targets']
    assert all(f.vocabulary is pipeline.vocabulary(name) for name, f in features.items())
    assert vocabulary.bos_id is None


def test_vocabulary_is_bound_late(root):
    task = pipeline.get('mtg_qg_de_de')
    first = examples(task, 'validation')[0]['targets']
    mtg_files.write_vocabulary(root, 'other.model', vocab_size=330)
    pipeline.use_vocabulary(str(root / 'other.model'))
    second = examples(task, 'validation')[0]['targets']
    pipeline.use_vocabulary('sample')
    assert first.tolist() != second.tolist()
    with pytest.raises(errors.UserError, match='no vocabulary is chosen'):
        contextvars.Context().run(pipeline.tokenizer)


def test_a_binding_ends_with_its_block_and_is_of_one_thread(root, tmp_path):
    outer, policy = pipeline.tokenizer(), pipeline.sources.readers.BadRecords()
    with pipeline.bound(None, str(tmp_path)), pipeline.bad_records(policy):
        assert (pipeline.root(), pipeline.tokenizer().tags) == (str(tmp_path), '')
        assert pipeline.binding.policy() is policy
        with pytest.raises(errors.UserError, match='there is no'), pipeline.bound('sample', 'x'):
            pass
        with futures.ThreadPoolExecutor(1) as thread:  # Where nothing was bound.
            assert thread.submit(pipeline.root).result() != str(tmp_path)
            with pytest.raises(errors.UserError, match='no vocabulary is chosen'):
                thread.submit(pipeline.tokenizer).result()
    assert (pipeline.root(), pipeline.tokenizer()) == (str(root), outer)
    assert pipeline.binding.policy() is not policy


def test_tag_only_where_the_model_reads_it(monkeypatch):
    dataset = tf.data.Dataset.from_tensors({'inputs': 'a'})
    (tagged,) = pipeline.tag_target_language(dataset, lang='de').as_numpy_iterator()
    assert tagged['inputs'] == b'<de> a'
    monkeypatch.setattr(pipeline.tokenizer(), 'tags', 'own', raising=False)
    (plain,) = pipeline.tag_target_language(dataset, lang='de').as_numpy_iterator()
    assert plain['inputs'] == b'a'


def test_preprocessors_on_one_example_equal_those_on_a_batch():
    fields = {'id': ['1', '2'], 'passage': ['p', 'qq'], 'answer': ['a', 'b'], 'target': ['t', 'u']}
    batch = tf.data.Dataset.from_tensors(fields)
    arguments = dict(inputs='{passage} <answer> {answer}', targets='{target}', keep=('id',))
    (whole,) = pipeline.format_text(batch, **arguments).as_numpy_iterator()
    single = list(pipeline.format_text(batch.unbatch(), **arguments).as_numpy_iterator())
    assert whole['inputs'].tolist() == [b'p <answer> a', b'qq <answer> b']
    for name in ('inputs', 'targets', 'id'):
        assert [example[name] for example in single] == whole[name].tolist()
    assert set(whole) == {'inputs', 'targets', 'id'}


def test_retrieval_features_are_inputs_on_both_sides(root):
    inputs, targets = pipeline.vocabulary('inputs'), pipeline.vocabulary('targets')
    found = pipeline.retrieval_features()
    assert [f.vocabulary for f in found.values()] == [inputs, inputs]
    assert all(feature.add_eos for feature in found.values())
    task = pipeline.get('mtg_sg_de_de')
    assert pipeline.view(task) == 'generation'
    both = task.replace(
        name='both',
        output_features=found,
        preprocessors=pipeline.retrieval_preprocessors('{story}', '{target}', ['story']),
    )
    assert pipeline.view(both) == 'retrieval'
    first, ours = (examples(t, 'validation')[0] for t in (task, both))
    assert ours['inputs_pretokenized'] == ours['story']
    assert first['inputs_pretokenized'] == b'<de> ' + ours['story']
    assert targets.encode(first['targets_pretokenized'].decode()) == ours['targets'][:-1].tolist()


def test_records_left_out_are_counted():
    def read(split, *paths):
        yield {'a': 'x'}
        yield from [pipeline.sources.readers.LeftOut('pairs of one kind')] * 2
        yield pipeline.sources.readers.LeftOut('pairs of another')

    source = pipeline.RecordSource(read, lambda split: [], ['train'], ['a'])
    policy = pipeline.sources.readers.BadRecords()
    with pipeline.bad_records(policy):
        assert len(list(source.batches('train'))) == 1
    assert policy.left_out == {'pairs of one kind': 2, 'pairs of another': 1}
    assert policy.skipped == []


def test_source_reads_in_chunks(root, monkeypatch):
    monkeypatch.setattr(pipeline.sources, 'CHUNK', 4)
    source = pipeline.get('mtg_sg_en_fr').source
    sizes = [len(batch['story']) for batch in source.batches('rough_train').as_numpy_iterator()]
    assert sizes == [4, 4, 1]
    stories = [e['story'] for e in source.get_dataset('rough_train', shuffle=False)]
    lines = (root / 'mtg/sg/en/rough_train.src').read_text().splitlines()
    assert [story.numpy().decode() for story in stories] == lines
    assert source.num_input_examples('rough_train') == 9
    assert (source.source_lang, source.target_lang) == ('en', 'fr')


def test_missing_file(root):
    task = pipeline.get('mtg_tg_en_de')
    with pytest.raises(errors.UserError) as caught:
        task.get_dataset(sequence_length=None, split='train', shuffle=False)
    message = str(caught.value)
    for part in ('mtg/tg/en/train.src', "split 'train'", 'XLBENCH_DATA', 'XLBENCH_MTG_FILES'):
        assert part in message


def test_bad_record_stops_a_dataset(root, tmp_path):
    mtg_files.write_mtg(tmp_path, {'train': 3}, tasks=('sg',))
    path = tmp_path / 'mtg/sg/en/train.trg'
    path.write_text('a\n\nb\n')
    task = pipeline.get('mtg_sg_en_en')
    pipeline.use_root(str(tmp_path))
    try:
        with pytest.raises(tf.errors.OpError, match=r'train.trg:2: target is empty'):
            examples(task, 'train', try_in_mem_cache=False)
        policy = pipeline.sources.readers.BadRecords(lambda: True)
        with pipeline.bad_records(policy):
            assert len(examples(task, 'train', try_in_mem_cache=False)) == 2
        assert [bad.line for bad in policy.skipped] == [2]
    finally:
        pipeline.use_root(str(root))


def test_rates():
    def rates(name, split='train'):
        return pipeline.mixture_rates(pipeline.get(name), split)

    sizes = {'mtg_qg_en_en': 6, 'mtg_qg_de_de': 24, 'mtg_qg_fr_fr': 24, 'mtg_qg_es_es': 6}
    assert rates('mtg_multi_qg') == sizes
    assert set(rates('mtg_multi_qg', 'rough_train').values()) == {9}
    assert set(rates('mtg_multi_qg.equal').values()) == {1}
    assert rates('mtg_multi_qg.temperature') == pytest.approx(
        {name: size**0.5 for name, size in sizes.items()}
    )
    assert rates('mtg_multi_qg.capped') == sizes
    task = pipeline.get('mtg_qg_de_de')
    assert pipeline.mixing_rate('capped', maximum=10)(task) == 10
    assert pipeline.mixing_rate('temperature', temperature=3)(task) == pytest.approx(24 ** (1 / 3))
    with pytest.raises(errors.UserError, match=r'unknown mixing rate .equals.; nearest: equal'):
        pipeline.mixing_rate('equals')


@pytest.mark.parametrize(
    'name, rates',
    [('mtg_multi_qg', (0.1, 0.4, 0.4, 0.1)), *nightly(('mtg_multi_qg.equal', (0.25,) * 4))],
)
def test_a_mixture_draws_at_its_rates(name, rates):
    """SeqIO itself, on the split that is asked for; a small task is repeated for 'equal'."""
    lengths = {'inputs': 64, 'targets': 32}
    converter = seqio.EncDecFeatureConverter(pack=False)
    dataset = seqio.get_dataset(
        pipeline.get(name), lengths, converter, 'train', num_epochs=None, seed=1
    )
    rows = [example['encoder_input_tokens'] for example in dataset.take(400).as_numpy_iterator()]
    tags = [text[:4] for text in pipeline.tokenizer().decode_batch(rows)]
    drawn = [tags.count(f'<{lang}>') / 400 for lang in ('en', 'de', 'fr', 'es')]
    assert drawn == pytest.approx(rates, abs=0.06)


def test_names():
    with pytest.raises(errors.UserError, match=r'nearest: mtg_qg_en_de'):
        pipeline.get('mtg_qg_en_dd')
    with pytest.raises(errors.UserError, match=r'unknown task or mixture .*mtg_multi_qg'):
        pipeline.get('mtgg_multi_qg')
    with pytest.raises(errors.UserError, match='mtg_multi_qg is a mixture'):
        pipeline.described('mtg_multi_qg')
    for name in ('../mtg', '', 'a/b', '_x'):
        with pytest.raises(errors.UserError, match='is not a name'):
            pipeline.get(name)


def test_own_jsonl_task(own_tasks, tmp_path, root):
    path = tmp_path / 'news.jsonl'
    records = ({'text': f'die Leute {i}', 'headline': 'Leute', 'nr': f'n{i}'} for i in range(3))
    path.write_text(''.join(json.dumps(record) + '\n' for record in records))
    own_tasks(
        'news',
        f"""
        from xlbench import pipeline

        pipeline.register_text_task(
            'news_title_de', files={{'train': {str(path)!r}}}, format='jsonl', lang='de',
            fields={{'inputs': 'text', 'targets': 'headline', 'id': 'nr'}},
        )
        pipeline.add_mixture('news_all', ['news_title_de'])
        """,
    )
    task = pipeline.get('news_title_de')
    assert task.num_input_examples('train') == 3
    example = examples(task, 'train')[1]
    assert example['inputs_pretokenized'] == b'<de> die Leute 1'
    assert example['id'] == b'n1'
    assert example['targets'].tolist() == [*pipeline.tokenizer().encode('Leute'), 1]
    assert 'MultilingualRouge' in [type(metric).__name__ for metric in task.metric_fns]
    assert pipeline.registry.user_task_file('news_title_de') == str(tmp_path / 'news.py')
    assert pipeline.registry.user_task_file('mtg_qg_de_de') is None
    assert pipeline.get('news_title_de') is task  # Imported once.


def test_own_tasks_of_any_format(own_tasks, tmp_path, monkeypatch):
    """A TSV as pandas writes it, several Parquet files, a saved folder, a split of the hub."""
    pairs = [('er sagte "ja"', 'Ja'), ('a\tb', 'zwei\nZeilen')]
    lines = 'text\ttitle\n"er sagte ""ja"""\tJa\n"a\tb"\t"zwei\nZeilen"\n'
    (tmp_path / 'pandas.tsv').write_text(lines)
    (tmp_path / 'saved').mkdir()
    paths = [str(tmp_path / f'saved/data-0000{i}-of-00002.arrow') for i in (0, 1)]
    for i, (text, title) in enumerate(pairs):
        table = pyarrow.table({'text': [text], 'title': [title]})
        parquet.write_table(table, tmp_path / f'{i}.parquet')
        with pyarrow.OSFile(paths[i], 'wb') as file, ipc.new_stream(file, table.schema) as out:
            out.write_table(table)
    (tmp_path / 'saved' / 'state.json').write_text('{}')

    class Read(list):
        """What datasets.load_dataset gives, as far as it is used."""

        cache_files = tuple({'filename': path} for path in paths)

    asked = []
    module = types.ModuleType('datasets')
    module.load_dataset = lambda *args, **kwargs: asked.append((args, kwargs)) or Read(pairs)
    monkeypatch.setitem(sys.modules, 'datasets', module)
    own_tasks(
        'any',
        f"""
        from xlbench import pipeline

        pipeline.register_text_task(
            'any_x',
            files={{
                'pandas': '{tmp_path}/pandas.tsv',
                'parquet': '{tmp_path}/?.parquet',
                'saved': '{tmp_path}/saved',
                'hub': pipeline.Hub('some/corpus', 'train', 'de'),
            }},
            fields={{'inputs': 'text', 'targets': 'title'}},
        )
        """,
    )
    task = pipeline.get('any_x')
    for split in task.splits:
        read = [
            tuple(e[f'{name}_pretokenized'].decode() for name in ('inputs', 'targets'))
            for e in examples(task, split)
        ]
        assert read == pairs and task.num_input_examples(split) == 2
    assert asked[0] == (('some/corpus', 'de'), {'split': 'train', 'revision': None})
    module.load_dataset = lambda *args, **kwargs: Read(pairs[:1])  # As of 'train[:50%]'.
    with pytest.raises(errors.UserError, match='name a whole split'):
        task.source.paths('hub')
    monkeypatch.setitem(sys.modules, 'datasets', None)
    with pytest.raises(errors.UserError, match='needs the package datasets'):
        task.source.paths('hub')


def test_rates_and_paths_of_other_types(tmp_path):
    for name, value in (('temperature', 0), ('temperature', '2'), ('maximum', [1])):
        with pytest.raises(errors.UserError, match=f'the {name} of a mixing rate is .*above 0'):
            pipeline.mixing_rate('temperature', **{name: value})
    # A path is as good as its text, a tuple as a list.
    task = pipeline.register_classification_task(
        'kinds_y', files={'train': tmp_path / 'x.jsonl'}, labels=('a', 'b'), text=['t']
    )
    seqio.TaskRegistry.remove(task.name)


def test_own_tasks_folder_must_exist(monkeypatch, tmp_path):
    monkeypatch.setenv('XLBENCH_TASKS', str(tmp_path / 'gone'))
    with pytest.raises(errors.UserError, match='is not a folder of task files'):
        pipeline.get('mtg_qg_en_en')


def test_a_mistake_in_a_task_file_is_one_line_with_its_place(own_tasks, tmp_path):
    """Whatever kind of mistake it is."""
    mistakes = {
        'wrong': ('import os\n\nos.no_such_thing()\n', ':3: AttributeError: module .os. has no'),
        'half': ('x = 1\nif x\n', ":2: SyntaxError: expected ':'"),
        'missing': ('import no_such_module\n', ':1: ModuleNotFoundError: No module named'),
        'mixed': (
            "from xlbench import pipeline\n\npipeline.add_mixture('mixed_all', ['mtg_qg_de_dd'])\n",
            r":3: unknown task of mixture mixed_all 'mtg_qg_de_dd'",
        ),
        'seqs': (
            "import seqio\nseqio.MixtureRegistry.add(\n    'seqs_all', [('no_such_task', 1)])\n",
            ':2: ValueError: .*no_such_task',
        ),
    }
    for word, (text, message) in mistakes.items():
        (tmp_path / f'{word}.py').write_text(text)
        for _ in range(2):  # The second time as well: nothing is half there.
            with pytest.raises(errors.UserError, match=f'{word}.py{message}') as caught:
                pipeline.get(f'{word}_x')
            assert '\n' not in str(caught.value)


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'tasks': 'mtg_qg_en_en'}, r"tasks is 'mtg_qg_en_en'; give a list of names"),
        ({'tasks': []}, 'mixture mix_x has no tasks'),
        ({'tasks': None}, 'tasks is None; give a list'),
        ({'tasks': ['mtg_qg_en_en', 'mtg_qg_en_e']}, 'unknown task .*nearest: .*mtg_qg_en_en'),
        ({'tasks': [('mtg_qg_en_en', 1.0)]}, 'unknown task of mixture mix_x'),
        ({'tasks': ['mtg_qg_en_en'] * 2}, 'has task mtg_qg_en_en twice'),
        ({'rates': 'equal'}, r"rates is 'equal'; give a list of names, such as \['equal'\]"),
        ({'rates': ()}, 'mixture mix_x has no rates'),
        ({'rates': ['equl']}, "unknown mixing rate 'equl'; nearest: equal"),
        ({'name': 'mtg_multi_qg'}, 'mixture mtg_multi_qg is there already'),
    ],
)
def test_mistakes_in_own_mixtures(change, message):
    pipeline.get('mtg_multi_qg')
    arguments = {'name': 'mix_x', 'tasks': ('mtg_qg_en_en',), 'rates': ['proportional']}
    with pytest.raises(errors.UserError, match=message):
        pipeline.add_mixture(**(arguments | change))


def test_no_task_file_hides_another(own_tasks, tmp_path, monkeypatch):
    """Neither does one's own stand for one that comes along, nor is it passed over."""
    text = 'raise RuntimeError("imported")\n'
    for folder in (tmp_path, tmp_path / 'here' / 'tasks'):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / 'mtg.py').write_text(text)
        hidden = 'mtg.py has the name of a task file that comes'
        with pytest.raises(errors.UserError, match=hidden):
            pipeline.get('mtg_qg_en_en')
        (folder / 'mtg.py').unlink()
        monkeypatch.delenv('XLBENCH_TASKS', raising=False)
        (tmp_path / 'here').mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / 'here')
    # Another clone has the very same file.
    ours = task_files.REPOSITORY / 'mtg.py'
    (tmp_path / 'here' / 'tasks' / 'mtg.py').write_bytes(ours.read_bytes())
    assert pipeline.get('mtg_qg_en_en').name == 'mtg_qg_en_en'


def test_a_registry_of_any_name(own_tasks, tmp_path, monkeypatch):
    """As T5X's users have them: one file, whose tasks are called as they like."""
    text = """
        import seqio
        from xlbench import pipeline

        for name in ('wmt_de', 'summaries'):
            source = seqio.TextLineDataSource({'train': 'x.tsv'})
            seqio.TaskRegistry.add(name, source, pipeline.text_features(), preprocessors=[])
        """
    own_tasks('my_registry', text)
    (tmp_path / 'foreign.py').write_text('raise RuntimeError("no file of tasks")\n')
    assert pipeline.get('wmt_de').splits == ('train',)
    path = str(tmp_path / 'my_registry.py')
    files = {pipeline.registry.user_task_file(name) for name in ('summaries', 'wmt_de')}
    assert files == {path}
    for name in ('wmt_de', 'summaries'):
        seqio.TaskRegistry.remove(name)
    sys.modules.pop('xlbench_user_tasks.my_registry')
    monkeypatch.setenv('XLBENCH_TASKS', path)
    assert pipeline.get('summaries').name == 'summaries'
    monkeypatch.setenv('XLBENCH_TASKS', str(tmp_path / 'registry.txt'))
    with pytest.raises(errors.UserError, match='not a folder of task files, nor one of them'):
        pipeline.get('summaries')


def test_ids_of_a_tokenizer_json(root, tmp_path):
    """A vocabulary that is no SentencePiece model goes through the same pipeline."""
    import tokenizer_files

    folder = tokenizer_files.write_hugging_face(tmp_path / 'hf')
    tokenizer = pipeline.use_vocabulary(str(folder))
    try:
        assert isinstance(tokenizer, tokenizers.HuggingFaceTokenizer)
        first = examples(pipeline.get('mtg_sg_en_de'), 'validation')[0]
        text = first['inputs_pretokenized'].decode()
        np.testing.assert_array_equal(first['inputs'], [*tokenizer.encode(text), 2])
    finally:
        pipeline.use_vocabulary('sample')
