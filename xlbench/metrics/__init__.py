"""Scores of generated text, between 0 and 100 unless a metric says otherwise.

A metric is called with `(targets, predictions)`, two lists of strings, and returns a score per
name, as SeqIO's `metric_fns` do. The metrics here are frozen dataclasses. Their `signature` names
everything that the number depends on, and their `per_example` gives the scores of each example. A
metric with `num_predictions` above 1 takes lists of strings as predictions, best first. `score`
calls each metric with the predictions that it takes, and a `Suite` holds the metrics of a task.
Manifests keep metrics as plain JSON, see specs.py.
"""

from xlbench.metrics.bleu import ChrF, ChrFPlusPlus, SacreBleu, Ter
from xlbench.metrics.classification import Classification
from xlbench.metrics.contract import only
from xlbench.metrics.distinct import Distinct
from xlbench.metrics.fitted_rating import FittedRating
from xlbench.metrics.learned import BertScore, Bleurt
from xlbench.metrics.meteor import Meteor
from xlbench.metrics.mrs import MrsRouge, MrsValidationRouge
from xlbench.metrics.rouge import MeanRouge, MultilingualRouge
from xlbench.metrics.specs import from_spec, to_spec
from xlbench.metrics.suite import Suite, num_predictions, score
from xlbench.metrics.tagging import ChunkF1, TagAccuracy

__all__ = [
    'BertScore', 'Bleurt', 'ChrF', 'ChrFPlusPlus', 'ChunkF1', 'Classification', 'Distinct',
    'FittedRating', 'MeanRouge', 'Meteor', 'MrsRouge', 'MrsValidationRouge', 'MultilingualRouge',
    'SacreBleu', 'Suite', 'TagAccuracy', 'Ter', 'from_spec', 'num_predictions', 'only', 'score',
    'to_spec',
]  # fmt: skip
