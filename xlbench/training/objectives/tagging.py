"""Tagging: one tag for each word, predicted at the word's last piece."""

from typing import ClassVar

from xlbench.training.objectives.classification import Classification, Options

__all__ = ['Options', 'Tagging']


class Tagging(Classification):
    """A tag for each word, at its last piece; in nats per word (arXiv:2012.15682).

    Args:
      **options: see `Options`.
    """

    view: ClassVar[str] = 'tagging'
    trains: ClassVar[str] = 'token_classifier'
    text_baselines: ClassVar[bool] = False  # A text has no tag for each word of another.
    weights: ClassVar[str] = 'label_weights'
