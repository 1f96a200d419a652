"""Metrics that are models: BERTScore and BLEURT.

  bertscore       similarity of tokens in the vectors of an encoder
  bleurt          a regressor on a pair of texts
  weights         where the models are, and what to type for those that are not here
  tf_variables    the variables of a TensorFlow checkpoint, without TensorFlow
  token_vectors   texts as the vectors of their tokens, on all devices
  regressor       pairs of texts as numbers, on all devices

Only the last two import jax, and only when something is scored.
"""

from xlbench.metrics.learned.bertscore import BertScore
from xlbench.metrics.learned.bleurt import Bleurt

__all__ = ['BertScore', 'Bleurt']
