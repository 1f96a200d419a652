"""The scoring of tasks: their metrics, and the score that stands for a task."""

from collections.abc import Sequence

from xlbench.data.readers import Json
from xlbench.pipeline import declarations, registry
from xlbench.pipeline.declarations import DeclaredTask, Metric, labels, view
from xlbench.system import errors

HEADLINES: dict[str, str] = {}  # Task -> what `register_...` was told.


def headline(task: DeclaredTask) -> str:
    """The score that stands for a task, first in its tables and in config.best.

    It is the one that was named when the task was registered. Else a task that has the metrics of
    its kind has rouge_l (texts), mrs_rouge (replies), accuracy (labels), chunk_f1 (tags of spans,
    B-... and I-...) or tag_accuracy (other tags). For other tasks it is '', which stands for the
    first score of the first metric.
    """
    chosen = HEADLINES.get(task.name, '')
    if chosen == OF_TAGS:
        spans = any(label.startswith(('B-', 'I-')) for label in labels(task))
        return 'chunk_f1' if spans else 'tag_accuracy'
    return chosen


def checked_headline(
    name: str, chosen: str | None, default: str, metrics: Sequence[Metric]
) -> str:
    """The headline of a new task; UserError for one that its metrics do not give."""
    if chosen is not None:
        from xlbench import metrics as metrics_lib

        given: dict[str, None] = {}
        for metric in metrics:
            try:
                given |= dict.fromkeys(metrics_lib.score(metric, ['a', 'b'], [['a'], ['b']])[0])
            except Exception:  # Other texts or labels would do: what it gives is not known here.
                given[chosen] = None
        if chosen not in given:
            raise errors.unknown(f'score in headline of task {name}', chosen, given)
    return chosen or default


OF_TAGS = 'of tags'  # The headline that depends on the labels.


def metric_fns(task: DeclaredTask) -> list[Metric]:
    """The metrics of a task, those of labels with the labels that training data has."""
    from xlbench.metrics import classification

    bare = classification.Classification()
    return [
        classification.Classification(labels(task)) if metric == bare else metric
        for metric in task.metric_fns
    ]


def metric_specs(task: DeclaredTask) -> list[dict[str, Json]]:
    """The metrics of a task as its manifest keeps them; see xlbench/metrics/specs.py."""
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


def described(name: str) -> dict[str, Json]:
    """The scoring of a task: the keys of a manifest that do not depend on data.

    Raises:
      UserError: there is no such task, or it is a mixture.
    """
    task = registry.get(name)
    if declarations.is_mixture(task):
        raise errors.UserError(f'{name} is a mixture; name one of its tasks')
    return {
        'view': view(task),
        'target_lang': getattr(task.source, 'target_lang', None),
        'headline': headline(task),
        'metrics': metric_specs(task),
    }


def with_own(
    own: Sequence[Metric] | None, usual: Sequence[Metric], headline: str
) -> tuple[list[Metric], str]:
    """The metrics of a task, and the score that stands for it unless the task names another.

    Args:
      own: those that a task file names; added to the usual ones, or in their place if they are
        those of `metrics.only`.
      usual: those of every task of its kind.
      headline: the score of these that stands for the task.
    """
    from xlbench.metrics import contract

    if isinstance(own, contract.Only):
        return list(own), ''
    return [*usual, *(metric for metric in own or () if metric not in usual)], headline


def text_metrics(lang: str) -> list[Metric]:
    """The scores of generated text in one language: ROUGE, BLEU, chrF, distinct n-grams."""
    from xlbench.metrics import bleu, distinct, rouge

    return [
        rouge.MultilingualRouge(lang=lang),
        bleu.SacreBleu.for_language(lang),
        bleu.ChrF(),
        distinct.Distinct.for_language(lang),
    ]


def translation_metrics(lang: str) -> list[Metric]:
    """The scores of translations into one language: BLEU, translation edit rate, chrF."""
    from xlbench.metrics import bleu

    return [bleu.SacreBleu.for_language(lang), bleu.Ter.for_language(lang), bleu.ChrF()]


def label_metrics(view: str, labels: Sequence[str]) -> tuple[list[Metric], str]:
    """The scores of labels, and the one that stands for them.

    Args:
      view: 'classification', of texts, or 'tagging', of words.
      labels: those of texts; none stands for those that the data has.
    """
    from xlbench.metrics import classification, tagging

    if view == 'classification':
        return [classification.Classification(tuple(labels))], 'accuracy'
    return [tagging.ChunkF1(), tagging.TagAccuracy()], OF_TAGS


def reply_metrics(lang: str) -> list[Metric]:
    """The scores of suggested replies in one language: MRS's weighted ROUGE, BLEU."""
    from xlbench.metrics import bleu, mrs

    return [mrs.MrsRouge(lang), bleu.SacreBleu.for_language(lang)]
