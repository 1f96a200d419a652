"""Workdirs of runs with made-up scores, as reports read them."""

import json

from xlbench.benchmarks import MTG

QG = MTG.scenario('multi', 'qg')
SIGNATURES = {
    'MultilingualRouge': 'rouge|lang:LANG|v1', 'SacreBleu': 'nrefs:1', 'Distinct': 'words',
}  # fmt: skip


def write_result(folder, task, scores, **facts):
    folder = folder / task
    folder.mkdir(parents=True)
    lang = task.rsplit('_', 1)[1]
    record = {
        'task': task, 'split': 'test', 'num_examples': 3000, 'scores': scores, 'data': 'sample',
        'signatures': {name: text.replace('LANG', lang) for name, text in SIGNATURES.items()},
        'manifest': 'a' * 64, 'decoding': {'method': 'greedy'},
    }  # fmt: skip
    (folder / 'metrics.json').write_text(json.dumps(record | facts))


def write_workdir(
    path, rouge, *, steps=(10,), data='sample', scenario=QG, mixture='', seed=0, split='test',
    baselines=True, num_examples=3000, tasks=(), info=(),
):  # fmt: skip
    """A workdir with `rouge`, or `rouge(step, task)`, of each task, and baselines at 10, 20, 30."""
    mixture, tasks = mixture or scenario.mixture, tasks or scenario.evaluate
    path.mkdir(parents=True)
    config = {'seed': seed, 'stages': {'stage1': {'mixture': mixture}}}
    facts = {'config': config, 'data': data, 'seed': seed, 'git': 'abc123', 'devices': '1 x cpu'}
    facts |= {'versions': {'jax': '0.10.2'}, 'dtype': 'float32', **dict(info)}
    (path / 'config.json').write_text(json.dumps(facts))
    same = {'data': data, 'split': split, 'num_examples': num_examples}
    for task in tasks:
        for step in steps:
            value = rouge(step, task) if callable(rouge) else rouge
            scores = {'rouge_l': value, 'bleu': 5.0, 'distinct_1': 90.0, 'loss': 2.0}
            write_result(path / 'eval' / str(step) / split, task, scores, step=step, **same)
        for i, name in enumerate(
            ('copy_input', 'most_frequent', 'nearest_input') if baselines else ()
        ):
            scores = {'rouge_l': 10.0 * (i + 1), 'bleu': 1.0, 'distinct_1': 50.0}
            write_result(
                path / 'eval' / 'baselines' / name / split, task, scores, step=None, **same
            )
    lines = [
        {'step': s, 'kind': 'train', 'name': 'main', 'values': {'loss': 8 / s}} for s in range(1, 6)
    ]
    (path / 'metrics.jsonl').write_text(''.join(json.dumps(line) + '\n' for line in lines))
    return path


def change(place, facts):
    """Changes a file of JSON, or all results below a folder; `facts` may be made of each one."""
    for file in [place] if place.is_file() else place.rglob('metrics.json'):
        before = json.loads(file.read_text())
        file.write_text(json.dumps(before | (facts(before) if callable(facts) else facts)))


def write_predictions(path, task, lines, step=10):
    """Writes what a run predicted for a task."""
    file = path / 'eval' / str(step) / 'test' / task / 'predictions.jsonl'
    file.write_text(''.join(json.dumps(line, ensure_ascii=False) + '\n' for line in lines))
