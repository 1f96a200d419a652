"""The benchmarks' official files as data sets of TFDS: the same examples as our tasks read."""

import json

import mtg_files
import pytest
import reply_files
import tensorflow_datasets as tfds

from xlbench import pipeline
from xlbench.benchmarks import FEWSHOT
from xlbench.system import errors
from xlbench.tasks import tfds_builders


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    """Files of all four benchmarks; of fewshot a text task and a tagged one."""
    folder = tmp_path_factory.mktemp('root')
    mtg_files.write_mtg(folder, {'rough_train': 5, 'validation': 3}, tasks=('qg',))
    reply_files.write_mrs(folder, {'train': (2, 3), 'valid': (2,)}, langs=('de',))
    dialogues = [
        {'dialogue': f'Ann: Hi {i}!\r\nBen: Bye.', 'summary': f'Ann {i}.', 'summary_de': f'A{i}.'}
        for i in range(3)
    ]
    for path, text in {
        'clidsum/XSAMSum/test.json': json.dumps(dialogues),
        'fewshot/pawsx/de/dev_2k.tsv': 'id\tsentence1\tsentence2\tlabel\n1\tEins.\tZwei.\t0\n',
        'fewshot/udpos/test-de.tsv': 'Ja\tINTJ\n!\tPUNCT\n\nNein\tINTJ\n',
    }.items():
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(text)
    return folder


def texts(value):
    """Bytes of any nesting as texts."""
    if isinstance(value, dict):
        return {key: texts(inner) for key, inner in value.items()}
    return value.decode() if isinstance(value, bytes) else [x.decode() for x in value]


def loaded(name, root, folder):
    made = tfds.load(name, data_dir=folder, **tfds_builders.reading(str(root)))
    return {split: list(map(texts, tfds.as_numpy(dataset))) for split, dataset in made.items()}


@pytest.mark.parametrize(
    ('name', 'task', 'renamed', 'sizes'),
    [
        ('xlbench_mtg/qg_en_de', 'mtg_qg_en_de', {}, {'rough_train': 5, 'validation': 3}),
        (
            'xlbench_mrs/de',
            'mrs_retrieval_de_de',
            {},
            {'train': 5, 'validation': 2, 'responses': 5},
        ),
        (
            'xlbench_clidsum/xsamsum_en_de',
            'clidsum_xsamsum_en_de',
            {'inputs': 'dialogue', 'targets': 'summary'},
            {'test': 3},
        ),
        ('xlbench_fewshot/pawsx_de', 'fewshot_pawsx_de_de', {}, {'validation': 1}),
        ('xlbench_fewshot/udpos_de', 'fewshot_udpos_de_de', {}, {'test': 2}),
    ],
)
def test_examples_are_those_of_our_tasks(root, tmp_path, name, task, renamed, sizes):
    made = loaded(name, root, tmp_path)
    assert {split: len(rows) for split, rows in made.items()} == sizes
    source = pipeline.get(task).source
    for split, rows in made.items():
        with pipeline.bound(None, str(root)):
            dataset = source.get_dataset(split, shuffle=False)
            expected = [texts(row) for row in dataset.as_numpy_iterator()]
        expected = [{renamed.get(key, key): x for key, x in row.items()} for row in expected]
        joined = [
            {key: ' '.join(x) if isinstance(x, list) else x for key, x in row.items()}
            for row in rows
        ]
        assert joined == expected
    if task == 'fewshot_udpos_de_de':
        assert made['test'][0]['tags'] == ['INTJ', 'PUNCT']


def test_the_four_benchmarks_are_there():
    builders = (
        tfds_builders.XlbenchMtg,
        tfds_builders.XlbenchMrs,
        tfds_builders.XlbenchClidsum,
        tfds_builders.XlbenchFewshot,
    )
    assert [len(b.builder_configs) for b in builders] == [48, 10, 7, len(FEWSHOT.task_names())]
    assert {builder.name for builder in builders} <= set(tfds.list_builders())


def test_a_file_that_is_missing_is_one_line(root, tmp_path):
    with pytest.raises(errors.UserError, match=r'there is no file .*rough_train.src .*data root'):
        loaded('xlbench_mtg/sg_en_en', root, tmp_path)
