"""The model card of an exported folder, README.md, with the metadata that the hub reads.

It only says what was trained and measured; the licence and the intended use are left to the person
who publishes it.
"""

import dataclasses
import json
import pathlib
from collections.abc import Collection, Iterator, Mapping, Sequence

import xlbench
from xlbench.data import tokenizers
from xlbench.inference.exported import (
    Notes,
    first_key,
    forced_first,
    target_languages,
)
from xlbench.models.dual_encoder import DualEncoderConfig
from xlbench.models.families import FAMILIES
from xlbench.models.transformer import TransformerConfig
from xlbench.reporting import command_lines, notes as notes_lib, render
from xlbench.reporting.results import LOSSES, Result
from xlbench.system.files import Json

NAME = 'README.md'
_LICENCE = (
    '# license: add the licence. Those of the data, and of the checkpoint that training began '
    'with, decide it.'
)
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
        head = f'# {render.markdown_text(self.name)}'
        lines = ['---', *self._metadata(), _LICENCE, '---', '', head, '']
        lines += [f'{self.source}. Written by xlbench {xlbench.__version__}.', '']
        if self._trained:
            lines += [f'Trained on {render.markdown_text(", ".join(self._trained))}.', '']
        lines += _usage(self.family, self.model, self.tokenizer, self.notes)
        for title, body in (
            ('Data', self._data()),
            ('Scores', self._scores()),
            ('Config', self._config()),
            ('Limits', self._limits()),
        ):
            lines += ['', f'## {title}', '', *body]
        # The machine's folders are nobody's business, and of no use elsewhere.
        return command_lines.without_places('\n'.join([*lines, '']))

    # ---------------------------------------------------------------------------------- metadata

    def _metadata(self) -> list[str]:
        """The lines of YAML, by huggingface_hub itself."""
        from huggingface_hub import EvalResult, ModelCardData  # It takes a while.

        task = _TASKS.get(self.family, 'text-generation')
        measured = []
        for result in self._reported:
            for score in _scores_of(result):
                signature = _signature(result, score)
                measured.append(
                    EvalResult(
                        task_type=task,
                        dataset_type=_first_word(result.task),
                        # Scores of one set and one configuration are one score to the hub.
                        dataset_config=result.task,
                        dataset_name=f'{result.task}{" (made up)" if self._is_sample else ""}',
                        dataset_split=result.split,
                        metric_type=_hub_metric(score),
                        metric_name=score,
                        metric_value=round(result.scores[score], 4),
                        metric_args={'signature': signature} if signature else None,
                    )
                )
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
        return data.to_yaml().splitlines()

    @property
    def name(self) -> str:
        """The name of the model: of its config file, and of what it was trained on last.

        A folder is called what its owner likes (out, exported), and says nothing about the model.
        """
        argv = self.about.get('argv')
        words = [str(word) for word in argv] if isinstance(argv, list) else []
        config = command_lines.config_of(words, str(self.about.get('cwd') or ''))
        stem = pathlib.PurePosixPath(config.partition(':')[0]).stem
        stages = _block(_block(self.about, 'config'), 'stages')
        last = stages[max(stages)] if stages else {}
        mixture = last.get('mixture') if isinstance(last, dict) else ''
        return '-'.join(filter(None, [stem, str(mixture or '')])) if stem else self.folder

    @property
    def _library(self) -> str:
        is_sentences = isinstance(self.model, DualEncoderConfig) and self.model.shared
        return 'sentence-transformers' if is_sentences and self._has_pooling else 'transformers'

    @property
    def _has_pooling(self) -> bool:
        """Returns True if sentence-transformers has the dual encoder's pooling."""
        return isinstance(self.model, DualEncoderConfig) and self.model.pooling != 'pooler'

    @property
    def _base_model(self) -> str | None:
        """The name on the hub that training began with; None for a folder or another run."""
        spec, read = self._setting('init_from'), self.about.get('initialised_from')
        # What is fetched from the hub is noted with the folder that it was fetched to.
        is_of_hub = isinstance(read, str) and spec and read.startswith(f'{spec} (')
        return spec.partition('@')[0] if is_of_hub else None

    # ---------------------------------------------------------------------------------- sections

    def _data(self) -> Iterator[str]:
        if self._is_sample:
            yield from (notes_lib.SAMPLE_DATA, '')
        counts, hashes = (_block(self.about, key) for key in ('examples', 'manifests'))
        rows = [
            (name, str(counts.get(name, '')), str(hashes.get(name, ''))[:12])
            for name in sorted({*counts, *hashes})
            if name.partition('/')[0] in self._trained or name in self._measured
        ]
        yield from _table(('task and split', 'examples', 'hash of the prepared data'), rows)
        if self._languages:
            yield from ('', f'Languages of these tasks: {", ".join(self._languages)}.')

    def _scores(self) -> Iterator[str]:
        if not self.results:
            yield 'This checkpoint was not evaluated.'
            return
        signatures = set()
        heads = ('task', 'split', 'examples', 'score', 'value')
        rows = []
        for result in self.results:
            facts = (result.task, result.split, str(result.num_examples))
            rows += [(*facts, name, f'{value:.2f}') for name, value in result.scores.items()]
            signatures |= {f'{metric}: {text}' for metric, text in result.signatures.items()}
        yield from _table(heads, rows)
        if notes := dict.fromkeys(result.note for result in self.results if result.note):
            yield from ('', render.items(notes))
        if signatures:
            yield from ('', 'Signatures of the metrics:', '', render.items(sorted(signatures)))

    def _config(self) -> Iterator[str]:
        argv, cwd = self.about.get('argv'), self.about.get('cwd')
        words = [str(word) for word in argv] if isinstance(argv, list) else []
        if typed := command_lines.command(words, str(cwd or '')):
            yield from (*render.code_block(typed, 'sh'), '')
        facts = {'git': self.about.get('git'), 'versions': self.about.get('versions')}
        known = [f'{key} {notes_lib.plain_fact(fact)}' for key, fact in facts.items() if fact]
        if known:
            yield from (render.markdown_text('; '.join(known)), '')
        config = _block(self.about, 'config')
        written = (f'{k}: {json.dumps(v, ensure_ascii=False)}' for k, v in sorted(config.items()))
        yield from render.code_block('\n'.join(written))

    def _limits(self) -> Iterator[str]:
        lengths = self.notes.lengths
        yield f'- Texts of more than {lengths["inputs"]} tokens are cut.'
        if self.notes.decoding:
            yield f'- An answer has {lengths["targets"]} tokens at most.'
        if scored := self._languages_of({result.task for result in self.results}):
            yield f'- Nothing was measured in languages other than {", ".join(scored)}.'
        if self._is_sample:
            yield '- The training data is made up. The model is of no use for real texts.'
        yield '- The licence is not stated, nor what the model may be used for.'

    # ------------------------------------------------------------------------------------- facts

    @property
    def _is_sample(self) -> bool:
        return self.about.get('data') == 'sample'

    @property
    def _trained(self) -> list[str]:
        return sorted(task for task, about in self.notes.tasks.items() if about['trained'])

    @property
    def _measured(self) -> set[str]:
        return {f'{result.task}/{result.split}' for result in self.results}

    @property
    def _reported(self) -> list[Result]:
        """Selects the results on the split to report."""
        return [result for result in self.results if result.split == self.results[0].split]

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

    def _setting(self, key: str) -> str:
        return str(_block(self.about, 'config').get(key) or '')


def _block(about: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    block = about.get(key)
    return block if isinstance(block, dict) else {}


def _scores_of(result: Result) -> list[str]:
    """The names of its scores, without losses."""
    return [name for name in result.scores if name not in LOSSES]


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


def _each_once(names: Iterator[str]) -> list[str] | None:
    return list(dict.fromkeys(names)) or None


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for cells in (heads, ['---'] * len(heads), *rows):
        yield f'| {" | ".join(map(render.markdown_text, cells))} |'


# ------------------------------------------------------------------------------------------ usage


def _usage(
    family: str, config: TransformerConfig, tokenizer: tokenizers.Tokenizer, notes: Notes
) -> list[str]:
    """The lines of Python and of a shell with which a folder gives the answers of its run.

    Args:
      family: of the model.
      config: of the model.
      tokenizer: of the run.
      notes: of the folder.
    """
    if isinstance(config, DualEncoderConfig):
        return _vectors(config)
    kinds = {
        'sequence_classifier': 'SequenceClassification',
        'token_classifier': 'TokenClassification',
    }
    if family in kinds:
        code = _LABELS.replace('KIND', kinds[family])
        if any(task['trained'] and task.get('texts') == 2 for task in notes.tasks.values()):
            code = code.replace("['A text.']", "[('A text.', 'Another text.')]")
        tagged = ['', _TAGGED[notes.objective.get('word_piece', 'last')]]
        return [*_code(code), *(tagged if family == 'token_classifier' else [])]
    if family == 'bert':
        return _code(_ENCODER)
    marks = {
        lang: mark
        for lang in target_languages(notes.tasks)
        if (mark := _mark(tokenizer, lang, notes))
    }
    if family == 'marian_ssru':
        return [*_MARIAN, *_predict()]
    before, forced, more = next(iter(marks.values()), ('', '', ''))
    text = _CONTINUED if FAMILIES[family].kind == 'decoder_only' else _TEXTS
    text = text.replace('BEFORE', before).replace('FORCED', forced).replace('MORE', more)
    # The other tokenizers put it there themselves.
    end = ' + tokenizer.eos_token' if tokenizer.family in ('gpt2', 'llama', 'qwen2') else ''
    text = text.replace('END', end)
    lines = [f'The answers of the run, with {_TRANSFORMERS}:', '', *_code(text)]
    if marks:
        lines += ['', 'The model is told the target language as in training:', '']
        lines += ['| language | before the text | arguments |', '|---|---|---|']
        lines += [
            f'| {lang} | `{before}` | {" ".join(f"`{x}`" for x in (more, forced) if x)} |'
            for lang, (before, forced, more) in marks.items()
        ]
        lines += ['', 'A space stands between the mark and the text.']
    if isinstance(tokenizer, tokenizers.SentencePieceTokenizer):
        lines += ['', *_TIES]
    first = next(iter(marks), None)
    flag = f' --target_lang={first}' if first else ''
    itself = ', which writes the mark itself' if marks else ''
    return [*lines, *_predict(f'{flag} < texts.txt', itself)]


def _vectors(config: DualEncoderConfig) -> list[str]:
    """The card's words about how states become a vector."""
    pool = {
        'mean': '(states * mask).sum(1) / mask.sum(1)',
        'first': 'states[:, 0]',
        'pooler': 'out.pooler_output',
    }[config.pooling]
    sides = (
        'both sides share this encoder:'
        if config.shared
        else 'left/ is for messages, right/ for replies:'
    )
    place = '.' if config.shared else './left'
    text = _VECTORS.replace('PLACE', place).replace('POOL', pool)
    text = text.replace('TEXT', repr(config.left_prompt + 'A text.'))
    if config.normalize:
        text += 'vectors = vectors / vectors.norm(dim=-1, keepdim=True)\n'
    lines = [f"A text's vector, with {_TRANSFORMERS}; {sides}", '', *_code(text)]
    if config.pooling != 'pooler':
        named = ", prompt_name='query'" if config.left_prompt else ''
        text = _SENTENCES.replace('PLACE', place).replace('NAMED', named)
        lines += ['', 'The same with [sentence-transformers](https://sbert.net):', '', *_code(text)]
    return [*lines, *_predict(' < messages.txt')]


def _predict(flags: str = ' < texts.txt', itself: str = '') -> list[str]:
    """How xlbench answers, and what of the above it does itself."""
    command = f'python -m xlbench.predict .{flags}'
    return ['', f'With xlbench{itself}:', '', '```sh', command, '```']


_TRANSFORMERS = '[transformers](https://github.com/huggingface/transformers)'
_MARIAN = (
    'model.bin and vocab.spm are files of [Marian](https://marian-nmt.github.io), with one',
    'vocabulary for both languages; transformers has no such model.',
)
_TEXTS = """
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained('.'MORE)  # Started in this folder.
model = AutoModelForSeq2SeqLM.from_pretrained('.')
texts = ['BEFOREA text.']
inputs = tokenizer(texts, return_tensors='pt', padding=True, truncation=True)
answers = model.generate(**inputsFORCED)
print(tokenizer.batch_decode(answers, skip_special_tokens=True))
"""
_CONTINUED = """
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained('.', padding_side='left')  # Started in this folder.
tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
model = AutoModelForCausalLM.from_pretrained('.')
texts = ['BEFOREA text.'END]
inputs = tokenizer(texts, return_tensors='pt', padding=True, truncation=True)
answers = model.generate(**inputsFORCED)[:, inputs['input_ids'].shape[1] :]
print(tokenizer.batch_decode(answers, skip_special_tokens=True))
"""
# By config.objective.word_piece.
_TAGGED = {
    'last': "A word's tag is that of its last piece.",
    'first': "A word's tag is that of its first piece.",
    'first_letter': "A word's tag is that of its first piece with a letter, else of its last.",
    'mean': "A word's tag is that of the mean of its pieces' states; `xlbench predict` takes it.",
}
_LABELS = """
from transformers import AutoModelForKIND, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained('.')  # Started in this folder.
model = AutoModelForKIND.from_pretrained('.')
inputs = tokenizer(['A text.'], return_tensors='pt', padding=True, truncation=True)
best = model(**inputs).logits.argmax(-1)
print(best, model.config.id2label)
"""
_ENCODER = """
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained('.')  # Started in this folder.
model = AutoModel.from_pretrained('.')
inputs = tokenizer(['A text.'], return_tensors='pt', padding=True, truncation=True)
print(model(**inputs).last_hidden_state.shape)
"""
_VECTORS = """
from transformers import AutoModel, AutoTokenizer

folder = 'PLACE'  # Started in this folder.
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModel.from_pretrained(folder)
texts = [TEXT]
inputs = tokenizer(texts, return_tensors='pt', padding=True, truncation=True)
out = model(**inputs)
states, mask = out.last_hidden_state, inputs['attention_mask'][..., None]
vectors = POOL
"""
_SENTENCES = """
from sentence_transformers import SentenceTransformer

model = SentenceTransformer('PLACE')
vectors = model.encode(['A text.']NAMED)
"""
_TIES = (
    'tokenizer.json gives the ids of the SentencePiece model spiece.model. Where two ways to cut a',
    'word are equally likely to the last digit, it may take the other one.',
)


def _code(text: str) -> list[str]:
    return ['```python', *text.strip().split('\n'), '```']


def _mark(tokenizer: tokenizers.Tokenizer, lang: str, notes: Notes) -> tuple[str, str, str] | None:
    """(text before the input, arguments of generate, arguments of from_pretrained), if any."""
    if tokenizer.tags == 'target_in_source':
        return f'<{lang}> ', '', ''
    token = tokenizer.language_tokens().get(lang)
    first = forced_first(tokenizer, lang)
    forced = '' if first is None else f', {first_key(tokenizer, notes.objective)}={first}'
    if token is None:
        return None
    if 'source_lang' in tokenizer.source_words:
        tasks = notes.tasks.values()
        sources = [task['source_lang'] for task in tasks if task['target_lang'] == lang]
        source = tokenizer.language_tokens().get(sources[0], 'CODE')
        if tokenizer.family == 'bert':
            return f'{source} ', forced, ''
        return '', forced, f', src_lang={source!r}'
    before = f'{token} ' if 'target_lang' in tokenizer.source_words else ''
    return before, forced, ''
