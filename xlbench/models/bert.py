"""BERT and mBERT (arXiv:1810.04805), RoBERTa (arXiv:1907.11692), XLM-R (arXiv:1911.02116), XLM.

The kinds differ in fields of the config: RoBERTa's table of positions begins with rows for its
padding symbol, it knows one type of token only, and its norms add another epsilon. XLM
(arXiv:1901.07291) knows no types, but may have a table of languages; DistilBERT (arXiv:1910.01108)
has neither. Positions are absolute, but in DeBERTa v3 and mDeBERTa v3 (arXiv:2111.09543).

An encoder-decoder (arXiv:1907.12461, bert2bert; MTG trains two, arXiv:2108.07140, appendix A) is
two of them: the decoder is the same stack, causal, with fresh attention over the source between
self-attention and MLP, and the masked-language head on top: a layer, a norm, and the decoder's own
token table with a bias. Each half has weights of its own, so that either is initialised from an
encoder by a prefix.
"""

import dataclasses
from typing import Annotated, Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from msgspec import Meta

from xlbench.models import generator, transformer
from xlbench.models.attention import Attention, SelfAttention
from xlbench.models.families import variant_of
from xlbench.models.layers import ACTIVATIONS, Dense, Embedding, Mlp, TransformerConfig, with_axes
from xlbench.models.masks import MaskSpec
from xlbench.models.positions import LearnedPositions, for_each_row
from xlbench.system import errors

INIT = nn.initializers.normal(0.02)  # arXiv:1810.04805's code: modeling.py, initializer_range.


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertConfig(TransformerConfig):
    """Sizes and types of one encoder.

    Attributes:
      num_layers: layers of the encoder.
      max_positions: tokens that the learned positions suffice for.
      position_offset: rows of their table that come before position 0: none in BERT; in RoBERTa
        the padding id and those below it, 2.
      type_vocab_size: types of tokens: first and second text in BERT; RoBERTa has one, XLM none.
      num_languages: rows of the table of languages that some XLMs have.
      norm_epsilon: what layer norms add to the variance.
      has_pooler: whether there is a layer over the first token's state, for `pool`.
      attention_dropout_rate: on attention weights.
      relpos_buckets: of distances in either direction, in DeBERTa; 0: positions are absolute.
      relpos_max_distance: from which on all distances are in one bucket.
      variant: whose names the parameters have in transformers, key of families.MODEL_TYPES; ''
        follows from the other fields.
    """

    num_layers: Annotated[int, Meta(ge=0, le=2**8)]
    max_positions: Annotated[int, Meta(ge=1, le=2**24)]
    position_offset: Annotated[int, Meta(ge=0, le=2**20)] = 0
    type_vocab_size: Annotated[int, Meta(ge=0, le=2**20)] = 2
    num_languages: Annotated[int, Meta(ge=0, le=2**20)] = 0
    norm_epsilon: Annotated[float, Meta(ge=0, le=1)] = 1e-12
    has_pooler: bool = True
    attention_dropout_rate: Annotated[float, Meta(ge=0, lt=1)] = 0.1
    relpos_buckets: Annotated[int, Meta(ge=0, le=2**16)] = 0
    relpos_max_distance: Annotated[int, Meta(ge=2, le=2**24)] = 512
    variant: str = ''

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, 'variant', variant_of(vars(self)))

    @property
    def inits(self) -> dict[str, Any]:
        return dict(kernel_init=INIT)


# ---------------------------------------------------------------------------------------- the model


def dense(cfg: BertConfig, features: int, axis: str = 'features') -> Dense:
    """A layer with a bias outside the stack: [features, emb_dim], its rows along `axis`."""
    return Dense(
        features, (axis, 'embed'), use_bias=True, matmul_dtype=cfg.operands, kernel_init=INIT
    )


def distance_buckets(length: int, buckets: int, max_distance: int) -> np.ndarray:
    """Rows of the table of distances, [queries, keys]: query position minus key position.

    As transformers computes them (models/deberta_v2: make_log_bucket_position), in float32.
    """
    distance = np.arange(length)[:, None] - np.arange(length)[None, :]
    half, size = buckets // 2, np.abs(distance)
    far = np.maximum(size, half).astype(np.float32) / np.float32(half)
    scale = np.log(np.float32((max_distance - 1) / half))
    far = np.ceil(np.log(far) / scale * np.float32(half - 1)) + half
    found = np.where(size <= half, distance, far * np.sign(distance)).astype(np.int32)
    return np.clip(found + buckets, 0, 2 * buckets - 1)


class DisentangledAttention(SelfAttention):
    """The attention of DeBERTa (arXiv:2006.03654) v2 and v3 over contents and distances.

    A logit is the sum of three products: of the query with the key, of the query with the embedded
    distance of the two tokens, and of the key with it. Queries and keys of distances are made by
    the same kernels (share_att_key), and distances are in buckets, which grow logarithmically from
    half of them on. Distances are those of the row, which is right for packed rows too.
    """

    config: BertConfig

    def __call__(self, x, bias: Any = None, mask: Any = None, train: bool = False) -> jax.Array:
        """Attends as SelfAttention; `bias` is embedded distances [2 * relpos_buckets, embed]."""
        q, k, v = self.project(x)
        of_queries, of_keys, _ = self.project(bias[None], length=None)
        cfg = self.config
        rows = distance_buckets(x.shape[1], cfg.relpos_buckets, cfg.relpos_max_distance)
        by_query = jnp.einsum('bhqd,hnd->bhqn', q, of_keys[0])
        by_key = jnp.einsum('bhkd,hnd->bhkn', k, of_queries[0])
        logits = jnp.take_along_axis(by_query, rows[None, None], axis=-1)
        logits += jnp.swapaxes(jnp.take_along_axis(by_key, rows.T[None, None], axis=-1), 2, 3)
        parts = 3**-0.5  # The sum of three products is divided by sqrt(3 head_dim).
        return self.attend(q * parts, k, v, logits.astype(jnp.float32) * parts, mask, train)


class Layer(transformer.Layer):
    """Self-attention and MLP; each is added to its input, and the sum is normed."""

    config: BertConfig
    pre_norm = False

    def _attention(self, kind: type[Attention]) -> nn.Module:
        by_distance = kind is SelfAttention and self.config.relpos_buckets
        return super()._attention(DisentangledAttention if by_distance else kind)

    def _mlp(self) -> Mlp:
        return Mlp(self.config, activation='gelu', use_bias=True, **self.config.inits)


class Stack(transformer.Stack):
    """A stack that begins with the sum of token, position and type, normed."""

    config: BertConfig

    layer = Layer

    def setup(self):
        super().setup()
        cfg = self.config
        rows = cfg.max_positions + cfg.position_offset
        table = (cfg.emb_dim, cfg.dtype, INIT)
        self.token_embedder = Embedding(cfg.vocab_size, *table)
        if cfg.relpos_buckets:
            distances = 2 * cfg.relpos_buckets
            self.distance_embedder = Embedding(distances, *table, rows='positions')
            self.distance_norm = cfg.norm()
        else:
            self.position_embedder = LearnedPositions(rows, *table, offset=cfg.position_offset)
        if cfg.type_vocab_size:
            self.type_embedder = Embedding(cfg.type_vocab_size, *table, rows='types')
        if cfg.num_languages:
            self.language_embedder = Embedding(cfg.num_languages, *table, rows='types')
        self.embeddings_norm = cfg.norm()

    def embed(
        self,
        tokens: jax.Array,  # [batch, length]
        positions: jax.Array | None,  # broadcasts to [batch, length]; None: 0, 1, 2, ...
        train: bool,
        type_ids: jax.Array | None = None,  # [batch, length]; None: all 0
        languages: jax.Array | None = None,  # [batch, length], rows of the table; -1, None: none
    ) -> jax.Array:  # [batch, length, emb_dim]
        """Tokens -> what the first layer reads.

        Raises:
          UserError: a row is longer than positions go.
        """
        x = self.token_embedder(tokens)
        if self.config.relpos_buckets:
            positions = None  # Layers have distances.
        elif positions is None:
            table = self.position_embedder.table(tokens.shape[1])
            x = x + for_each_row(table, len(x), x.dtype)
        else:
            x = x + self.position_embedder(positions)
        if type_ids is not None:
            x = x + self.type_embedder(type_ids)
        elif self.config.type_vocab_size:
            x = x + self.type_embedder.embedding[0].astype(x.dtype)
        if self.config.num_languages and languages is not None:
            rows = self.language_embedder(jnp.maximum(languages, 0))
            x = x + jnp.where(languages[..., None] >= 0, rows, 0)
        elif self.config.num_languages and self.is_initializing():
            self.language_embedder(jnp.zeros_like(tokens))  # So that its parameters exist.
        return self.dropout(self.embeddings_norm(x), train)

    def bias(self, length: int, fused: bool) -> jax.Array | None:
        """The embedded distances that DeBERTa's layers read, [2 * relpos_buckets, emb_dim]."""
        del length, fused
        if not self.config.relpos_buckets:
            return None
        return self.distance_norm(self.distance_embedder.embedding.astype(self.config.dtype))

    def takes_fused(self, tokens: jax.Array, keys: int, train: bool) -> bool:
        """Returns whether attention is fused; DeBERTa's has a bias of each pair of tokens."""
        return not self.config.relpos_buckets and super().takes_fused(tokens, keys, train)


class Bert(Stack, transformer.Encoder):
    """Encoder over token ids; see the module's docstring for the variants."""

    def setup(self):
        super().setup()
        if self.config.has_pooler:
            self.pooler = dense(self.config, self.config.emb_dim)

    def __call__(
        self,
        tokens: jax.Array,  # [batch, length]
        segment_ids: jax.Array | None = None,  # [batch, length]; 0 is padding
        positions: jax.Array | None = None,  # [batch, length]; None: 0, 1, 2, ...
        type_ids: jax.Array | None = None,  # [batch, length]; None: all 0
        languages: jax.Array | None = None,  # [batch, length], see `embed`
        *,
        train: bool = False,
    ) -> jax.Array:  # [batch, length, emb_dim]
        """Tokens -> encoded tokens."""
        mask = self.own_mask(tokens, segment_ids, train)
        x = self.run(self.embed(tokens, positions, train, type_ids, languages), mask, train)
        if self.config.has_pooler and self.is_initializing():
            self.pool(x)  # So that its parameters exist, whoever asks for them.
        return x

    def pool(self, encoded: jax.Array) -> jax.Array:
        """tanh(W h + b) of the first token's state: [batch, length, emb_dim] -> [batch, emb_dim].

        For rows that hold one example.
        """
        return jnp.tanh(self.pooler(encoded[:, 0]))

    def first_attention(
        self, tokens, segment_ids=None, positions=None, type_ids=None, languages=None
    ) -> jax.Array:  # [batch, heads, length], float32
        """Attention weights of the first token in the topmost layer; those of a head sum to 1.

        Arguments are those of `__call__`, which itself never divides its weights by their sum, see
        `dot_product_attention` of attention.py.
        """
        if self.config.relpos_buckets:
            raise errors.UserError('the attention of a DeBERTa cannot be looked at; name a BERT')
        mask = MaskSpec(segment_ids, segment_ids).array(tokens.shape[1])
        x = self.embed(tokens, positions, False, type_ids, languages)
        *below, top = self.layers
        for layer in below:
            x = layer(x, None, None, mask, None, False)
        q, k, _ = top.attention.project(x)
        logits = jnp.einsum('bhd,bhkd->bhk', q[:, :, 0], k, preferred_element_type=jnp.float32)
        return jax.nn.softmax(logits if mask is None else logits + mask[:, :, 0], axis=-1)


# ----------------------------------------------------------------- an encoder-decoder of two halves


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(BertConfig):
    """Sizes and types of either half.

    `has_pooler` is the encoder's. Nothing reads it; public checkpoints of this kind hold it.
    """

    def __post_init__(self):
        super().__post_init__()
        if self.relpos_buckets:
            raise errors.UserError('a DeBERTa cannot be half of an encoder_decoder; take a BERT')


class DecoderLayer(Layer):
    """Causal self-attention, attention over the encoded source, MLP."""

    names = (
        ('attention', 'attention_norm'),
        ('cross_attention', 'cross_attention_norm'),
        ('mlp', 'mlp_norm'),
    )


class Decoder(Stack, transformer.Decoder):
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
        self.dense = dense(cfg, cfg.emb_dim)
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
        self.encoder = Bert(self.config)
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
