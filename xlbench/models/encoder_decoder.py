"""An encoder-decoder whose halves are both BERT or XLM-R (arXiv:1907.12461, bert2bert).

MTG (arXiv:2108.07140, appendix A) trains two of them, from mBERT and from XLM-R. The decoder is the
same stack of layers, causal, with fresh attention over the source between self-attention and MLP,
and the masked-language head on top: a layer, a norm, and the decoder's own token table with a bias.
Each half has weights of its own, so that either is initialised from an encoder by a prefix.
"""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp

from xlbench.models import bert, generator, transformer
from xlbench.models.layers import ACTIVATIONS, with_axes
from xlbench.system import errors


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(bert.BertConfig):
    """Sizes and types of either half.

    `has_pooler` is the encoder's. Nothing reads it; public checkpoints of this kind hold it.
    """

    def __post_init__(self):
        super().__post_init__()
        if self.relpos_buckets:
            raise errors.UserError('a DeBERTa cannot be half of an encoder_decoder; take a BERT')


class DecoderLayer(bert.Layer):
    """Causal self-attention, attention over the encoded source, MLP."""

    names = (
        ('attention', 'attention_norm'),
        ('cross_attention', 'cross_attention_norm'),
        ('mlp', 'mlp_norm'),
    )


class Decoder(bert.Stack, transformer.Decoder):
    """The stack of decoder layers, with embeddings of its own."""

    layer = DecoderLayer

    def position_cache(self, max_length: int) -> None:
        """Returns nothing; raises UserError where there are fewer positions."""
        self.position_embedder.check_length(max_length)

    def embed_step(self, cache: transformer.Cache, tokens: jax.Array) -> jax.Array:
        languages = cache.get('languages')
        if languages is not None:  # [batch, 1]; the beams of an example side by side.
            languages = jnp.repeat(languages, tokens.shape[0] // languages.shape[0], axis=0)
        return self.embed(tokens, cache['index'][None, None], False, languages=languages)


class LmHead(nn.Module):
    """The masked-language head, but for the token table: a layer and a norm; a bias for logits."""

    config: EncoderDecoderConfig

    def setup(self):
        cfg = self.config
        self.dense = bert.dense(cfg, cfg.emb_dim)
        self.norm = cfg.norm()
        init = with_axes(nn.initializers.zeros, 'vocab')
        self.bias = self.param('bias', init, (cfg.vocab_size,), jnp.float32)

    def __call__(self, x: jax.Array) -> jax.Array:
        """x [batch, targets, emb_dim] -> the same shape."""
        return self.norm(ACTIVATIONS['gelu'](self.dense(x)))


class EncoderDecoder(generator.Generator):
    """Encoder-decoder over token ids, of two encoders."""

    config: EncoderDecoderConfig

    def setup(self):
        self.encoder = bert.Bert(self.config)
        self.decoder = Decoder(self.config)
        self.lm_head = LmHead(self.config)

    @property
    def reads_languages(self) -> bool:
        return self.config.num_languages > 0

    def head(self, states: jax.Array) -> jax.Array:
        """The decoder's states [batch, targets, emb_dim] after the head's layer and norm."""
        return self.lm_head(states)

    def output_embedding(self) -> jax.Array:
        return self.decoder.token_embedder.embedding

    def token_bias(self) -> jax.Array:
        return self.lm_head.bias
