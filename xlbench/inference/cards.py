"""The model card of an exported folder, README.md, with the metadata that the hub reads.

It only says what was trained and measured; the licence and the intended use are left to the person
who publishes it. Its text is the template card.md.
"""

import json
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence

import jinja2

import xlbench
from xlbench.data import tokenizers
from xlbench.inference.exported import Notes, first_key, forced_first, target_languages
from xlbench.models.dual_encoder import DualEncoderConfig
from xlbench.models.families import FAMILIES
from xlbench.models.layers import TransformerConfig
from xlbench.reporting import notes as notes_lib, origins, render
from xlbench.reporting.results import LOSSES, Result
from xlbench.system.files import Json

NAME = 'README.md'
# The tasks of the hub that families are trained for; generators are text-generation.
_TASKS = {
    'sequence_classifier': 'text-classification',
    'token_classifier': 'token-classification',
    'dual_encoder': 'sentence-similarity',
    'bert': 'feature-extraction',
}
# Names of metrics that the hub knows, as words of our scores' names.
_METRICS = (
    'accuracy', 'bertscore', 'bleu', 'bleurt', 'chrf', 'f1', 'meteor', 'mrr', 'rouge', 'ter',
)  # fmt: skip
# Names of kinds of models in card.md; the others are those of FAMILIES.
_KINDS = {
    'sequence_classifier': 'SequenceClassification',
    'token_classifier': 'TokenClassification',
} | {family: family for family in ('bert', 'dual_encoder', 'marian_ssru')}


def text(
    folder: str,  # Its name, which names the model where its run names no config.
    source: str,  # What was exported, in words.
    family: str,
    model: TransformerConfig,
    tokenizer: tokenizers.Tokenizer,
    notes: Notes,
    about: Mapping[str, Json],  # The run's config.json.
    results: Sequence[Result],  # Of the checkpoint, those to report first.
) -> str:
    """The whole README.md."""
    config, counts, hashes = (_block(about, key) for key in ('config', 'examples', 'manifests'))
    argv, is_sample = about.get('argv'), about.get('data') == 'sample'
    # The command that began the run, and the folder where it was typed.
    typed = [*map(str, argv)] if isinstance(argv, list) else [], str(about.get('cwd') or '')
    trained = sorted(task for task, of_task in notes.tasks.items() if of_task['trained'])
    scored = {result.task for result in results}
    measured = {f'{result.task}/{result.split}' for result in results}
    name = _model_name(config, *typed) or folder
    languages = _languages(notes, {*trained, *scored})
    # The name on the hub that training began with; no folder or other run. What is fetched from the
    # hub is noted with the folder that it was fetched to.
    base, read = str(config.get('init_from') or ''), about.get('initialised_from')
    is_of_hub = isinstance(read, str) and base and read.startswith(f'{base} (')
    metadata = _metadata(
        family,
        model,
        results,
        is_sample=is_sample,
        language=languages or None,
        tags=['xlbench', 'jax', *(['sample-data'] if is_sample else [])],
        base_model=base.partition('@')[0] if is_of_hub else None,
        datasets=None if is_sample else _each_once(map(_first_word, trained)),
        model_name=name,
    )
    writes = () if family in _KINDS else target_languages(notes.tasks)
    marks = {lang: _mark(tokenizer, lang, notes) for lang in writes}
    facts = {'git': about.get('git'), 'versions': about.get('versions')}
    signatures = {f'{m}: {text}' for r in results for m, text in r.signatures.items()}
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader('xlbench.inference', ''),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters |= {'text': render.markdown_text, 'items': render.items, 'repr': repr}
    templates.filters['code'] = lambda *of: '\n'.join(render.code_block(*of))
    page = templates.get_template('card.md').render(
        kind=_KINDS.get(family) or FAMILIES[family].kind,
        model=model,
        tokenizer=tokenizer,
        notes=notes,
        marks={lang: mark for lang, mark in marks.items() if mark},
        has_pairs=any(one['trained'] and one.get('texts') == 2 for one in notes.tasks.values()),
        is_sentencepiece=isinstance(tokenizer, tokenizers.SentencePieceTokenizer),
        metadata=metadata,
        name=name,
        source=source,
        version=xlbench.__version__,
        trained=trained,
        is_sample=is_sample,
        sample_data=notes_lib.SAMPLE_DATA,
        languages=languages,
        data=[
            (name, str(counts.get(name, '')), str(hashes.get(name, ''))[:12])
            for name in sorted({*counts, *hashes})
            if name.partition('/')[0] in trained or name in measured
        ],
        results=results,
        scores=[
            (r.task, r.split, str(r.num_examples), name, f'{value:.2f}')
            for r in results
            for name, value in r.scores.items()
        ],
        remarks=dict.fromkeys(r.note for r in results if r.note),
        signatures=sorted(signatures),
        command=origins.command(*typed),
        facts='; '.join(f'{k} {notes_lib.plain_fact(v)}' for k, v in facts.items() if v),
        config='\n'.join(
            f'{k}: {json.dumps(v, ensure_ascii=False)}' for k, v in sorted(config.items())
        ),
        scored_languages=_languages(notes, scored),
    )
    # The machine's folders are nobody's business, and of no use elsewhere.
    return origins.without_places(page)


def _metadata(
    family: str,
    model: TransformerConfig,
    results: Sequence[Result],
    *,
    is_sample: bool,
    model_name: str,
    **keys: Json,
) -> str:
    """The lines of YAML, by huggingface_hub itself."""
    from huggingface_hub import EvalResult, ModelCardData  # It takes a while.

    measured = [
        EvalResult(
            task_type=_TASKS.get(family, 'text-generation'),
            dataset_type=_first_word(result.task),
            # Scores of one set and one configuration are one score to the hub.
            dataset_config=result.task,
            dataset_name=f'{result.task}{" (made up)" if is_sample else ""}',
            dataset_split=result.split,
            metric_type=next((word for word in score.split('_') if word in _METRICS), score),
            metric_name=score,
            metric_value=round(value, 4),
            metric_args={'signature': text} if (text := _signature(result, score)) else None,
        )
        for result in results
        if result.split == results[0].split  # The one to report first.
        for score, value in result.scores.items()
        if score not in LOSSES and value is not None
    ]
    # sentence-transformers has no pooler.
    is_theirs = isinstance(model, DualEncoderConfig) and model.shared and model.pooling != 'pooler'
    data = ModelCardData(
        library_name='sentence-transformers' if is_theirs else 'transformers',
        pipeline_tag=_TASKS.get(family),
        metrics=_each_once(result.metric_type for result in measured),
        eval_results=measured or None,
        model_name=model_name if measured else None,
        **keys,
    )
    return f'{data.to_yaml().rstrip()}\n'


def _model_name(config: Mapping[str, Json], argv: Sequence[str], cwd: str) -> str:
    """Names a model by its config file, and the data that it was trained on last; '' without one.

    A folder is called what its owner likes (out, exported), and says nothing about the model.
    """
    file = origins.config_of(argv, cwd)
    stem = pathlib.PurePosixPath(file.partition(':')[0]).stem
    stages = _block(config, 'stages')
    last = stages[max(stages)] if stages else {}
    mixture = last.get('mixture') if isinstance(last, dict) else ''
    return '-'.join(filter(None, [stem, str(mixture or '')])) if stem else ''


def _languages(notes: Notes, tasks: Collection[str]) -> list[str]:
    named = (
        about.get(f'{side}_lang')
        for task, about in notes.tasks.items()
        for side in ('source', 'target')
        if task in tasks
    )
    return sorted(set(filter(None, named)))


def _block(about: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    block = about.get(key)
    return block if isinstance(block, dict) else {}


def _signature(result: Result, score: str) -> str:
    """Gives the signature of a score's metric, or all signatures if none matches its name."""
    word = score.partition('_')[0]
    matching = [text for metric, text in result.signatures.items() if word in metric.lower()]
    return '; '.join(matching or result.signatures.values())


def _first_word(task: str) -> str:
    """The benchmark that a task is of, or what stands for it."""
    return task.partition('_')[0]


def _each_once(names: Iterable[str]) -> list[str] | None:
    return list(dict.fromkeys(names)) or None


def _mark(tokenizer: tokenizers.Tokenizer, lang: str, notes: Notes) -> dict[str, str] | None:
    """The mark of a target language: 'before' the input, to 'generate', and on 'load'; or None."""
    if tokenizer.tags == 'target_in_source':
        return {'before': f'<{lang}> ', 'generate': '', 'load': ''}
    token, first = tokenizer.language_tokens().get(lang), forced_first(tokenizer, lang)
    if token is None:
        return None
    forced = '' if first is None else f', {first_key(tokenizer, notes.objective)}={first}'
    mark = {'before': '', 'generate': forced, 'load': ''}
    if 'source_lang' in tokenizer.source_words:
        tasks = notes.tasks.values()
        sources = [task['source_lang'] for task in tasks if task['target_lang'] == lang]
        source = tokenizer.language_tokens().get(sources[0], 'CODE')
        if tokenizer.family == 'bert':
            return mark | {'before': f'{source} '}
        return mark | {'load': f', src_lang={source!r}'}
    return mark | ({'before': f'{token} '} if 'target_lang' in tokenizer.source_words else {})
