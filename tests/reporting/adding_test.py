"""Scores that are added to finished evaluations."""

import contextlib
import io
import json
import pathlib
import random
import shutil
import subprocess
import sys

import encoder_folders
import pytest

from xlbench import score
from xlbench.reporting import adding, results, scored
from xlbench.system.errors import UserError

NAMES = ['meteor_exact_stem', 'chrf++', 'bertscore=ENCODER@1']


@pytest.fixture(scope='module')
def added(tmp_path_factory):
    folder = tmp_path_factory.mktemp('adding')
    encoder = encoder_folders.write(folder / 'my-encoder')
    return [name.replace('ENCODER', str(encoder)) for name in NAMES]


@pytest.fixture
def run(tiny_run, tmp_path):
    return shutil.copytree(tiny_run, tmp_path / 'run')


@pytest.fixture(scope='module')
def whole(tiny_run, added, tmp_path_factory):
    """A run with all scores that are added, by the command; what it said; and the command."""
    folder = shutil.copytree(tiny_run, tmp_path_factory.mktemp('whole') / 'run')
    call = [str(folder), f'--metrics={",".join(added)}']
    with contextlib.redirect_stdout(io.StringIO()) as said:
        score.main(call)
    return folder, said.getvalue(), call


def content(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob('*'))
        if path.is_file()
    }


def test_scores_are_added_beside_the_earlier_ones(whole, tiny_run, capsys):
    folder, said, call = whole
    before, after = content(pathlib.Path(tiny_run)), content(folder)
    assert 'added to' in said and before.keys() == after.keys()
    changed = {name for name, data in after.items() if before[name] != data}
    assert changed and all(name.endswith(('metrics.json', 'predictions.jsonl')) for name in changed)
    for name in changed:
        if name.endswith('metrics.json'):
            old, new = json.loads(before[name]), json.loads(after[name])
            assert old['scores'].items() < new['scores'].items()
            assert {'meteor_exact_stem_no_tables', 'chrfpp', 'bertscore'} <= set(new['scores'])
            assert set(new['hashes']) == {'Meteor', 'ChrFPlusPlus', 'BertScore'}
            assert new['signatures'].items() >= old['signatures'].items()
            assert {k: v for k, v in new.items() if k in old}.keys() == old.keys()
        else:
            for line, was in zip(after[name].splitlines(), before[name].splitlines(), strict=True):
                of_line = json.loads(line)['scores']
                assert of_line.items() > json.loads(was)['scores'].items()
                assert 'bertscore' in of_line
    score.main(call)
    assert 'has all these scores' in capsys.readouterr().out and content(folder) == after


# Adds scores to copies of a run in forked processes, each killed before the file operation of a
# number that the caller draws; prints how many operations a whole call has, and of each its end.
KILLED = """
import os, signal, sys
from xlbench.reporting import adding

names, operations = sys.argv[1].split(','), ('open', 'os.rename', 'os.remove', 'os.mkdir')
count, limit, place = 0, -1, sys.argv[2]

def hook(event, args):
    global count
    if event in operations and str(args[0]).startswith(place):
        count += 1
        if count == limit:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
adding.add(place, names)
whole = count
print(whole, flush=True)
for share, place in zip(sys.argv[3].split(','), sys.argv[4:], strict=True):
    if not (child := os.fork()):
        count, limit = 0, 1 + int(float(share) * whole)
        adding.add(place, names)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_killed_at_random_it_ends_with_the_bytes_of_scores_computed_at_once(run, tmp_path):
    names, rng = ['chrf++', 'ter', 'meteor_exact_stem'], random.Random(0)
    folders = [shutil.copytree(run, tmp_path / str(i)) for i in range(13)]
    shares = ','.join(str(rng.random()) for _ in folders[1:])
    command = [sys.executable, '-c', KILLED, ','.join(names), folders[0], shares, *folders[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    count, *ends = map(int, done.stdout.split())
    expected, before = content(folders[0]), content(run)
    assert expected != before and count > 4 and set(ends) == {-9}
    states = [content(folder) for folder in folders[1:]]
    # Some were killed between the files of an evaluation, or of two.
    assert any({*state.values()} - {*before.values()} for state in states)
    for folder in map(pathlib.Path, folders[1:]):
        results.read_run(folder)
        adding.add(folder, names)
        assert content(folder) == expected


def test_one_metric_after_another_gives_the_bytes_of_all_at_once(run, added, whole):
    for name in added:
        adding.add(run, [name])
    assert content(run) == content(whole[0])


def test_an_evaluation_that_is_repeated_keeps_added_scores(tiny_run, whole, tmp_path):
    run = shutil.copytree(whole[0], tmp_path / 'run')
    before, expected = content(pathlib.Path(tiny_run)), content(run)
    changed = {run / name for name, data in expected.items() if before[name] != data}
    for folder in {path.parent for path in changed}:
        metrics = str((folder / 'metrics.json').relative_to(run))
        predictions = str((folder / 'predictions.jsonl').relative_to(run))
        facts = json.loads(before[metrics])
        lines = [json.loads(line) for line in before[predictions].splitlines()]
        step = str(folder.parents[1].relative_to(run / 'eval'))
        task, split = facts.pop('task'), facts.pop('split')
        scored.write_result(run, step, task, split, facts, lines)
        after = content(run)
        assert json.loads(after[metrics]) == json.loads(expected[metrics])
        assert after[predictions] == expected[predictions]
        lines[0]['prediction'] += ' else'
        with pytest.warns(UserWarning, match='BertScore, ChrFPlusPlus, Meteor are gone; add them'):
            scored.write_result(run, step, task, split, facts, lines)
        assert json.loads((folder / 'metrics.json').read_bytes()) == json.loads(before[metrics])


def test_of_several_suggestions_the_best_counts():
    suggestions = [{'id': 3, 'text': 'gut'}, {'id': 4, 'text': 'schlecht'}]
    assert results.texts({'prediction': 'gut', 'suggestions': suggestions}) == ['gut', 'schlecht']
    assert results.texts({'prediction': 'gut', 'suggestions': []}) == ['gut']


def test_another_signature_is_refused(run, added):
    adding.add(run, ['meteor_exact_stem'])
    before = content(run)
    metrics = next((run / 'eval').rglob('test/*/metrics.json'))
    facts = json.loads(metrics.read_bytes())
    facts['signatures']['Meteor'] = 'meteor-1.4'
    metrics.write_text(json.dumps(facts))
    with pytest.raises(UserError, match=r'has the scores of Meteor already, from meteor-1\.4'):
        adding.add(run, ['meteor_exact_stem'])
    metrics.write_bytes(before[str(metrics.relative_to(run))])
    before = content(run)
    with pytest.raises(UserError, match='already, from'):
        adding.add(run, ['chrf++', 'bertscore=no/such/place@1', 'meteor'])
    assert content(run) == before


@pytest.mark.parametrize(
    ('flags', 'words'),
    [
        ([], 'name the metrics to add with --metrics'),
        (['--metrics=chrf', '--workdir=elsewhere'], '--workdir is for files'),
        (['--metrics=chrff'], "unknown metric 'chrff'"),
        (['--metrics=chrf', '--split=other'], 'has no predictions on other; it has'),
        (['--metrics=chrf', '--task=nowhere'], 'of nowhere; it has'),
    ],
)
def test_slips(tiny_run, flags, words):
    with pytest.raises(UserError, match=words):
        score.main([str(tiny_run), *flags])


def test_folders_that_are_no_workdirs(tmp_path):
    with pytest.raises(UserError, match=r'no config\.json'):
        score.main([str(tmp_path), '--metrics=chrf'])
    (tmp_path / 'config.json').write_text('{"scored": {}, "config": 3}')
    with pytest.raises(UserError, match='has the scores of system None'):
        scored.check(tmp_path, 'mine', 0)
