"""A sweep's workdir: what is written is read again, also after the process was killed."""

import dataclasses
import json
import resource
from pathlib import Path

import numpy as np
import pytest
import tiny_labels
import tiny_sweep

from xlbench.data import prepared
from xlbench.fewshot import results, runner, settings
from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.fewshot.results import Journal
from xlbench.reporting import results as runs_results
from xlbench.system import errors


def test_rows_are_read_as_they_were_written(tmp_path):
    rows = [
        tiny_sweep.zero_shot('de', 61.25),
        tiny_sweep.row('de', 1, 0, 100 / 3, learning_rate=3e-5),
        tiny_sweep.row('de', 1, 1, None),
    ]
    tiny_sweep.write(tmp_path / 'sweep', rows)
    journal = Journal(tmp_path / 'sweep')
    assert journal.rows == rows and not journal.dropped
    assert [row.curve for row in journal.rows] == [(), (40.0, 50.0, 45.0), ()]
    assert all(journal.has(row.key) for row in rows)
    assert not journal.has(tiny_sweep.row('de', 1, 2, 1.0).key)
    with pytest.raises(ValueError, match='already has'):
        journal.add(rows[1])


@pytest.mark.parametrize('cut', [1, 5, 80])
def test_a_line_that_was_cut_short_is_dropped_said_and_written_over(tmp_path, cut):
    rows = tiny_sweep.group('de', 1, [50.0, 60.0, 70.0])
    folder = tiny_sweep.write(tmp_path / 'sweep', rows)
    path = folder / 'results.jsonl'
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])

    sweep = Sweep(folder)
    assert list(sweep.rows) == rows[:2] and 'is incomplete' in sweep.dropped
    journal = Journal(folder)
    assert 'is incomplete' in journal.dropped and not journal.has(rows[2].key)
    journal.add(rows[2])
    assert path.read_bytes() == whole
    assert not Journal(folder).dropped


def test_a_full_disk_is_named_and_costs_no_more_than_a_line(tmp_path):
    rows = tiny_sweep.group('de', 1, [50.0, 60.0])
    folder = tiny_sweep.write(tmp_path / 'sweep', rows[:1])
    journal = Journal(folder)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (folder / 'results.jsonl').stat().st_size
    # No file may be longer.
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, limits[1]))
    try:
        with pytest.raises(OSError) as caught:
            journal.add(rows[1])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.filename == str(folder / 'results.jsonl')
    journal = Journal(folder)
    assert journal.rows == rows[:1] and 'is incomplete' in journal.dropped
    journal.add(rows[1])
    assert list(Sweep(folder).rows) == rows


@pytest.mark.parametrize(
    ('written', 'message'),
    [
        (lambda one, other: f'{one[:30]}\n{other}\n', 'jsonl:1 is not a result'),
        # Its score would count twice in every mean.
        (lambda *lines: '\n'.join([*lines, lines[0], '']), 'jsonl:3 .*repeats line 1'),
        (lambda one, other: f'{"[" * 100_000}\n{other}\n', 'jsonl:1 is not a result'),
        (lambda *_: '', 'no adaptation of .* is finished'),
        (lambda one, other: f'{one}\n{other.replace("udpos", "panx")}\n', 'of udpos and panx; a s'),
    ],
)
def test_files_of_other_lines_are_refused_by_the_first_of_them(tmp_path, written, message):
    folder = tiny_sweep.write(tmp_path / 'sweep', tiny_sweep.group('de', 1, [50.0, 60.0]))
    path = folder / 'results.jsonl'
    path.write_text(written(*path.read_text().splitlines()))
    with pytest.raises(errors.UserError, match=message):
        Sweep(folder)


@pytest.mark.parametrize(
    'change',
    [
        {'score': None},  # Done, without a score.
        {'score': 'high'}, {'score': True}, {'score': 10**400}, {'shots': None},
        {'shots': 10**400}, {'bucket': 1.5}, {'bucket': None}, {'bucket': -1},
        {'learning_rate': None}, {'seed': None}, {'status': 'lost'}, {'task': '../../etc'},
        {'language': 'a-b'}, {'method': ''}, {'curve': ['x']}, {'curve': None},
    ],
)  # fmt: skip
def test_rows_from_elsewhere_are_checked(tmp_path, change):
    folder = tiny_sweep.write(tmp_path / 'sweep', tiny_sweep.group('de', 1, [50.0]))
    path = folder / 'results.jsonl'
    path.write_text(json.dumps(json.loads(path.read_text()) | change) + '\n')
    with pytest.raises(errors.UserError, match='jsonl:1 is not a result'):
        Sweep(folder)


@pytest.mark.parametrize('part', ['..', '../x', 'a/b', '', 'a-b', '.hidden', 'x\n'])
def test_no_name_leads_out_of_the_folder(tmp_path, part):
    with pytest.raises(errors.UserError, match='file name'):
        results.path_of(tmp_path, 'udpos', part, 'gold')


def test_the_csv_is_tidy_and_the_same_bytes_each_time(tmp_path):
    rows = [tiny_sweep.zero_shot('de', 61.25), tiny_sweep.row('de', 1, 0, 100 / 3)]
    results.write_csv(rows, tmp_path / 'a.csv')
    results.write_csv(iter(rows), tmp_path / 'b.csv')
    text = (tmp_path / 'a.csv').read_bytes()
    assert text == (tmp_path / 'b.csv').read_bytes()
    assert text.decode().splitlines() == [
        'task,language,shots,bucket,method,start,learning_rate,seed,score,metric,dev_score,'
        'best_epoch,epochs,examples,status',
        'udpos,de,0,,zero_shot,source,,,61.25,chunk_f1,,,,5,done',
        'udpos,de,1,0,full,source,1e-05,42,33.333333333333336,chunk_f1,50.0,1,3,5,done',
    ]


@pytest.mark.parametrize('place', ['absolute', 'relative'])
def test_predictions_come_back_with_separators(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    folder = tiny_sweep.write(tmp_path / 'sweep' if place == 'absolute' else Path('RUNS/sweep'), [])
    journal = Journal(folder)
    gold = np.array([0, 1, -1, 16, -1], np.int32)
    journal.add_gold('udpos', 'de', gold, ['A', 'B'], 2)
    zero, first, third = tiny_sweep.zero_shot('de', 50.0), *tiny_sweep.group('de', 1, [1.0, 2.0])
    journal.add(zero, np.array([0, 0, -1, 0, -1]))
    third = dataclasses.replace(third, bucket=2)
    journal.add(first, np.array([1, 1, -1, 1, -1]), 2)
    journal.add(third, np.array([0, 1, -1, 16, -1]), 2)  # More than there were to be.

    sweep = Sweep(folder)
    assert sweep.gold('de').tolist() == [0, 1, 255, 16, 255]
    assert sweep.zero_shot('de').tolist() == [0, 0, 255, 0, 255]
    assert sweep.predicted(zero).tolist() == [0, 0, 255, 0, 255]
    assert sweep.predicted(first).tolist() == [1, 1, 255, 1, 255]
    assert sweep.predicted(third).tolist() == [0, 1, 255, 16, 255]
    assert sweep.test_set('de') == results.TestSet(['A', 'B'], 2)
    table = np.load(folder / 'predictions/udpos-de-1-full-source/1e-05-42.npy')
    assert table.shape == (3, 5) and (table[1] == 255).all()

    journal.add_gold('udpos', 'de', gold, ['A', 'B'], 2)  # The same, when a sweep goes on.
    with pytest.raises(errors.UserError, match='test set of udpos in de has changed since'):
        journal.add_gold('udpos', 'de', gold, ['A', 'C'], 2)
    with pytest.raises(ValueError, match='at most 255'):
        journal.add(tiny_sweep.row('de', 1, 6, 1.0), np.array([255]))
    with pytest.raises(errors.UserError, match='no predictions'):
        sweep.gold('fr')


@pytest.mark.parametrize(
    ('asked', 'numbers'),
    [
        (3, [0, 1, 2]), ((3,), [0, 1, 2]), ((0, 3), [0, 1, 2]), ([3, 5], [3, 4]), ((5, 3), []),
        ((-1, 2), []), ((1, 2, 3), []), ('3', []), (True, []), (None, []), (0, []), ((1.0, 3), []),
    ],
)  # fmt: skip
def test_numbers_of_buckets(asked, numbers):
    assert list(results.bucket_numbers(asked)) == numbers


def test_methods_of_a_frozen_encoder_may_have_rates_of_their_own():
    block = {'languages': ('de',), 'shots': (1,), 'buckets': 2, 'learning_rates': (1e-4, 2e-4)}
    same = settings.Adapt(**block, methods=('full', 'fc'))
    own = settings.Adapt(**block, methods=('full', 'fc'), head_learning_rates=(0.01,))
    for adapt, rates in ((same, {1e-4, 2e-4}), (own, {0.01})):
        adapt.check('udpos')
        rows = [row for row in settings.planned('udpos', adapt) if row.shots]
        of = {m: {row.learning_rate for row in rows if row.method == m} for m in adapt.methods}
        assert of == {'full': {1e-4, 2e-4}, 'fc': rates}
        assert len(rows) == 2 * (2 + len(rates))
    with pytest.raises(errors.UserError, match=r'head_learning_rates is .* twice'):
        settings.Adapt(**block, head_learning_rates=(0.1, 0.1)).check('udpos')


def test_what_a_group_is_to_be_adapted_to_is_what_any_command_asked_for(tmp_path):
    asked = [
        {'languages': ['de'], 'shots': [1, 2], 'buckets': 2},
        {'languages': ['de', 'fr'], 'shots': [1], 'buckets': [6, 8], 'methods': ['fc']},
    ]
    rows = tiny_sweep.group('de', 1, [1.0])
    sweep = Sweep(tiny_sweep.write(tmp_path / 'sweep', rows, asked=asked))
    groups = (('de', 1, 'fc'), ('de', 1, 'full'), ('fr', 1, 'fc'), ('fr', 2, 'fc'))
    found = [sweep.buckets(results.Group(*group)) for group in groups]
    assert found == [{0, 1, 6, 7}, {0, 1}, {6, 7}, set()]


def test_a_config_of_other_types_is_refused_in_one_line(tmp_path):
    folder = tiny_sweep.write(tmp_path / 'sweep', tiny_sweep.group('de', 1, [1.0]))
    for config, message in (
        ('{"asked": ["no block"]}', 'Expected .*asked'),
        ('{"data": 3}', 'Expected .*data'),
        ('{"config": []}', 'Expected .*config'),
        ('{"config": ' + '[' * 5000 + ']' * 5000 + '}', 'nested too deeply'),
    ):
        (folder / 'config.json').write_text(config)
        with pytest.raises(errors.UserError, match=rf'config\.json.* {message}'):
            Sweep(folder)


def test_progress_counts_what_this_command_has_done():
    line = runner.progress(6, 10, 4 / 60, 'accuracy', [2.0, 1.0])
    assert line.startswith('  6/10 | 4.0 a minute | 2 of this group: accuracy 1.00 to 2.00 | ')
    assert line.endswith(' | 1m00s left')


def test_the_learning_rate_has_the_best_mean_dev_score(tmp_path):
    def rates(language, low, high, k=1):
        return [
            tiny_sweep.row(language, k, bucket, 50.0, dev, learning_rate=rate)
            for rate, scores in ((1e-5, low), (3e-5, high))
            for bucket, dev in enumerate(scores)
        ]

    rows = [
        *rates('de', [50.0, 60.0], [70.0, 41.0]),  # 55 and 55.5.
        *rates('fr', [50.0, 60.0], [60.0, 50.0]),  # The same: the smaller.
        *rates('es', [50.0, 60.0], [99.0]),  # Another bucket is to come: no comparison yet.
        *rates('ja', [None, None], [None, None]),  # No dev set.
    ]
    sweep = Sweep(tiny_sweep.write(tmp_path / 'sweep', rows))
    chosen = {group.language: stats.learning_rate for group, stats in sweep.groups.items()}
    assert chosen == {'de': 3e-5, 'fr': 1e-5, 'es': 1e-5, 'ja': 1e-5}


def test_rows_do_not_depend_on_the_order_in_which_adaptations_ended(tmp_path):
    rows = [
        tiny_sweep.zero_shot('de', 1.0),
        *tiny_sweep.group('de', 1, [1.0, 2.0, 3.0]),
        *tiny_sweep.group('de', 2, [1.0], method='fc'),
    ]
    one = Sweep(tiny_sweep.write(tmp_path / 'one', rows))
    other = Sweep(tiny_sweep.write(tmp_path / 'other', rows[::-1]))
    assert one.rows == other.rows == tuple(rows)


def test_the_order_of_the_csv_is_its_own():
    rows = [
        tiny_sweep.zero_shot('fr', 1.0),
        *tiny_sweep.group('fr', 2, [1.0, 2.0], method='fc'),
        tiny_sweep.zero_shot('de', 1.0),
        *(tiny_sweep.row('de', 2, 1, 1.0, learning_rate=rate) for rate in (1e-5, 3e-5)),
        *tiny_sweep.group('de', 1, [1.0], start='none'),
        *tiny_sweep.group('de', 1, [1.0], method='of another version'),
        *tiny_sweep.group('de', 1, [1.0, 2.0]),
    ]
    found = [
        (row.language, row.start, row.method, row.shots, row.learning_rate, row.bucket)
        for row in settings.in_order(rows)
    ]
    assert found == [
        ('de', 'source', 'zero_shot', 0, None, None), ('de', 'source', 'full', 1, 1e-5, 0),
        ('de', 'source', 'full', 1, 1e-5, 1), ('de', 'source', 'full', 2, 1e-5, 1),
        ('de', 'source', 'full', 2, 3e-5, 1), ('de', 'source', 'of another version', 1, 1e-5, 0),
        ('de', 'none', 'full', 1, 1e-5, 0), ('fr', 'source', 'zero_shot', 0, None, None),
        ('fr', 'source', 'fc', 2, 1e-5, 0), ('fr', 'source', 'fc', 2, 1e-5, 1),
    ]  # fmt: skip
    assert settings.in_order(reversed(rows)) == settings.in_order(rows)


def test_sweeps_of_the_same_source_model_say_so(tmp_path):
    rows = tiny_sweep.group('de', 1, [1.0])
    own = tiny_sweep.write(tmp_path / 'own', rows)
    (own / 'source').mkdir()
    (own / 'source/config.json').write_text(json.dumps({'config': {'seed': 7}}))
    config = {'source': {'seed': 0}, 'source_workdir': str(own / 'source')}
    named = tiny_sweep.write(tmp_path / 'named', rows, config=config)
    third = tiny_sweep.write(tmp_path / 'third', rows)
    sources = [Sweep(folder).source for folder in (own, named, third)]
    assert sources[0] == sources[1] != sources[2]
    assert Sweep(named).source_config == {'seed': 7}


def test_results_are_read_beside_a_broken_config_of_the_source_model(tmp_path):
    rows = tiny_sweep.group('de', 1, [1.0])
    folder = tiny_sweep.write(tmp_path / 'sweep', rows)
    (folder / 'source').mkdir()
    (folder / 'source/config.json').write_text('{')
    sweep = Sweep(folder)
    assert list(sweep.rows) == rows and len(sweep.groups) == 1
    with pytest.raises(errors.UserError, match=r'source/config\.json'):
        _ = sweep.source


def test_folders_of_the_config_start_where_the_sweep_was_run(tmp_path):
    rows = tiny_sweep.group('de', 1, [1.0])
    (tmp_path / 'there' / 'runs' / 'source').mkdir(parents=True)
    config = {'source_workdir': 'runs/source'}
    info = {'config': config, 'cwd': str(tmp_path / 'there')}
    sweep = Sweep(tiny_sweep.write(tmp_path / 'sweep', rows, **info))
    assert sweep.source_workdir == tmp_path / 'there' / 'runs' / 'source'
    gone = Sweep(tiny_sweep.write(tmp_path / 'gone', rows, **info | {'cwd': '/no/such'}))
    assert str(gone.source_workdir) == 'runs/source'


def test_folders_of_other_things_are_refused_with_a_hint(tmp_path):
    tiny_sweep.write(tmp_path / 'runs' / 'sweep', tiny_sweep.group('de', 1, [1.0]))
    with pytest.raises(errors.UserError, match='did you mean its subfolder sweep'):
        Sweep(tmp_path / 'runs')
    with pytest.raises(errors.UserError, match=r'sweep is the workdir of a sweep .*fewshot report'):
        runs_results.read_run(tmp_path / 'runs' / 'sweep')


def test_the_data_of_a_sweep_is_known_by_its_examples(tmp_path, monkeypatch):
    """Not by the code that prepared them; other examples are not taken for them."""
    name = 'fewshot_udpos_de_de'
    records = tiny_labels.records('tagging', name, 'test')
    content = tiny_labels.write_task(tmp_path, 'tagging', name, 'test', records).content
    monkeypatch.setattr(prepared.freshness, 'stale_reason', lambda *_: 'the code has changed')
    data = {'source': {'data': {'root': str(tmp_path), 'vocabulary': 'sample'}}}
    rows = tiny_sweep.group('de', 1, [1.0])
    for i, (contents, why) in enumerate([
        ({}, 'is stale: the code'),
        ({f'{name}/test': 'other'}, 'holds other examples'),
        (None, 'is stale'),
        ({f'{name}/test': content}, ''),
    ]):  # fmt: skip
        folder = tiny_sweep.write(tmp_path / f'{i}', rows, config=data, contents=contents)
        sweep = Sweep(folder)
        if why:
            with pytest.raises(errors.UserError, match=why):
                sweep.open_prepared('de', 'test')
    assert len(sweep.open_prepared('de', 'test')) == len(records)
