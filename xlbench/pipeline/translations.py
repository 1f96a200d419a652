"""Tasks of parallel texts: a text in one language, its translation in another."""

from collections.abc import Sequence

import seqio

from xlbench.pipeline.binding import text_features
from xlbench.pipeline.preprocessors import text_preprocessors
from xlbench.pipeline.registration import add_task
from xlbench.pipeline.scoring import Metric, translation_metrics


def add_translation_task(
    name: str,
    source: seqio.DataSource,
    source_lang: str,
    target_lang: str,
    metrics: Sequence[Metric] | None = None,
    headline: str | None = None,
) -> seqio.Task:
    """Registers a task of translation.

    Args:
      name: of the task; its first word is the name of the file it stands in.
      source: gives `inputs` and `targets`.
      source_lang, target_lang: ISO codes of them.
      metrics: metric functions; by default those of `translation_metrics`.
      headline: the score that stands for the task; see `headline`.
    """
    default = 'bleu' if metrics is None else ''
    metrics = translation_metrics(target_lang) if metrics is None else metrics
    steps = text_preprocessors('{inputs}', '{targets}', target_lang, (), source_lang)
    return add_task(name, source, steps, text_features(), metrics, headline, default)
