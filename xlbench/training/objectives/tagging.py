"""Tagging: one tag for each word, predicted from one of its pieces, or from all of them."""

import dataclasses
from typing import ClassVar, Literal

from xlbench.training.objectives import classification

__all__ = ['Options', 'Tagging']


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(classification.Options):
    """The block config.objective.

    Attributes:
      word_piece: whose state the tag of a word is predicted from: of its last piece, as in the code
        of arXiv:2012.15682; its first one, as is usual with transformers; its first one with a
        letter; or the mean over all.
    """

    word_piece: Literal['last', 'first', 'first_letter', 'mean'] = 'last'


class Tagging(classification.Classification):
    """A tag for each word; in nats per word (arXiv:2012.15682)."""

    view: ClassVar[str] = 'tagging'
    trains: ClassVar[str] = 'token_classifier'
    text_baselines: ClassVar[bool] = False  # A text has no tag for each word of another.
    weights: ClassVar[str] = 'label_weights'

    def __init__(self, options: Options):
        super().__init__(options)
        if options.word_piece != 'last':
            # Of this one; configs are checked by the class's.
            self.view = f'tagging_{options.word_piece}'  # type: ignore[misc]
