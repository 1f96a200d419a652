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

from xlbench.models import bert, generator
from xlbench.models.dense import ACTIVATIONS
from xlbench.models.placement import place
from xlbench.models.transformer import checkpointed


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(bert.BertConfig):
    """Sizes and types of either half.

    `has_pooler` is the encoder's. Nothing reads it; public checkpoints of this kind hold it.
    """


SIZES = {
    'encoder_decoder': {
        size: fields | {'has_pooler': False} for size, fields in bert.SIZES['bert'].items()
    }
}


class DecoderLayer(bert.Layer):
    """Causal self-attention, attention over the encoded source, MLP."""

    config: EncoderDecoderConfig

    def setup(self):
        """Makes the parts."""
        super().setup()
        self.cross_attention = bert.attention(self.config, cross=True)
        self.cross_attention_norm = bert.norm(self.config)

    def __call__(
        self,
        x: jax.Array,  # [batch, targets, emb_dim]
        encoded: jax.Array,  # [batch, inputs, emb_dim]
        mask: jax.Array,  # [1 or batch, 1, targets, targets], 0 or MASKED
        cross_mask: jax.Array | None,  # [batch, 1, 1 or targets, inputs], 0 or MASKED
        train: bool,
    ) -> jax.Array:  # [batch, targets, emb_dim]
        """One layer of the decoder."""
        x = place(x)
        y = self.attention(x, mask=mask, train=train)
        x = self.attention_norm(x + self.dropout(y, train))
        y = self.cross_attention(x, encoded, mask=cross_mask, train=train)
        x = self.cross_attention_norm(x + self.dropout(y, train))
        return self.mlp_norm(x + self.dropout(self.mlp(x, train), train))

    def step(
        self,
        x: jax.Array,  # [rows, 1, emb_dim]
        past: dict[str, jax.Array],  # key and value of earlier tokens, see generator.empty_cache
        source: dict[str, jax.Array],  # key and value of the source
        mask: jax.Array,  # [batch, 1, beams, max_length * beams], 0 or MASKED
        cross_mask: jax.Array | None,  # [batch, 1, 1, inputs], 0 or MASKED
        index: jax.Array,  # [], position of this token
    ) -> tuple[jax.Array, dict[str, jax.Array]]:  # x and past, grown by this token
        """The layer for one token, with what earlier tokens left in `past`."""
        y, past = self.attention.step(x, past, index, mask=mask)
        x = self.attention_norm(x + y)
        x = self.cross_attention_norm(x + self.cross_attention.cross_step(x, source, cross_mask))
        return self.mlp_norm(x + self.mlp(x)), past


class Decoder(bert.Embedded):
    """The stack of decoder layers, with embeddings of its own."""

    config: EncoderDecoderConfig

    def setup(self):
        """Makes the parts."""
        super().setup()
        cfg = self.config
        layer = checkpointed(DecoderLayer, cfg.remat, train_argument=5)
        self.layers = [layer(cfg) for _ in range(cfg.num_layers)]

    def __call__(
        self,
        tokens: jax.Array,  # [batch, targets]
        encoded: jax.Array,  # [batch, inputs, emb_dim]
        encoder_segments: jax.Array | None,  # [batch, inputs]
        segments: jax.Array | None,  # [batch, targets]
        positions: jax.Array | None,  # [batch, targets]
        train: bool,
    ) -> jax.Array:  # [batch, targets, emb_dim]
        """Target tokens -> states of the last layer."""
        mask, cross_mask = generator.decoder_masks(tokens.shape[1], segments, encoder_segments)
        x = self.embed(tokens, positions, train=train)
        for layer in self.layers:
            x = layer(x, encoded, mask, cross_mask, train)
        return x

    def init_cache(
        self, encoded: jax.Array, encoder_segments: jax.Array | None, max_length: int, beams: int
    ) -> generator.Cache:
        """See generator.Generator.init_cache."""
        self.check_length(max_length)
        attentions = [layer.cross_attention for layer in self.layers]
        return generator.empty_cache(encoded, encoder_segments, attentions, max_length, beams)

    def step(self, cache: generator.Cache, tokens: jax.Array) -> tuple[jax.Array, generator.Cache]:
        """Tokens [rows, 1] -> states of the last layer [rows, 1, emb_dim], and the cache."""
        index = cache['index']
        cache, mask = generator.next_token(cache)
        x = self.embed(tokens, positions=index[None, None])
        grown = []
        for layer, past, source in zip(self.layers, cache['self'], cache['cross'], strict=True):
            x, past = layer.step(x, past, source, mask, cache['cross_mask'], index)
            grown.append(past)
        return x, {**cache, 'self': grown}


class LmHead(nn.Module):
    """The masked-language head, but for the token table: a layer and a norm; a bias for logits."""

    config: EncoderDecoderConfig

    def setup(self):
        """Makes the parts."""
        cfg = self.config
        self.dense = bert.dense(cfg, cfg.emb_dim)
        self.norm = bert.norm(cfg)
        init = nn.with_logical_partitioning(nn.initializers.zeros, ('vocab',))
        self.bias = self.param('bias', init, (cfg.vocab_size,), jnp.float32)

    def __call__(self, x: jax.Array) -> jax.Array:
        """x [batch, targets, emb_dim] -> the same shape."""
        return self.norm(ACTIVATIONS['gelu'](self.dense(x)))


class EncoderDecoder(generator.Generator):
    """Encoder-decoder over token ids, of two encoders."""

    config: EncoderDecoderConfig

    def setup(self):
        """Makes the parts."""
        self.encoder = bert.Bert(self.config)
        self.decoder = Decoder(self.config)
        self.lm_head = LmHead(self.config)

    def encode(
        self,
        encoder_input_tokens: jax.Array,  # [batch, inputs]
        encoder_segment_ids: jax.Array | None = None,  # [batch, inputs]
        encoder_positions: jax.Array | None = None,  # [batch, inputs]
        *,
        train: bool = False,
    ) -> jax.Array:  # [batch, inputs, emb_dim]
        """Source tokens -> encoded tokens."""
        return self.encoder(
            encoder_input_tokens, encoder_segment_ids, encoder_positions, train=train
        )

    def decode(
        self,
        encoded: jax.Array,  # [batch, inputs, emb_dim]
        decoder_input_tokens: jax.Array,  # [batch, targets]
        encoder_segment_ids: jax.Array | None = None,  # [batch, inputs]
        decoder_segment_ids: jax.Array | None = None,  # [batch, targets]
        decoder_positions: jax.Array | None = None,  # [batch, targets]
        *,
        train: bool = False,
    ) -> jax.Array:  # [batch, targets, emb_dim]
        """Target tokens -> states after the head's layer and norm."""
        states = self.decoder(
            decoder_input_tokens,
            encoded,
            encoder_segment_ids,
            decoder_segment_ids,
            decoder_positions,
            train,
        )
        return self.lm_head(states)

    def output_embedding(self) -> jax.Array:
        """The decoder's token table [vocab, emb_dim]."""
        return self.decoder.token_embedder.embedding

    def output_bias(self) -> jax.Array:
        """What is added to the logits, [vocab] float32."""
        return self.lm_head.bias

    def hidden_step(
        self, cache: generator.Cache, tokens: jax.Array
    ) -> tuple[jax.Array, generator.Cache]:
        """See Generator.hidden_step."""
        states, cache = self.decoder.step(cache, tokens[:, None])
        return self.lm_head(states)[:, 0], cache
