"""Encoders with a head that classifies texts (XNLI, PAWS-X) or each token (NER, POS).

BERT's head over a text is dropout and one layer on what the pooler gives (arXiv:1810.04805, 4.1).
RoBERTa has no pooler, and its head a layer of its own (fairseq, roberta/model.py:
RobertaClassificationHead): dropout, layer, tanh, dropout, layer. DistilBERT's is layer, ReLU,
dropout, layer. The one over tokens is dropout and one layer in all of them.

A head is in two parts for those who adapt it alone (xlbench.fewshot): `hidden` is what the encoder
gives it, `label` what it makes of that.
"""

import dataclasses
from typing import Annotated, Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from msgspec import Meta

from xlbench.models import bert
from xlbench.models.families import MODEL_TYPES
from xlbench.models.layers import ACTIVATIONS, Dropout, dropout, unit, with_axes


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadConfig(bert.BertConfig):
    """Sizes and types of encoder and head.

    Attributes:
      num_labels: classes.
      classifier_dropout_rate: on what the head's layers read.
      head: 'linear', or 'cosine': a label's logit is `scale` times the cosine of what the head's
        last layer reads and the label's vector (arXiv:2012.15682, section 5.5).
      scale: of 'cosine'.
      pad_label: of a tagger, whether it has a further class '<PAD>', as those of fsxlt/code have,
        which is never right.
      has_pooler: see BertConfig; SequenceClassifier's head has a layer of its own where there is
        none, and TokenClassifier never reads it.
    """

    num_labels: Annotated[int, Meta(ge=1, le=2**20)] = 2
    classifier_dropout_rate: Annotated[float, Meta(ge=0, lt=1)] = 0.1
    head: Literal['linear', 'cosine'] = 'linear'
    scale: Annotated[float, Meta(gt=0)] = 10.0
    pad_label: bool = False


class Cosine(nn.Module):
    """One vector for each label; logits are cosines with them, times `scale`."""

    features: int
    scale: float

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """x [..., in], float32 -> [..., features]."""
        init = with_axes(bert.INIT, 'labels', 'embed')
        kernel = self.param('kernel', init, (self.features, x.shape[-1]), jnp.float32)
        return self.scale * unit(x) @ unit(kernel).T


class Classifier(nn.Module):
    """An encoder and a head; `hidden` and `label` are its two parts."""

    config: HeadConfig

    def setup(self):
        cfg = self.config
        self.encoder = bert.Bert(cfg)
        if cfg.head == 'cosine':
            self.classifier: nn.Module = Cosine(cfg.num_labels, cfg.scale)
        else:
            self.classifier = bert.dense(cfg, cfg.num_labels, 'labels')

    def __call__(
        self,
        *texts: jax.Array | None,  # [batch, length] each, as bert.Bert takes them
        train: bool = False,
        **about: jax.Array | tuple[jax.Array, jax.Array],  # as well; `words`, see `word_states`
    ) -> jax.Array:  # [batch, num_labels] of texts or [batch, length, num_labels], float32
        """Tokens -> logits."""
        return self.label(self.hidden(*texts, train=train, **about), train)

    def hidden(self, *texts: Any, train: bool = False, **about) -> jax.Array:
        """Takes what `__call__` takes -> what the head reads of the encoder."""
        return self.encoder(*texts, train=train, **about)

    def label(self, x: jax.Array, train: bool = False) -> jax.Array:
        """Maps the output of `hidden`, [..., emb_dim], to logits [..., num_labels]."""
        return self.classifier(self.dropout(x, train).astype(jnp.float32))


class SequenceClassifier(Classifier):
    """An encoder and a head over its first token, for rows that hold one example."""

    def setup(self):
        super().setup()
        cfg = self.config
        if not cfg.has_pooler:
            self.dense = bert.dense(cfg, cfg.emb_dim)
        self.dropout = Dropout(cfg.classifier_dropout_rate)

    def hidden(self, *texts: jax.Array | None, **about) -> jax.Array:
        """Tokens -> the encoder's state of the first one, [batch, emb_dim]."""
        return super().hidden(*texts, **about)[:, 0]

    def pool(self, x: jax.Array, train: bool = False) -> jax.Array:
        """Hidden states [batch, emb_dim] -> what the last layer reads, [batch, emb_dim]."""
        if self.config.has_pooler:
            return self.encoder.pool(x[:, None])
        head = MODEL_TYPES[self.config.variant].head or 'tanh'
        if head != 'relu':  # DistilBERT's drops nothing before its layer.
            x = self.dropout(x, train)
        return ACTIVATIONS[head](self.dense(x))

    def label(self, x: jax.Array, train: bool = False) -> jax.Array:
        return super().label(self.pool(x, train), train)


def word_states(
    x: jax.Array,  # [batch, length, emb_dim], states of pieces
    tails: jax.Array,  # [batch, length], 1 + the pieces of its word behind a piece; 0 of no word
    weights: jax.Array,  # [batch, length], how much a piece counts
) -> jax.Array:  # [batch, length, emb_dim]; 0 where there is no word
    """Gives each piece the state of its word, the weighted sum over its pieces.

    The sum is exact where one piece of a word has all the weight.
    """
    ends = jnp.where(tails > 0, jnp.arange(tails.shape[-1]) + tails, 0)
    same = (ends[:, :, None] == ends[:, None, :]) & (ends > 0)[:, None, :]
    mix = jnp.where(same, weights[:, None, :], 0).astype(jnp.float32)
    states = jnp.einsum('bij,bjd->bid', mix, x.astype(jnp.float32), precision='highest')
    return states.astype(x.dtype)


class TokenClassifier(Classifier):
    """An encoder and a head over each token, or over each word."""

    def setup(self):
        super().setup()
        self.dropout = dropout(self.config, self.config.classifier_dropout_rate)

    def hidden(
        self, *texts: jax.Array | None, words: tuple[jax.Array, jax.Array] | None = None, **about
    ) -> jax.Array:
        """Tokens -> [batch, length, emb_dim]: states of pieces, or of words; `word_states`."""
        x = super().hidden(*texts, **about)
        return x if words is None else word_states(x, *words)
