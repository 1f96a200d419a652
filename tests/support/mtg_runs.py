"""Workdirs of MTG runs with made-up scores: models and settings as the paper's tables have them."""

import json
import random
import statistics

import workdir_files

from xlbench.benchmarks import MTG

MODELS = {
    'mT5': {'model': {'family': 'mt5', 'size': 'base'}, 'init_from': 'google/mt5-base'},
    'mBART': {
        'model': {'family': 'mbart', 'size': 'large_50'},
        'init_from': 'facebook/mbart-large-50',
    },
    'XLM': {
        'model': {'family': 'encoder_decoder', 'size': 'xlmr_base'},
        'init_from': 'FacebookAI/xlm-roberta-base',
    },
    'M-BERT': {
        'model': {'family': 'encoder_decoder', 'size': 'mbert'},
        'init_from': 'google-bert/bert-base-multilingual-cased',
    },
}
STEPS = {'stage1': 10, 'stage2': 20}
WORDS = ('the', 'old', 'bridge', 'over', 'a', 'quiet', 'river', 'people', 'walk', 'home', 'rain')


def scenarios(task='qg'):
    """What one model is trained on for one task: settings in all languages."""
    for name in MTG.scenario_names:
        narrowed = None if name.endswith('_multitask') else task
        if name in ('mono', 'mono_multitask') or name == 'cross':
            yield from (MTG.scenario(name, narrowed, lang) for lang in MTG.languages)
        else:
            yield MTG.scenario(name, narrowed)


def write_run(
    path, model, scenario, *, quality=40.0, data='sample', examples=8, seed=0, stages=STEPS,
    info=(),
):  # fmt: skip
    """A run that was scored after both stages; the second one is better by 5."""
    path.mkdir(parents=True)
    config = {
        'seed': seed,
        'data': {'vocabulary': 'x'},
        'stages': {
            name: {'mixture': scenario.mixture, 'num_steps': 10} for name in stages
        },
        **MODELS[model],
    }  # fmt: skip
    facts = {'config': config, 'data': data, 'seed': seed, 'git': 'abc', **dict(info)}
    (path / 'config.json').write_text(json.dumps(facts))
    for number, step in enumerate(stages.values()):
        for task in scenario.evaluate:
            write_result(path, step, task, quality + 5 * number, data=data, examples=examples)
    return path


def write_result(path, step, task, quality, *, data='sample', examples=8, **facts):
    """Scores around `quality`, and a prediction with its scores for each example."""
    rng = random.Random(f'{path.name} {step} {task}')
    rows = []
    for i in range(examples):
        target = [rng.choice(WORDS) for _ in range(6)]
        right = round(6 * min(max(rng.gauss(quality, 15) / 100, 0), 1))
        text = [*target[:right], *(rng.choice(WORDS) for _ in target[right:])]
        scores = {'rouge_l': 100 * right / 6, 'distinct_1': 100 * len(set(text)) / 6}
        rows.append(
            {
                'id': str(i), 'input': 'What?', 'target': ' '.join(target),
                'prediction': ' '.join(text), 'scores': scores,
            }
        )  # fmt: skip
    means = {name: statistics.fmean(row['scores'][name] for row in rows) for name in scores}
    means |= {'rouge_1': means['rouge_l'] + 1, 'rouge_2': means['rouge_l'] / 2}
    means |= {'bleu': means['rouge_l'] / 3, 'distinct_2': 99.0}
    facts = {'signatures': {'SacreBleu': 'nrefs:1'}, 'decoding': {'method': 'beam'}} | facts
    facts |= {'num_examples': examples, 'data': data, 'step': step}
    workdir_files.write_result(path / 'eval' / str(step) / 'test', task, means, **facts)
    workdir_files.write_predictions(path, task, rows, step)


def write_chain(path, first, task='qg', quality=30.0, **facts):
    """A chain that generates English and translates it."""
    path.mkdir(parents=True)
    about = {'config': {'system': path.name, 'seed': 0}, 'seed': 0, 'scored': {}}
    about['data'] = facts.get('data', 'sample')
    (path / 'config.json').write_text(json.dumps(about))
    decoding = {
        'method': 'chain',
        'stages': {f'1 {first}': 'en-en, x', '2 translate:opus-mt': 'en-de, y'},
    }
    for _, target in MTG.pairs('zero_shot'):
        name = MTG.task_name(task, 'en', target)
        write_result(path, 0, name, quality, decoding=decoding, **facts)
    return path


def write_all(folder, models=tuple(MODELS), tasks=MTG.tasks, **more):
    """Workdirs of every model, task and setting; multitask ones once a model."""
    paths = []
    for i, model in enumerate(models):
        for j, task in enumerate(tasks):
            for scenario in scenarios(task):
                if scenario.task is None and j:
                    continue
                lang = scenario.source or 'all'
                path = folder / f'{scenario.name}-{scenario.task or "tasks"}-{lang}-{model}'
                worse = {'zero_shot': 25, 'cross': 8}.get(scenario.name, 0)
                quality = 45 + 3 * i + 4 * j - worse
                paths.append(write_run(path, model, scenario, quality=quality, **more))
            path = folder / f'chain-{task}-{model}'
            first = f'RUNS/mono-{task}-en-{model}'
            paths.append(
                write_chain(path, first, task, 33.0 + 3 * i, examples=more.get('examples', 8))
            )
    return paths


def write_ratings(path, runs, task='qg', examples=6):
    """What judges said of runs' texts: the better the score, the higher; grammar less so."""
    lines = []
    for folder in runs:
        for place in sorted((folder / 'eval' / '20' / 'test').glob(f'mtg_{task}_*')):
            rows = list(map(json.loads, (place / 'predictions.jsonl').read_text().splitlines()))
            for row in rows[:examples]:
                rng = random.Random(f'{folder.name} {place.name} {row["id"]}')
                share = row['scores']['rouge_l'] / 100
                ratings = {
                    'Grammar': rng.randint(1, 5),
                    'Fluency': min(5, 1 + round(3 * share) + rng.randint(0, 1)),
                    'Relevance': 1 + round(4 * share),
                }
                line = {'study': 's', 'data': 'sample', 'task': place.name, 'id': row['id']}
                line |= {'lang': place.name[-2:], 'system': folder.name}
                line |= {'references': [row['target']], 'prediction': row['prediction']}
                lines.append(json.dumps(line | {'ratings': ratings}))
    path.write_text('\n'.join(lines) + '\n')
    return path
