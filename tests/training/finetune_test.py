"""configs/finetune.py on made-up tasks of a user's own, by one command from a folder of theirs."""

import csv
import json
import random
import subprocess

import pytest
import warm

from xlbench import config as config_lib
from xlbench.configs import fewshot_any, finetune
from xlbench.fewshot.analysis import systems, tables
from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.plan import dry_run
from xlbench.system.errors import UserError

TASKS = """
from xlbench import pipeline

for lang, splits in (('de', ('train', 'validation', 'test')), ('fr', ('train', 'test'))):
    pipeline.register_classification_task(
        f'mood_{lang}',
        files={split: f'{lang}.{split}.csv' for split in splits},
        label='mood',
        lang=lang,
        headline='macro_f1',
        shots=pipeline.Shots((1,), buckets=2),
    )
pipeline.add_mixture('mood_both', ['mood_de', 'mood_fr'])
"""
WORDS = {
    'de': {'gut': ('schön', 'toll'), 'schlecht': ('mies', 'öde')},
    'fr': {'gut': ('beau', 'bon'), 'schlecht': ('mauvais', 'triste')},
}


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    """What the command has printed, and its workdir."""
    folder = tmp_path_factory.mktemp('user')
    (folder / 'tasks').mkdir()
    (folder / 'data').mkdir()
    (folder / 'tasks' / 'mood.py').write_text(TASKS)
    draw = random.Random(0)
    for name in ('de.train', 'de.validation', 'de.test', 'fr.train', 'fr.test'):
        lang, _, split = name.partition('.')
        with open(folder / 'data' / f'{name}.csv', 'w', newline='') as file:
            write = csv.writer(file).writerow
            write(['text', 'mood'])
            for _ in range(120 if split == 'train' else 21):
                mood = draw.choice(['gut', 'schlecht'])
                write([f'"{draw.randrange(99)}", {draw.choice(WORDS[lang][mood])}', mood])
    command = [warm.python(), '-m', 'xlbench.train', '--workdir=runs/mood']
    command += ['--config=finetune:tiny,objective=classification,mixture=mood_both,steps=4epochs']
    command += ['--config.evals.dev.every=6', '--config.checkpoints.every=30']
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[-2000:]
    return done.stdout, folder / 'runs' / 'mood'


def scores(workdir, split):
    """Of the last step of a split: {task: its metrics.json}."""
    steps = {int(path.parts[-4]) for path in workdir.glob(f'eval/[0-9]*/{split}/*/metrics.json')}
    place = workdir / 'eval' / str(max(steps)) / split
    return {path.parent.name: json.loads(path.read_text()) for path in place.glob('*/metrics.json')}


def test_one_command_trains_on_any_mixture_and_scores_the_splits_that_there_are(run):
    said, workdir = run
    assert 'training the vocabulary data/mood_both.model on mood_both:train' in said
    assert (workdir / 'DONE').is_file()
    dev, test = scores(workdir, 'validation'), scores(workdir, 'test')
    assert set(dev) == {'mood_de'} and set(test) == {'mood_de', 'mood_fr'}
    assert all(result['scores']['accuracy'] > 90 for result in test.values())
    about = json.loads((workdir / 'config.json').read_text())
    assert about['labels'] == ['gut', 'schlecht']
    assert about['config']['stages']['train']['num_steps'] == 30  # 240 examples, 32 a step.
    assert about['given']['stages.train.num_steps'] == '4epochs'


@pytest.mark.nightly
def test_the_headline_leads_the_table_and_chooses_the_checkpoint(run):
    said, workdir = run
    assert {result['headline'] for result in scores(workdir, 'test').values()} == {'macro_f1'}
    table = said[said.index('mood: test split') :]
    assert table.split('\n\n')[1].startswith('macro_f1')
    f1 = [
        (json.loads(path.read_text())['scores']['macro_f1'], -int(path.parts[-4]))
        for path in workdir.glob('eval/[0-9]*/validation/mood_de/metrics.json')
    ]
    best, step = max(f1)
    assert f'its best checkpoint, step {-step}' in said and best > min(f1)[0]


@pytest.mark.nightly
def test_baselines_are_scored_on_every_task_of_a_mixture(run):
    _, workdir = run
    found = workdir.glob('eval/baselines/most_frequent/test/*/metrics.json')
    assert {path.parent.name for path in found} == {'mood_de', 'mood_fr'}


@pytest.mark.nightly
def test_a_dry_run_knows_of_the_vocabulary_that_will_be_trained(run, monkeypatch):
    monkeypatch.chdir(run[1].parent.parent)
    new, made = (
        finetune.get_config(f'tiny,objective=tagging,mixture={name}') for name in ('x', 'mood_both')
    )
    assert [config_lib.new_vocabulary_size(config) for config in (new, made)] == [8000, 0]
    assert dry_run._vocabulary_size(new, {})[0] == 8000
    assert not [*dry_run.download_lines(new), *dry_run.download_lines(made)]


@pytest.mark.nightly
def test_a_sweep_over_shots_of_the_same_tasks(run):
    _, workdir = run
    folder = workdir.parent.parent
    command = [warm.python(), '-m', 'xlbench.fewshot', '--workdir=runs/sweep']
    config = 'fewshot_any:tiny,task=mood,source=de,languages=fr,shots=1,buckets=2,methods=fc'
    command += [f'--config={config}']
    command += ['--config.source_workdir=runs/mood', '--config.adapt.learning_rates=(0.01,)']
    command += ['--config.source.data.vocabulary=data/mood_both.model']
    command += ['--config.adapt.dev=none', '--config.adapt.epochs=2']
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[-2000:]
    sweep = Sweep(folder / 'runs' / 'sweep')
    assert [(row.task, row.language, row.shots, row.bucket) for row in sweep.rows] == [
        ('mood', 'fr', 0, None), ('mood', 'fr', 1, 0), ('mood', 'fr', 1, 1),
    ]  # fmt: skip
    assert all(row.metric == 'accuracy' and row.score > 80 for row in sweep.rows)
    (system,) = systems.systems([sweep])
    made = {table.title: table for table in tables.all_tables(system)}
    assert system.title == 'mood (mood)'
    assert any('mood is not a task of the paper' in note for t in made.values() for note in t.notes)


def test_a_sweep_of_a_task_that_is_nowhere_is_refused(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    config = fewshot_any.get_config('tiny,task=mod,languages=fr')
    with pytest.raises(UserError, match=r"unknown task in config.task 'mod'.* mood of tasks/mood"):
        config_lib.check_sweep_names(config)
    for variant, message in (
        ('tiny,task=mood', 'needs a task and the languages'),
        ('tiny,task=mood,languages=de,shots=x', 'are no whole numbers'),
        ('tiny,task=mood,languages=de,objective=retrieval', 'unknown objective after the'),
    ):
        with pytest.raises(UserError, match=message):
            fewshot_any.get_config(variant)
