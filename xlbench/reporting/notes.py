"""The notes beside the numbers: where data and runs come from, and the signatures of metrics."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from xlbench import benchmarks
from xlbench.reporting import systems as systems_lib
from xlbench.reporting.results import task_name
from xlbench.reporting.systems import Pick
from xlbench.reporting.tables import clean
from xlbench.system.files import Json

# Of every table that has made-up text in it.
SAMPLE_DATA = (
    'SAMPLE DATA: scored on the embedded sample corpora, which are generated. '
    'The scores cannot be compared with published ones.'
)
_LANG = re.compile(r'\blang:(\w+)')


def about_data(
    benchmark: benchmarks.Benchmark | None, split: str, picks: list[Pick]
) -> tuple[str, list[str]]:
    """The kind of the data, and sentences that say so; none of a user's own."""
    kinds = {pick.run.info.get('data') for pick in picks}
    kinds |= {result.data for pick in picks for result in pick.results.values()}
    if 'sample' in kinds:
        return 'sample', [SAMPLE_DATA]
    reasons = [] if kinds == {'files'} else ['a run does not say where its data is from']
    if benchmark is None:
        return 'other', []
    if not benchmark.paper_models:
        return 'other', ['No published scores are known for this data.']
    for pick in picks:
        reasons += _size_mismatches(benchmark, pick)
    if reasons:
        return 'other', [
            f'NOT THE OFFICIAL DATA: {reasons[0]}'
            + (f', and {len(reasons) - 1} more' if len(reasons) > 1 else '')
            + '. The scores cannot be compared with published ones.'
        ]
    scope = 'every split, scored or trained on'
    if not all(isinstance(pick.run.info.get('examples'), dict) for pick in picks):
        scope = 'every split that was scored; what was trained on is not recorded'
    official = 'the official number of examples'
    if benchmark.size_tolerance:
        official += f', up to {benchmark.size_tolerance:.0%},'.replace('%', ' %')
    notes = [f'The data has {official} in {scope}.']
    if split != 'test':
        notes.append(f'The paper reports the test split, not {split}: its scores are left out.')
    return 'official', notes


def about_runs(picks: list[Pick], step: str | int) -> list[str]:
    """Says what a reader must know before comparing the rows with each other."""
    notes = _about_stages(picks)
    if step == 'best':
        judged = {pick.run.judging_split(pick.split) for pick in picks}
        notes.append(f'Steps were chosen on the split {" and ".join(sorted(judged))}.')
        if any(pick.split in judged for pick in picks):
            notes.append('Choosing and reporting on the same examples flatters the best step.')
    said = (result.note for pick in picks for _, result in sorted(pick.results.items()))
    notes += filter(None, dict.fromkeys(said))
    manifests = {(task, r.manifest) for pick in picks for task, r in pick.results.items()}
    if len(manifests) > len({task for task, _ in manifests}):
        notes.append('The runs were trained on different data or vocabularies.')
    notes += systems_lib.repeats(picks)
    lost = sum(pick.run.bad_log_lines for pick in picks)
    if lost:
        notes.append(f'{lost} lines of metrics.jsonl could not be read and were left out.')
    return notes


def about_candidates(picks: list[Pick]) -> list[str]:
    """Says how many replies recall_10, mrr and p_at_1 choose from."""
    counts = sorted({r.candidates for pick in picks for r in pick.results.values()} - {0})
    if not counts:
        return []
    span = ' to '.join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    return [f'recall_10, mrr and p_at_1 rank the right reply among {span} replies.']


def signatures(picks: Sequence[Pick], scores: Sequence[str], shared: bool) -> list[str]:
    """The signatures behind scores, a line each: which tasks, which metric, which variant.

    Signatures that differ in the language alone share a line: lang:{de,en}. In a table that is
    `shared`, a score of no metric has no signature to show; else all of its result stand for it.
    """
    families = {score.split('_')[0] for score in scores}
    found: dict[tuple[str, str], tuple[set[str], set[str]]] = {}  # Tasks and languages.
    results = [result for pick in picks for result in pick.results.values()]
    for result in results:
        matching = {
            m: s for m, s in result.signatures.items() if any(f in m.lower() for f in families)
        }
        for metric, signature in (matching or ({} if shared else result.signatures)).items():
            lang = _LANG.search(signature)
            key = metric, _LANG.sub('lang:{}', signature, count=1)
            tasks, langs = found.setdefault(key, (set(), set()))
            tasks.add(result.task)
            langs.update(lang.groups() if lang else ())
    everywhere = {result.task for result in results}
    lines = []
    for (metric, signature), (tasks, langs) in sorted(found.items()):
        named = '{' + ','.join(sorted(langs)) + '}' if len(langs) > 1 else ''.join(langs)
        targets = {task_name(task).target for task in tasks}  # The metrics depend on these.
        named_tasks = ', '.join(sorted(tasks if '' in targets else targets))
        where = '' if tasks == everywhere else f' ({named_tasks})'
        line = signature.replace('lang:{}', f'lang:{named}') if langs else signature
        lines.append(clean(f'{metric}{where}: {line}'))
    return lines


def number_types(activations: Json, config: Mapping[str, Json]) -> str | None:
    """The types that a model computes in: one word if all are float32, as parameters are.

    Activations have the type that config.json notes, None for what no model has made; the config
    may have another one for the operands of products.
    """
    if not activations:
        return None
    model = config.get('model')
    products = (isinstance(model, Mapping) and model.get('matmul_dtype')) or activations
    if activations == products == 'float32':
        return 'float32'
    return f'parameters float32, activations {activations}, products {products}'


def provenance(pick: Pick) -> dict[str, str]:
    """Says where a row comes from: everything needed to make it again."""
    info, run = pick.run.info, pick.run
    hashes = {task: result.manifest[:12] for task, result in sorted(pick.results.items())}
    facts = {
        'workdir': str(run.workdir),
        'step': pick.step,
        'stage': pick.run.stage_of(pick.step) or None,
        'split': pick.split,
        'examples': {task: result.num_examples for task, result in sorted(pick.results.items())},
        'trained on': run.scenario.mixture if run.scenario else None,
        'config': run.config_hash[:12],
        'seed': run.seed,
        'parameters': info.get('parameters'),
        'devices': info.get('devices'),
        'device count': info.get('device_count'),
        'dtype': number_types(info.get('dtype'), run.config),
        'git': info.get('git'),
        'versions': info.get('versions'),
        'data': info.get('data'),
        'manifests scored': hashes,
        'manifests of the run': short_hashes([info.get('manifests')]),
        'predictions from': info.get('scored'),
        'decoding': next((r.decoding for r in pick.results.values() if r.decoding), None),
    }
    return {
        key: clean(plain_fact(value)) for key, value in facts.items() if value not in (None, {})
    }


def plain_fact(value: Json) -> str:
    """A fact as one line of text: {'jax': '0.10', 'flax': '0.12'} -> jax 0.10, flax 0.12."""
    if isinstance(value, Mapping):
        return ', '.join(f'{key} {plain_fact(inner)}' for key, inner in value.items())
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _size_mismatches(benchmark: benchmarks.Benchmark, pick: Pick) -> list[str]:
    """Splits, scored or trained on, that do not have the official size."""
    recorded = pick.run.info.get('examples')
    counts = dict(recorded) if isinstance(recorded, dict) else {}
    # What was scored counts, also where it is only a part of what there is.
    counts |= {
        f'{task}/{pick.split}': r.num_examples + r.dropped for task, r in pick.results.items()
    }
    reasons = []
    for key, count in sorted(counts.items()):
        name, _, split = key.partition('/')
        parsed = task_name(name)
        if parsed.benchmark != benchmark.name:
            reasons.append(f'{name} is not a task of {benchmark.name}')
        elif not benchmark.is_official(parsed.task, split, count, parsed.source):
            size = benchmark.official_size(parsed.task, split, parsed.source) or 'no such split'
            reasons.append(f'{key} has {count} examples (official: {size})')
    return reasons


def _about_stages(picks: list[Pick]) -> list[str]:
    """Says which stage the scores are of, and which others have scores."""
    staged = [pick for pick in picks if len(pick.run.stages) > 1]
    if not staged:
        return []
    shown = {pick.run.stage_of(pick.step) for pick in staged}
    scored = {
        pick.run.stage_of(step)
        for pick in staged
        for step in pick.run.evaluations
        if pick.run.at(step, pick.split)
    }
    line = f'Scores are those after {" and ".join(sorted(shown))}'
    others = sorted(scored - shown)
    options = ' or '.join(f'--step={name}' for name in others)
    return [f'{line}; {options} shows those after {" or ".join(others)}.' if others else f'{line}.']


def short_hashes(recorded: Iterable[Json]) -> dict[str, Json]:
    """{'mtg_qg_en_en/train': 12 digits of its hash}, of all workdirs together."""
    every: dict[str, set[str]] = {}
    for of_one in recorded:
        for name, value in of_one.items() if isinstance(of_one, dict) else ():
            every.setdefault(name, set()).add(str(value)[:12])
    return {name: ' or '.join(sorted(values)) for name, values in sorted(every.items())}
