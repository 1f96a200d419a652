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
from xlbench.models.attention import causal_mask
from xlbench.models.dense import ACTIVATIONS


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

    def setup(self):
        """Builds the encoder's layer with attention over the source in it."""
        super().setup()
        cfg = self.config
        self.cross_attention = transformer.cross_attention(cfg, **self.attention_fields())
        self.cross_attention_norm = bert.norm(cfg)
        self.parts = self.parts._replace(source=(self.cross_attention_norm, self.cross_attention))


class Decoder(bert.Stack, transformer.Decoder):
    """The stack of decoder layers, with embeddings of its own."""

    def setup(self):
        """Builds the embeddings and the layers."""
        super().setup()
        self.layers = transformer.layers(DecoderLayer, self.config, self.config.num_layers)

    def __call__(
        self,
        tokens: jax.Array,  # [batch, targets]
        encoded: jax.Array,  # [batch, inputs, emb_dim]
        encoder_segment_ids: jax.Array | None = None,  # [batch, inputs]
        segment_ids: jax.Array | None = None,  # [batch, targets]
        positions: jax.Array | None = None,  # [batch, targets]
        languages: jax.Array | None = None,  # [batch, targets], see bert.Stack.enter
        *,
        train: bool = False,
    ) -> jax.Array:  # [batch, targets, emb_dim]
        """Target tokens -> states of the last layer."""
        mask = causal_mask(tokens.shape[1], segment_ids)
        cross_mask = self.source_mask(encoded, segment_ids, encoder_segment_ids)
        x = self.enter(tokens, positions, train, languages=languages)
        return self.run(x, mask, train, encoded, cross_mask)

    def places(self, max_length: int) -> None:
        """Nothing; raises UserError where there are fewer positions."""
        self.position_embedder.check_length(max_length)

    def enter_step(self, cache: transformer.Cache, tokens: jax.Array) -> jax.Array:
        """Tokens [rows, 1] at the cache's position -> what the first layer reads."""
        languages = cache.get('languages')
        if languages is not None:  # [batch, 1]; the beams of an example side by side.
            languages = jnp.repeat(languages, tokens.shape[0] // languages.shape[0], axis=0)
        return self.enter(tokens, cache['index'][None, None], False, languages=languages)


class LmHead(nn.Module):
    """The masked-language head, but for the token table: a layer and a norm; a bias for logits."""

    config: EncoderDecoderConfig

    def setup(self):
        """Builds the dense layer, its norm and the bias of the logits."""
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
        """Builds encoder, decoder and the head of the logits."""
        self.encoder = bert.Bert(self.config)
        self.decoder = Decoder(self.config)
        self.lm_head = LmHead(self.config)

    @property
    def reads_languages(self) -> bool:
        """Whether the halves have tables of languages."""
        return self.config.num_languages > 0

    def encode(
        self,
        encoder_input_tokens: jax.Array,  # [batch, inputs]
        encoder_segment_ids: jax.Array | None = None,  # [batch, inputs]; 0 is padding
        encoder_positions: jax.Array | None = None,  # [batch, inputs]; None: 0, 1, 2, ...
        encoder_language_ids: jax.Array | None = None,  # [batch, inputs]: 0, or 1 + row of a table
        *,
        train: bool = False,
    ) -> jax.Array:  # [batch, inputs, emb_dim]
        """Source tokens -> encoded tokens."""
        return self.encoder(
            encoder_input_tokens,
            encoder_segment_ids,
            encoder_positions,
            languages=_rows(encoder_language_ids),
            train=train,
        )

    def decode(
        self,
        encoded: jax.Array,  # [batch, inputs, emb_dim]
        decoder_input_tokens: jax.Array,  # [batch, targets]
        encoder_segment_ids: jax.Array | None = None,  # [batch, inputs]
        decoder_segment_ids: jax.Array | None = None,  # [batch, targets]
        decoder_positions: jax.Array | None = None,  # [batch, targets]
        decoder_language_ids: jax.Array | None = None,  # [batch, targets]: 0, or 1 + row of a table
        *,
        train: bool = False,
    ) -> jax.Array:  # [batch, targets, emb_dim]
        """Target tokens -> hidden states, of which `logits` makes the scores of the next tokens."""
        states = self.decoder(
            decoder_input_tokens,
            encoded,
            encoder_segment_ids,
            decoder_segment_ids,
            decoder_positions,
            _rows(decoder_language_ids),
            train=train,
        )
        return self.head(states)

    def init_cache(
        self,
        encoded: jax.Array,  # [batch, inputs, emb_dim]
        encoder_segment_ids: jax.Array | None,  # [batch, inputs]
        max_length: int,
        beams: int = 1,
        decoder_language_ids: jax.Array | None = None,  # [batch, 1 or more]: of the first token
    ) -> transformer.Cache:
        """The cache of decoding, see Generator; a text has one language."""
        cache = super().init_cache(encoded, encoder_segment_ids, max_length, beams)
        if decoder_language_ids is None:
            return cache
        return {**cache, 'languages': _rows(decoder_language_ids[:, :1])}

    def head(self, states: jax.Array) -> jax.Array:
        """The decoder's states [batch, targets, emb_dim] after the head's layer and norm."""
        return self.lm_head(states)

    def output_embedding(self) -> jax.Array:
        """The decoder's token table [vocab, emb_dim]."""
        return self.decoder.token_embedder.embedding

    def token_bias(self) -> jax.Array:
        """The bias of the logits, [vocab] float32."""
        return self.lm_head.bias


def _rows(language_ids: jax.Array | None) -> jax.Array | None:
    """Languages as batches have them -> rows of the table, -1 for none."""
    return None if language_ids is None else language_ids - 1
