"""Stages that are models: what xlbench.predict opens and that writes texts."""

import json
from collections.abc import Sequence

from xlbench.settings import decoding_flags
from xlbench.translation.engines import Failure
from xlbench.translation.neural import Neural


class Writer(Neural):
    """A summariser, or any other encoder-decoder that answers a text in its own way.

    It is an engine like those that translate, so that what it wrote is kept by text and model, and
    several chains with one summariser summarise once. Each answer is a list of texts, best first,
    as JSON: one text, or as many as num_return says.
    """

    def identity(self, source: str, target: str) -> str:
        """Identifies a chain as a translator, with the part of a text that it reads."""
        return f'{super().identity(source, target)} reads {self._model.max_input_length} tokens'

    def translate(self, texts: Sequence[str], source: str, target: str) -> list[str | Failure]:
        """See the class; the name is that of `Engine.translate`. It warns of texts that it cuts."""
        source_lang, target_lang = self._languages(source, target)
        options = decoding_flags.changed(self._model.options, self._options)
        answers = self._model.generate(
            [self._prefix + text for text in texts],
            source_lang=source_lang,
            target_lang=target_lang,
            **self._options | {'num_return': options.num_return},
        )
        return [json.dumps([p.text for p in n_best], ensure_ascii=False) for n_best in answers]

    def _sources(self, source: str, target: str) -> tuple[str, ...]:
        return (source,)


def texts_of(answer: str) -> list[str]:
    """The texts of an answer; that to an empty text is an empty one."""
    return json.loads(answer) if answer else ['']
