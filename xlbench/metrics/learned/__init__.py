"""Metrics that are models: BERTScore and BLEURT.

  bertscore       similarity of tokens in the vectors of an encoder
  weights         where the models are, and what to type for those that are not here
  token_vectors   texts as the vectors of their tokens, on all devices
  regressor       pairs of texts as numbers, on all devices

Only the last two import jax, and only when something is scored.
"""

from xlbench.metrics.learned.bertscore import BertScore

__all__ = ['BertScore']
