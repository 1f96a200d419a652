"""The metrics of tasks, and the headline score of each."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xlbench.pipeline import registry
from xlbench.pipeline.registry import DeclaredTask, Metric, labels, view
from xlbench.system import errors

if TYPE_CHECKING:
    from xlbench.metrics.contract import Spec

HEADLINES: dict[str, str] = {}  # Task -> what `register_...` was told.


def headline(task: DeclaredTask) -> str:
    """Returns the score that represents a task, first in its tables and in config.best.

    A task file can name it. By default it is rouge_l (texts), mrs_rouge (replies), accuracy
    (labels), chunk_f1 (tags of spans, B-... and I-...) or tag_accuracy (other tags). A task without
    the usual metrics has '': the first score of its first metric.
    """
    chosen = HEADLINES.get(task.name, '')
    if chosen == OF_TAGS:
        spans = any(label.startswith(('B-', 'I-')) for label in labels(task))
        return 'chunk_f1' if spans else 'tag_accuracy'
    return chosen


def checked_headline(name: str, chosen: str | None, default: str, metrics: Sequence[Metric]) -> str:
    """Returns the headline of a new task; UserError for one that its metrics do not give."""
    if chosen is not None:
        from xlbench import metrics as metrics_lib

        given: dict[str, None] = {}
        for metric in metrics:
            try:
                given |= dict.fromkeys(metrics_lib.score(metric, ['a', 'b'], [['a'], ['b']])[0])
            except Exception:  # It may need other texts or labels; its scores are not known here.
                given[chosen] = None
        errors.check_known(f'score in headline of task {name}', chosen, given)
    return chosen or default


OF_TAGS = 'of tags'  # The headline that depends on the labels.


def metric_fns(task: DeclaredTask) -> list[Metric]:
    """Returns the metrics of a task, those of labels with the task's labels."""
    from xlbench.metrics import classification

    bare = classification.Classification()
    return [
        classification.Classification(labels(task)) if metric == bare else metric
        for metric in task.metric_fns
    ]


def metric_specs(task: DeclaredTask) -> 'list[Spec]':
    """Returns the metrics of a task as its manifest keeps them; see xlbench/metrics/specs.py."""
    from xlbench import metrics

    try:
        specs = [metrics.to_spec(metric) for metric in metric_fns(task)]
    except (errors.UserError, ValueError) as error:  # SeqIO's, of other arguments.
        raise errors.UserError(f'task {task.name}: {error}') from None
    if len(task.metric_objs) > len(specs):
        raise errors.UserError(
            f'task {task.name} has metric_objs, which nothing here calls; give it functions '
            '(targets, predictions) as metric_fns'
        )
    return specs


def described(name: str) -> dict[str, Any]:
    """Returns the keys of a manifest that do not depend on data; UserError for a mixture."""
    task = registry.task(name)
    return {
        'view': view(task),
        'target_lang': getattr(task.source, 'target_lang', None),
        'headline': headline(task),
        'metrics': metric_specs(task),
    }


def with_own(
    own: Sequence[Metric] | None, usual: Sequence[Metric], headline: str
) -> tuple[list[Metric], str]:
    """Returns the metrics of a task, the usual ones of its kind and its own, and a headline.

    If the task file replaces the usual ones, by `metrics.only`, the headline goes as well.
    """
    from xlbench.metrics import contract

    if isinstance(own, contract.Only):
        return list(own), ''
    return [*usual, *(metric for metric in own or () if metric not in usual)], headline


def text_metrics(lang: str) -> list[Metric]:
    """Returns the metrics of texts in a language: ROUGE, BLEU, chrF, distinct n-grams."""
    from xlbench.metrics import bleu, distinct, rouge

    return [
        rouge.MultilingualRouge(lang=lang),
        bleu.SacreBleu.for_language(lang),
        bleu.ChrF(),
        distinct.Distinct.for_language(lang),
    ]


def translation_metrics(lang: str) -> list[Metric]:
    """Returns the metrics of translations into a language: BLEU, translation edit rate, chrF."""
    from xlbench.metrics import bleu

    return [bleu.SacreBleu.for_language(lang), bleu.Ter.for_language(lang), bleu.ChrF()]


def label_metrics(view: str, labels: Sequence[str]) -> tuple[list[Metric], str]:
    """Returns the metrics of labels of a view and their headline; no labels: those of the data."""
    from xlbench.metrics import classification, tagging

    if view == 'classification':
        return [classification.Classification(tuple(labels))], 'accuracy'
    return [tagging.ChunkF1(), tagging.TagAccuracy()], OF_TAGS


def reply_metrics(lang: str) -> list[Metric]:
    """Returns the metrics of suggested replies in a language: MRS's weighted ROUGE, BLEU."""
    from xlbench.metrics import bleu, mrs

    return [mrs.MrsRouge(lang), bleu.SacreBleu.for_language(lang)]
