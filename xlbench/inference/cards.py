"""The model card of an exported folder, README.md, with the metadata that the hub reads.

It only says what was trained and measured; the licence and the intended use are left to the person
who publishes it.
"""

import dataclasses
import json
import pathlib
from collections.abc import Collection, Iterator, Mapping, Sequence

import xlbench
from xlbench.data.tokenizers import Tokenizer
from xlbench.inference import usage
from xlbench.inference.exported import Notes
from xlbench.models.dual_encoder import DualEncoderConfig
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
    tokenizer: Tokenizer
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
        lines += usage.lines(self.family, self.model, self.tokenizer, self.notes)
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
