"""The preparation on engines that run jobs elsewhere: Beam's local runner, if Beam is there."""

import functools
import os
import shutil
import subprocess

import far_engine
import mtg_files
import own_task_file
import pytest
import reply_files
import seqio
import warm
from nightly import nightly
from put_files import damage, tree

from xlbench import pipeline
from xlbench.data import prepared
from xlbench.prepare import (
    __main__ as command,
    distributed,
    examples as examples_lib,
    mixtures,
)
from xlbench.system import errors

SHARD_EXAMPLES = 4


def need_beam():
    reason = "Beam is missing: .venv/bin/python -m uv pip install --editable '.[beam]'"
    pytest.importorskip('apache_beam', reason=reason)


@pytest.fixture(params=['far', *nightly('beam')])
def engine(request, root):
    if request.param == 'far':
        return far_engine.FarEngine()
    need_beam()
    from xlbench.prepare.beam import Beam

    return Beam([], root / 'prepared')


@pytest.fixture(scope='module')
def vocabulary_file(tmp_path_factory):
    return mtg_files.write_vocabulary(tmp_path_factory.mktemp('vocabulary'))


@pytest.fixture
def root(tmp_path, vocabulary_file, monkeypatch):
    """Three benchmarks whose tasks have several shards of several chunks."""
    folder = tmp_path / 'root'
    mtg_files.write_mtg(folder, {'train': 11, 'validation': 5}, tasks=('qg',))
    reply_files.write_mrs(folder, {'train': (4, 0, 7, 2)}, langs=('de',))
    place = folder / 'fewshot'
    for name in ('udpos', 'mldoc'):
        (place / name).mkdir(parents=True)
    for part, words in (('a', 3), ('b', 6)):
        sentences = (
            '\n'.join(f'{word}\tNOUN' for word in mtg_files.sentence('de', seed, words).split())
            for seed in range(5)
        )
        (place / 'udpos' / f'train-{part}.tsv').write_text('\n\n'.join(sentences) + '\n')
    (place / 'udpos' / 'train-a.tsv').rename(place / 'udpos' / 'train-de.tsv')
    lines = [f'MCAT\t{mtg_files.sentence("de", seed, 8)}\n' for seed in range(9)]
    (place / 'mldoc' / 'german.train.10000').write_text(''.join(lines))
    shutil.copy(vocabulary_file, folder / 'sample.model')
    monkeypatch.setattr(pipeline.sources, 'CHUNK', 3)
    monkeypatch.setattr(examples_lib, 'BATCH', 2)
    # Of the ordinary preparation; the other one is told the number.
    writer = functools.partial(prepared.Writer, shard_examples=SHARD_EXAMPLES)
    monkeypatch.setattr(prepared, 'Writer', writer)
    yield folder
    pipeline.use_root(None)


def run(root, *names, engine=None, splits='train', skip_bad=0, **kwargs):
    chosen = dict(root=str(root), vocabulary='sample', skip_bad=skip_bad)
    work = functools.partial(
        distributed.run, **chosen, engine=engine, shard_examples=SHARD_EXAMPLES
    )
    return mixtures.prepare(names, splits, **chosen, elsewhere=work if engine else None, **kwargs)


def assert_same_bytes(root, engine, *names, **kwargs):
    """Prepares in both ways; returns what the engine's was."""
    run(root, *names, **kwargs)
    expected = tree(root / 'prepared')
    shutil.rmtree(root / 'prepared')
    done = run(root, *names, engine=engine, **kwargs)
    found = tree(root / 'prepared')
    assert found.keys() == expected.keys()
    assert [name for name in found if found[name] != expected[name]] == []
    return done


@pytest.mark.parametrize('engine', ['far', 'beam'], indirect=True)
def test_same_bytes_as_the_ordinary_preparation(root, engine):
    """Texts, replies in both views, labels, tags; several tasks, splits, files and shards."""
    done = assert_same_bytes(
        root, engine, 'mtg_multi_qg', 'mtg_qg_en_de:validation', 'mrs_retrieval_de_de',
        'mrs_generation_de_de', 'mrs_retrieval_de_de:responses', 'fewshot_mldoc_de_de',
        'fewshot_udpos_de_de',
    )  # fmt: skip
    shards = {str(d.job): len(d.manifest['shards']) for d in done}
    assert shards['mtg_qg_en_en/train'] == 3 and shards['mrs_retrieval_de_de/train'] == 4
    found = prepared.open_task(str(root), 'sample', 'mrs_generation_de_de', 'train')
    replies = [reply_files.pair('de', 'train', number)[1] for number in range(13)]
    assert [record['targets_pretokenized'] for record in found.read(range(13))] == replies


def test_what_is_up_to_date_is_left(root, engine, capsys):
    (first,) = run(root, 'mtg_qg_en_de', engine=engine)
    again, other = run(root, 'mtg_qg_en_de', 'mtg_qg_en_en', engine=engine)
    assert not first.fresh and again.fresh and not other.fresh
    assert run(root, 'mtg_qg_en_de', engine=engine)[0].fresh
    assert '1 prepared, 1 were up to date: 11 examples' in capsys.readouterr().out


def test_files_that_can_be_read_apart(root, engine, monkeypatch):
    """Each is read by itself; an empty one, and bad records in several, change nothing."""
    damage(root / 'mrs' / 'train' / 'de' / 'part0.tsv', 2, b'one column')
    damage(root / 'mrs' / 'train' / 'de' / 'part2.tsv', 5, b'\xff')
    together, read = pipeline.RecordSource.chunks, []

    def chunks(source, split, paths):
        read.append([os.path.basename(path) for path in paths])
        return together(source, split, paths)

    monkeypatch.setattr(pipeline.RecordSource, 'chunks', chunks)
    names = ('mrs_retrieval_de_de', 'mrs_generation_de_de')
    (done, _) = assert_same_bytes(root, engine, *names, skip_bad=4)
    skipped = [(bad['path'], bad['line']) for bad in done.manifest['skipped']]
    assert skipped == [('mrs/train/de/part0.tsv', 2), ('mrs/train/de/part2.tsv', 5)]
    files = [f'part{number}.tsv' for number in range(4)]
    assert sorted(read) == sorted(2 * [files] + 2 * [[name] for name in files])


def test_a_task_that_cannot_be_divided(root, engine):
    """Its steps look at more than one record: every second one stays."""
    pipeline.use_vocabulary('sample', str(root))
    task = pipeline.get('mtg_qg_en_de')
    steps = list(task.preprocessors)

    def every_second(dataset):
        return dataset.shard(2, 1)

    seqio.TaskRegistry.add(
        'mtg_half', task.source, preprocessors=[*steps[:1], every_second, *steps[1:]],
        output_features=task.output_features, metric_fns=task.metric_fns,
    )  # fmt: skip
    try:
        assert examples_lib.encoder(pipeline.get('mtg_half')) is None
        (done,) = assert_same_bytes(root, engine, 'mtg_half')
        assert done.manifest['num_examples'] == 5
    finally:
        seqio.TaskRegistry.remove('mtg_half')


@pytest.mark.parametrize('engine', ['far', 'beam'], indirect=True)
def test_bad_records_are_counted_over_the_whole_run(root, engine):
    damage(root / 'mtg' / 'qg' / 'en' / 'train.src', 3, b'no answer')
    damage(root / 'mtg' / 'qg' / 'en' / 'train.src', 5, b'\xff')
    damage(root / 'mtg' / 'qg' / 'de' / 'train.src', 1, b'')
    # No task alone has more than two, so that only the sum is too large.
    for skips in (0, 2):
        with pytest.raises(errors.UserError, match=r'train\.src:\d: .*--skip_bad=N') as caught:
            run(root, 'mtg_multi_qg', engine=engine, skip_bad=skips)
        assert '\n' not in str(caught.value)
    assert tree(root / 'prepared') == {}
    with pytest.raises(errors.UserError, match=r'train\.src:\d: .*--skip_bad=N'):
        run(root, 'mtg_multi_qg', skip_bad=2)
    done = assert_same_bytes(root, engine, 'mtg_multi_qg', skip_bad=3, force=True)
    assert sorted(len(d.manifest['skipped']) for d in done) == [0, 0, 1, 2]


def test_mistakes_leave_nothing_behind(root, engine):
    path = root / 'mtg' / 'qg' / 'de' / 'train.trg'
    path.write_text(path.read_text() + 'one more\n')
    unequal = pytest.raises(
        errors.UserError, match=r'en/train.src:12: has 11 lines but .* has 12'
    )
    with unequal:
        run(root, 'mtg_qg_en_en', 'mtg_qg_en_de', engine=engine, skip_bad=100)
    assert not (root / 'prepared').exists()
    with unequal:
        run(root, 'mtg_qg_en_de', skip_bad=100)


def test_input_that_changes_while_it_is_read(root, engine, monkeypatch):
    original = examples_lib.source_records

    def source_records(*args, **kwargs):
        yield from original(*args, **kwargs)
        os.utime(root / 'mtg' / 'qg' / 'de' / 'train.trg', (1, 1))

    monkeypatch.setattr(examples_lib, 'source_records', source_records)
    with pytest.raises(errors.UserError, match='changed while they were read'):
        run(root, 'mtg_qg_en_de', engine=engine)
    assert tree(root / 'prepared') == {}


@pytest.mark.parametrize(
    ('flags', 'message'),
    [
        (['--beam', '--workers=2'], '--beam goes without --workers'),
        (['--', '--runner=FnApiRunner'], "'--runner=FnApiRunner' is not a flag"),
        (['--beam', '--', '--runner=NoSuchRunner'], 'NoSuchRunner'),
    ],
)
def test_mistakes_on_the_command_line(root, capsys, flags, message):
    need_beam()
    arguments = ['--mixture=mtg_qg_en_de', '--split=train', f'--root={root}', *flags]
    assert errors.run_main(command.main, ['prepare', *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count('\n') == 1 and error.startswith('error: ')


def test_the_command_with_a_worker_process_and_a_task_of_ones_own(root, tmp_path, monkeypatch):
    """The worker is another process, which finds the task file, the data and the vocabulary."""
    need_beam()
    lines = [f'{{"a": "the river {n}", "b": "old {n}"}}\n' for n in range(2500)]
    (root / 'mine.jsonl').write_text(''.join(lines))
    monkeypatch.setattr(prepared, 'Writer', prepared.Writer.func)
    with own_task_file.used(tmp_path / 'own') as path:
        run(root, 'mine_x')
        expected = tree(root / 'prepared')
    shutil.rmtree(root / 'prepared')
    command = [
        warm.python(), '-m', 'xlbench.prepare', '--mixture=mine_x', '--split=train',
        f'--root={root}', f'--tasks={path.parent}', '--beam', '--',
        '--direct_num_workers=1', '--direct_running_mode=multi_processing',
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert result.returncode == 0, result.stderr
    assert '1 prepared, 0 were up to date: 2,500 examples' in result.stdout
    assert tree(root / 'prepared') == expected
