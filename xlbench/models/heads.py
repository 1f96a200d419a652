"""Encoders with a head that classifies texts (XNLI, PAWS-X) or each token (NER, POS).

BERT's head over a text is dropout and one layer on what the pooler gives (arXiv:1810.04805, 4.1).
RoBERTa has no pooler, and its head a layer of its own (fairseq, roberta/model.py:
RobertaClassificationHead): dropout, layer, tanh, dropout, layer. The one over tokens is dropout and
one layer in both.
"""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp

from xlbench.errors import UserError
from xlbench.models import bert, layers


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadConfig(bert.BertConfig):
    """Sizes and types of encoder and head.

    Attributes:
      num_labels: classes.
      classifier_dropout_rate: on what the head's layers read.
      has_pooler: see BertConfig; SequenceClassifier's head has a layer of its own where there is
        none, and TokenClassifier never reads it.
    """

    num_labels: int = 2
    classifier_dropout_rate: float = 0.1

    def __post_init__(self):
        super().__post_init__()
        if self.num_labels < 1:
            raise UserError(f'num_labels={self.num_labels}; a classifier has 1 or more')


def _sizes(pooled: bool) -> dict[str, dict]:
    """Those of encoders; with a pooler where `pooled`, and where BERT has one."""
    return {
        size: fields | {'has_pooler': pooled and not fields.get('position_offset')}
        for size, fields in bert.SIZES['bert'].items()
    }


SIZES = {'sequence_classifier': _sizes(pooled=True), 'token_classifier': _sizes(pooled=False)}


class SequenceClassifier(nn.Module):
    """An encoder and a head over its first token, for rows that hold one example."""

    config: HeadConfig

    def setup(self):
        """Makes the parts."""
        cfg = self.config
        self.encoder = bert.Bert(cfg)
        if not cfg.has_pooler:
            self.dense = bert.dense(cfg, cfg.emb_dim)
        self.classifier = bert.dense(cfg, cfg.num_labels, 'labels')
        self.dropout = layers.Dropout(cfg.classifier_dropout_rate)

    def __call__(
        self,
        tokens: jax.Array,  # [batch, length]
        segment_ids: jax.Array | None = None,  # [batch, length]; 0 is padding
        positions: jax.Array | None = None,  # [batch, length]; None: 0, 1, 2, ...
        type_ids: jax.Array | None = None,  # [batch, length]; None: all 0
        *,
        train: bool = False,
    ) -> jax.Array:  # [batch, num_labels], float32
        """Tokens -> logits of each text."""
        x = self.encoder(tokens, segment_ids, positions, type_ids, train=train)
        if self.config.has_pooler:
            x = self.encoder.pool(x)
        else:
            x = jnp.tanh(self.dense(self.dropout(x[:, 0], train)))
        return self.classifier(self.dropout(x, train).astype(jnp.float32))


class TokenClassifier(nn.Module):
    """An encoder and a head over each token."""

    config: HeadConfig

    def setup(self):
        """Makes the parts."""
        cfg = self.config
        self.encoder = bert.Bert(cfg)
        self.classifier = bert.dense(cfg, cfg.num_labels, 'labels')
        shared = layers.positions_shared(cfg.shared_dropout)
        self.dropout = layers.Dropout(cfg.classifier_dropout_rate, shared)

    def __call__(
        self,
        tokens: jax.Array,  # [batch, length]
        segment_ids: jax.Array | None = None,  # [batch, length]; 0 is padding
        positions: jax.Array | None = None,  # [batch, length]; None: 0, 1, 2, ...
        type_ids: jax.Array | None = None,  # [batch, length]; None: all 0
        *,
        train: bool = False,
    ) -> jax.Array:  # [batch, length, num_labels], float32
        """Tokens -> logits of each token."""
        x = self.encoder(tokens, segment_ids, positions, type_ids, train=train)
        return self.classifier(self.dropout(x, train).astype(jnp.float32))
