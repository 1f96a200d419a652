"""The model card of an exported folder, README.md, with the metadata that the hub reads.

It only says what was trained and measured; the licence and the intended use are left to the person
who publishes it.
"""

import dataclasses
import json
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import jinja2

import xlbench
from xlbench.data import tokenizers
from xlbench.inference.exported import Notes, first_key, forced_first, target_languages
from xlbench.models.dual_encoder import DualEncoderConfig
from xlbench.models.families import FAMILIES
from xlbench.models.layers import TransformerConfig
from xlbench.reporting import command_lines, notes as notes_lib, render
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
# What card.md calls the kinds of models that it shows the use of; else by FAMILIES.
_KINDS = {
    'sequence_classifier': 'SequenceClassification',
    'token_classifier': 'TokenClassification',
} | {family: family for family in ('bert', 'dual_encoder', 'marian_ssru')}


@dataclasses.dataclass(frozen=True)
class Card:
    """All that a card is made of.

    Attributes:
      folder: its name, which names the model where its run names no config.
      source: what was exported, in words.
      family: of the model.
      model: its config.
      tokenizer: of the run.
      notes: of the folder.
      about: the run's config.json.
      results: of the checkpoint that is exported, those to report first.
    """

    folder: str
    source: str
    family: str
    model: TransformerConfig
    tokenizer: tokenizers.Tokenizer
    notes: Notes
    about: Mapping[str, Json]
    results: Sequence[Result]

    def text(self) -> str:
        """The whole README.md."""
        templates = jinja2.Environment(
            loader=jinja2.PackageLoader('xlbench.inference', ''),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        templates.filters |= {'text': render.markdown_text, 'items': render.items, 'repr': repr}
        templates.filters['code'] = lambda *of: '\n'.join(render.code_block(*of))
        page = templates.get_template('card.md').render(self._facts() | self._usage())
        # The machine's folders are nobody's business, and of no use elsewhere.
        return command_lines.without_places(page)

    # ---------------------------------------------------------------------------------- metadata

    def _metadata(self) -> str:
        """The lines of YAML, by huggingface_hub itself."""
        from huggingface_hub import EvalResult, ModelCardData  # It takes a while.

        task = _TASKS.get(self.family, 'text-generation')
        measured = [
            EvalResult(
                task_type=task,
                dataset_type=_first_word(result.task),
                # Scores of one set and one configuration are one score to the hub.
                dataset_config=result.task,
                dataset_name=f'{result.task}{" (made up)" if self._is_sample else ""}',
                dataset_split=result.split,
                metric_type=_hub_metric(score),
                metric_name=score,
                metric_value=round(value, 4),
                metric_args={'signature': text} if (text := _signature(result, score)) else None,
            )
            for result in self.results
            if result.split == self.results[0].split  # The one to report first.
            for score, value in result.scores.items()
            if score not in LOSSES
        ]
        data = ModelCardData(
            language=self._languages or None,
            library_name=self._library,
            pipeline_tag=_TASKS.get(self.family),
            tags=['xlbench', 'jax', *(['sample-data'] if self._is_sample else [])],
            base_model=self._base_model,
            datasets=None if self._is_sample else _each_once(map(_first_word, self._trained)),
            metrics=_each_once(result.metric_type for result in measured),
            eval_results=measured or None,
            model_name=self.name if measured else None,
        )
        return f'{data.to_yaml().rstrip()}\n'

    @property
    def name(self) -> str:
        """The name of the model: of its config file, and of what it was trained on last.

        A folder is called what its owner likes (out, exported), and says nothing about the model.
        """
        config = command_lines.config_of(*self._typed)
        stem = pathlib.PurePosixPath(config.partition(':')[0]).stem
        stages = _block(_block(self.about, 'config'), 'stages')
        last = stages[max(stages)] if stages else {}
        mixture = last.get('mixture') if isinstance(last, dict) else ''
        return '-'.join(filter(None, [stem, str(mixture or '')])) if stem else self.folder

    @property
    def _library(self) -> str:
        model = self.model  # sentence-transformers has no pooler.
        is_theirs = isinstance(model, DualEncoderConfig) and model.pooling != 'pooler'
        return 'sentence-transformers' if is_theirs and model.shared else 'transformers'

    @property
    def _base_model(self) -> str | None:
        """The name on the hub that training began with; None for a folder or another run."""
        spec = str(_block(self.about, 'config').get('init_from') or '')
        read = self.about.get('initialised_from')
        # What is fetched from the hub is noted with the folder that it was fetched to.
        is_of_hub = isinstance(read, str) and spec and read.startswith(f'{spec} (')
        return spec.partition('@')[0] if is_of_hub else None

    # ---------------------------------------------------------------------------------- sections

    def _facts(self) -> dict[str, Any]:
        counts, hashes = (_block(self.about, key) for key in ('examples', 'manifests'))
        measured = {f'{result.task}/{result.split}' for result in self.results}
        facts = {'git': self.about.get('git'), 'versions': self.about.get('versions')}
        config = sorted(_block(self.about, 'config').items())
        signatures = {f'{m}: {text}' for r in self.results for m, text in r.signatures.items()}
        return {
            'metadata': self._metadata(),
            'name': self.name,
            'source': self.source,
            'version': xlbench.__version__,
            'trained': self._trained,
            'is_sample': self._is_sample,
            'sample_data': notes_lib.SAMPLE_DATA,
            'languages': self._languages,
            'data': [
                (name, str(counts.get(name, '')), str(hashes.get(name, ''))[:12])
                for name in sorted({*counts, *hashes})
                if name.partition('/')[0] in self._trained or name in measured
            ],
            'results': self.results,
            'scores': [
                (r.task, r.split, str(r.num_examples), name, f'{value:.2f}')
                for r in self.results
                for name, value in r.scores.items()
            ],
            'remarks': dict.fromkeys(r.note for r in self.results if r.note),
            'signatures': sorted(signatures),
            'command': command_lines.command(*self._typed),
            'facts': '; '.join(f'{k} {notes_lib.plain_fact(v)}' for k, v in facts.items() if v),
            'config': '\n'.join(f'{k}: {json.dumps(v, ensure_ascii=False)}' for k, v in config),
            'lengths': self.notes.lengths,
            'decodes': bool(self.notes.decoding),
            'scored_languages': self._languages_of({result.task for result in self.results}),
        }

    def _usage(self) -> dict[str, Any]:
        """Returns what card.md needs to show how a folder gives the answers of its run."""
        tokenizer, tasks = self.tokenizer, self.notes.tasks
        kind = _KINDS.get(self.family) or FAMILIES[self.family].kind
        marks = {}
        if self.family not in _KINDS:
            marks = {lang: _mark(tokenizer, lang, self.notes) for lang in target_languages(tasks)}
        return {
            'kind': kind,
            'model': self.model,
            'has_pairs': any(task['trained'] and task.get('texts') == 2 for task in tasks.values()),
            'word_piece': self.notes.objective.get('word_piece', 'last'),
            'marks': {lang: mark for lang, mark in marks.items() if mark},
            # The other tokenizers put it there themselves.
            'needs_end': tokenizer.family in ('gpt2', 'llama', 'qwen2'),
            'is_sentencepiece': isinstance(tokenizer, tokenizers.SentencePieceTokenizer),
        }

    # ------------------------------------------------------------------------------------- facts

    @property
    def _typed(self) -> tuple[list[str], str]:
        """The words of the command that began the run, and the folder where it was typed."""
        argv = self.about.get('argv')
        words = [str(word) for word in argv] if isinstance(argv, list) else []
        return words, str(self.about.get('cwd') or '')

    @property
    def _is_sample(self) -> bool:
        return self.about.get('data') == 'sample'

    @property
    def _trained(self) -> list[str]:
        return sorted(task for task, about in self.notes.tasks.items() if about['trained'])

    @property
    def _languages(self) -> list[str]:
        """Lists the language codes of the tasks that were trained on or scored."""
        return self._languages_of({*self._trained, *(result.task for result in self.results)})

    def _languages_of(self, tasks: Collection[str]) -> list[str]:
        named = (
            about.get(f'{side}_lang')
            for task, about in self.notes.tasks.items()
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


def _hub_metric(score: str) -> str:
    return next((word for word in score.split('_') if word in _METRICS), score)


def _first_word(task: str) -> str:
    """The benchmark that a task is of, or what stands for it."""
    return task.partition('_')[0]


def _each_once(names: Iterable[str]) -> list[str] | None:
    return list(dict.fromkeys(names)) or None


def _mark(tokenizer: tokenizers.Tokenizer, lang: str, notes: Notes) -> dict[str, str] | None:
    """Says what tells a model a target language, if anything does.

    Returns:
      What stands 'before' the input, and further arguments of `generate` and, as 'load', of
      from_pretrained.
    """
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
