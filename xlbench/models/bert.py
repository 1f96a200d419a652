"""BERT and mBERT (arXiv:1810.04805), RoBERTa and XLM-R (arXiv:1911.02116): one encoder.

The two kinds differ in fields of the config: RoBERTa's table of positions begins with rows for its
padding symbol, it knows one type of token only, and its norms add another epsilon. Positions are
absolute: 0, 1, 2, ... in a row that holds one example, and those that `positions` gives in packed
rows. Segment 0 is padding; without segments every token is seen.
"""

import dataclasses
from typing import Annotated, Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from xlbench.errors import UserError
from xlbench.models.attention import Attention, mask_bias, same_segment
from xlbench.models.dense import Dense, Dropout, Mlp, positions_shared
from xlbench.models.embeddings import Embedding
from xlbench.models.norms import LayerNorm
from xlbench.models.placement import place
from xlbench.models.transformer import check_config, checkpointed

INIT = nn.initializers.normal(0.02)  # arXiv:1810.04805's code: modeling.py, initializer_range.


@dataclasses.dataclass(frozen=True, kw_only=True)
class BertConfig:
    """Sizes and types of one encoder.

    Attributes:
      vocab_size: rows of the embedding table.
      max_positions: tokens that the learned positions suffice for.
      position_offset: rows of their table that come before position 0: none in BERT; in RoBERTa
        the padding id and those below it, 2.
      type_vocab_size: types of tokens: first and second text in BERT; RoBERTa has one.
      norm_epsilon: what layer norms add to the variance.
      has_pooler: whether there is a layer over the first token's state, for `pool`.
      dropout_rate: on embeddings and residuals.
      attention_dropout_rate: on attention weights.
      shared_dropout: one mask for all positions of a row, which is cheaper; False draws one per
        position, as transformers does.
      dtype: type of activations.
      matmul_dtype: type of the operands of products with parameters; None means `dtype`.
      remat: what is recomputed in the backward pass: 'none', 'dots' (all but products), 'full'.
    """

    vocab_size: Annotated[int, '0 to 2**26']
    emb_dim: Annotated[int, '1 to 2**20']
    num_heads: Annotated[int, '1 to 2**20']
    head_dim: Annotated[int, '1 to 2**20']
    mlp_dim: Annotated[int, '1 to 2**20']
    num_layers: Annotated[int, '0 to 2**8']
    max_positions: Annotated[int, '1 to 2**24']
    position_offset: Annotated[int, '0 to 2**20'] = 0
    type_vocab_size: Annotated[int, '1 to 2**20'] = 2
    norm_epsilon: Annotated[float, '0 to 1'] = 1e-12
    has_pooler: bool = True
    dropout_rate: Annotated[float, '0 or more, below 1'] = 0.1
    attention_dropout_rate: Annotated[float, '0 or more, below 1'] = 0.1
    shared_dropout: bool = True
    dtype: str = 'float32'
    matmul_dtype: str | None = None
    remat: str = 'none'

    def __post_init__(self):
        check_config(self)

    @property
    def operands(self) -> str:
        """The type of the operands of products with parameters."""
        return self.matmul_dtype or self.dtype


def _size(vocab_size: int, emb_dim: int, num_heads: int, num_layers: int, **more) -> dict[str, Any]:
    sizes = dict(
        vocab_size=vocab_size,
        emb_dim=emb_dim,
        num_heads=num_heads,
        head_dim=emb_dim // num_heads,
        mlp_dim=4 * emb_dim,
        num_layers=num_layers,
        max_positions=512,
    )
    return sizes | more


_ROBERTA = dict(position_offset=2, type_vocab_size=1, norm_epsilon=1e-5)
# SIZES[family][size]: fields of the config.
SIZES = {
    'bert': {
        # Ours, with mBERT's vocabulary: learns the sample corpora in minutes on a CPU.
        'sample': _size(119547, 128, 4, 2, mlp_dim=256),
        # arXiv:1810.04805 section 3; huggingface.co/google-bert/bert-{base,large}-uncased and
        # bert-base-multilingual-cased, config.json.
        'base': _size(30522, 768, 12, 12),
        'large': _size(30522, 1024, 16, 24),
        'mbert': _size(119547, 768, 12, 12),
        # arXiv:1911.02116 table 6; huggingface.co/FacebookAI/xlm-roberta-{base,large} config.json.
        'xlmr_base': _size(250002, 768, 12, 12, **_ROBERTA),
        'xlmr_large': _size(250002, 1024, 16, 24, **_ROBERTA),
    }
}


# ---------------------------------------------------------------------------------------- the parts


def attention(cfg: BertConfig, cross: bool = False) -> Attention:
    """Attention within a text, or from a decoder's over the source."""
    return Attention(
        num_heads=cfg.num_heads,
        head_dim=cfg.head_dim,
        out_features=cfg.emb_dim,
        cross=cross,
        use_bias=True,
        scaled=True,
        dropout_rate=cfg.attention_dropout_rate,
        shared_dropout=cfg.shared_dropout,
        matmul_dtype=cfg.operands,
        kernel_init=INIT,
    )


def dropout(cfg: BertConfig) -> Dropout:
    """Dropout of embeddings and residuals."""
    return Dropout(cfg.dropout_rate, positions_shared(cfg.shared_dropout))


def norm(cfg: BertConfig) -> LayerNorm:
    """A layer norm with the model's epsilon."""
    return LayerNorm(cfg.norm_epsilon)


def dense(cfg: BertConfig, features: int, axis: str = 'features') -> Dense:
    """A layer with a bias outside the stack: [features, emb_dim], its rows along `axis`."""
    return Dense(
        features, (axis, 'embed'), use_bias=True, matmul_dtype=cfg.operands, kernel_init=INIT
    )


class Layer(nn.Module):
    """Self-attention and MLP; each is added to its input, and the sum is normed."""

    config: BertConfig

    def setup(self):
        """Makes the parts."""
        cfg = self.config
        self.attention = attention(cfg)
        self.attention_norm = norm(cfg)
        self.mlp = Mlp(
            features=cfg.mlp_dim,
            activation='gelu',
            use_bias=True,
            matmul_dtype=cfg.operands,
            kernel_init=INIT,
        )
        self.mlp_norm = norm(cfg)
        self.dropout = dropout(cfg)

    def __call__(
        self,
        x: jax.Array,  # [batch, length, emb_dim]
        mask: jax.Array | None,  # [batch, 1, length, length], 0 or MASKED
        train: bool,
    ) -> jax.Array:  # [batch, length, emb_dim]
        """One layer of the encoder."""
        x = place(x)
        y = self.attention(x, mask=mask, train=train)
        x = self.attention_norm(x + self.dropout(y, train))
        return self.mlp_norm(x + self.dropout(self.mlp(x, train), train))


class Embedded(nn.Module):
    """What a stack begins with: the sum of token, position and type, normed."""

    config: BertConfig

    def setup(self):
        """Makes the parts."""
        cfg = self.config
        rows = cfg.max_positions + cfg.position_offset
        table = (cfg.emb_dim, cfg.dtype, INIT)
        self.token_embedder = Embedding(cfg.vocab_size, *table)
        self.position_embedder = Embedding(rows, *table, rows='positions')
        self.type_embedder = Embedding(cfg.type_vocab_size, *table, rows='types')
        self.embeddings_norm = norm(cfg)
        self.dropout = dropout(cfg)

    def embed(
        self,
        tokens: jax.Array,  # [batch, length]
        positions: jax.Array | None = None,  # broadcasts to [batch, length]; None: 0, 1, 2, ...
        type_ids: jax.Array | None = None,  # [batch, length]; None: all 0
        train: bool = False,
    ) -> jax.Array:  # [batch, length, emb_dim]
        """Tokens -> what the first layer reads.

        Raises:
          UserError: a row is longer than positions go.
        """
        offset = self.config.position_offset
        x = self.token_embedder(tokens)
        if positions is None:
            length = tokens.shape[1]
            self.check_length(length)
            x = x + self.position_embedder.embedding[offset : offset + length].astype(x.dtype)
        else:
            x = x + self.position_embedder(positions + offset)
        if type_ids is None:
            x = x + self.type_embedder.embedding[0].astype(x.dtype)
        else:
            x = x + self.type_embedder(type_ids)
        return self.dropout(self.embeddings_norm(x), train)

    def check_length(self, length: int) -> None:
        """Raises UserError where a text of `length` tokens has no positions."""
        if length > self.config.max_positions:
            raise UserError(
                f'a sequence of {length} tokens does not fit a model with '
                f'{self.config.max_positions} learned positions; shorten the lengths of the '
                'batches, or of what is decoded'
            )


# ---------------------------------------------------------------------------------------- the model


class Bert(Embedded):
    """Encoder over token ids; see the module's docstring for the variants."""

    config: BertConfig

    def setup(self):
        """Makes the parts."""
        super().setup()
        cfg = self.config
        layer = checkpointed(Layer, cfg.remat, train_argument=3)
        self.layers = [layer(cfg) for _ in range(cfg.num_layers)]
        if cfg.has_pooler:
            self.pooler = dense(cfg, cfg.emb_dim)

    def __call__(
        self,
        tokens: jax.Array,  # [batch, length]
        segment_ids: jax.Array | None = None,  # [batch, length]; 0 is padding
        positions: jax.Array | None = None,  # [batch, length]; None: 0, 1, 2, ...
        type_ids: jax.Array | None = None,  # [batch, length]; None: all 0
        *,
        train: bool = False,
    ) -> jax.Array:  # [batch, length, emb_dim]
        """Tokens -> encoded tokens."""
        mask = _mask(segment_ids)
        x = self.embed(tokens, positions, type_ids, train)
        for layer in self.layers:
            x = layer(x, mask, train)
        if self.config.has_pooler and self.is_initializing():
            self.pool(x)  # So that its parameters exist, whoever asks for them.
        return x

    def pool(self, encoded: jax.Array) -> jax.Array:
        """tanh(W h + b) of the first token's state: [batch, length, emb_dim] -> [batch, emb_dim].

        Of the row's first token, so that it is for rows that hold one example.
        """
        return jnp.tanh(self.pooler(encoded[:, 0]))

    def first_attention(
        self,
        tokens: jax.Array,  # [batch, length]
        segment_ids: jax.Array | None = None,  # [batch, length]; 0 is padding
        positions: jax.Array | None = None,  # [batch, length]; None: 0, 1, 2, ...
        type_ids: jax.Array | None = None,  # [batch, length]; None: all 0
    ) -> jax.Array:  # [batch, heads, length], float32
        """How the first token shares out its attention in the topmost layer; a sum is 1.

        Computed apart, because `__call__` never divides its weights: see `dot_product_attention`
        of attention.py.
        """
        mask = _mask(segment_ids)
        x = self.embed(tokens, positions, type_ids)
        *below, top = self.layers
        for layer in below:
            x = layer(x, mask, False)
        q, k, _ = top.attention.project(x)
        logits = jnp.einsum('bhd,bhkd->bhk', q[:, :, 0], k, preferred_element_type=jnp.float32)
        return jax.nn.softmax(logits if mask is None else logits + mask[:, :, 0], axis=-1)


def _mask(segment_ids: jax.Array | None) -> jax.Array | None:
    """Segments [batch, length] -> [batch, 1, length, length], 0 or MASKED."""
    if segment_ids is None:
        return None
    return mask_bias(same_segment(segment_ids, segment_ids))
