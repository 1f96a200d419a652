"""Engines that are models: all of xlbench.predict that write texts; stages of chains among them."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from xlbench.inference.generator import Model
from xlbench.inference.loading import BATCH_SIZE, load
from xlbench.system.errors import UserError
from xlbench.system.files import Setting
from xlbench.translate.engines import Failure


class Neural:
    """A run, a folder in the form of Hugging Face, or a hub name, as xlbench.predict takes it.

    Marian needs no languages; mBART-50 and runs of ours are told them; other models (T5) may need a
    prefix before each text, such as 'translate English to German: '. The `options` are fields of
    decoding.Options, such as num_beams=5.
    """

    translates = True  # So that texts in its target language suit it, too.

    def __init__(
        self,
        spec: str,
        *,
        prefix: str = '',
        batch_size: int = 0,
        max_input_length: int = 0,
        **options: Setting,
    ):
        self.name = spec
        size = batch_size or BATCH_SIZE
        model = load(spec, batch_size=size, max_input_length=max_input_length)
        if not isinstance(model, Model):
            raise UserError(f'{spec} does not generate texts; name an encoder-decoder')
        self._model, self._prefix, self._options = model, prefix, options
        # Several batches at a time, so that texts of a similar length share one.
        self.batch_size = 16 * model.batch_size

    @property
    def num_cut(self) -> int:
        return self._model.num_cut

    def check(self, source: str, target: str) -> None:
        self._model.options.changed(self._options)
        self._model.mark(*self._languages(source, target))
        trained = self._model.languages.sources.get(target)
        if trained and trained != source and not (self.translates and trained == target):
            raise UserError(
                f'{self.name} was trained from {trained} to {target}, but the texts are in '
                f'{source}; name another model, or give it texts in {trained}'
            )

    def identity(self, source: str, target: str) -> str:
        """A digest of parameters and vocabulary, the languages, and how it decodes."""
        options = self._model.options.changed(self._options)
        changed = ' '.join(
            f'{field.name}={getattr(options, field.name)}'
            for field in dataclasses.fields(options)
            if getattr(options, field.name) != field.default
        )
        told = ' '.join(filter(None, self._languages(source, target)))
        prefix = f' prefix {self._prefix!r}' if self._prefix else ''
        return f'model {self._model.digest} {source}-{target} told {told!r} {changed}{prefix}'

    def translate(self, texts: Sequence[str], source: str, target: str) -> Sequence[str | Failure]:
        source_lang, target_lang = self._languages(source, target)
        texts = [self._prefix + text for text in texts]
        return self._model.generate(
            texts, source_lang=source_lang, target_lang=target_lang, **self._options
        )

    def _languages(self, source: str, target: str) -> tuple[str | None, str | None]:
        """The languages as this model is told them; none where it knows one pair alone."""
        return (source, target) if self._model.languages.allowed else (None, None)


class Writer(Neural):
    """A summariser, or any other encoder-decoder that answers a text in its own way.

    It is an engine like those that translate, so that what it wrote is kept by text and model, and
    several chains with one summariser summarise once. Each answer is a list of texts, best first,
    as JSON: one text, or as many as num_return says.
    """

    translates = False

    def __init__(self, spec: str, **settings: Setting):
        super().__init__(spec, **settings)
        # Named, so that the model gives a list for each text, also of one answer.
        self._options['num_return'] = self._model.options.changed(self._options).num_return

    def identity(self, source: str, target: str) -> str:
        return f'{super().identity(source, target)} reads {self._model.max_input_length} tokens'

    def translate(self, texts: Sequence[str], source: str, target: str) -> Sequence[str | Failure]:
        answers: Sequence[Any] = super().translate(texts, source, target)
        return [json.dumps([p.text for p in n_best], ensure_ascii=False) for n_best in answers]


def texts_of(answer: str) -> list[str]:
    """The texts of an answer; that to an empty text is an empty one."""
    return json.loads(answer) if answer else ['']
