"""Decoders of today: Llama, Mistral, Qwen 2 and 3, Gemma 1 to 3; one stack, told apart by fields.

Positions are rotations of queries and keys (RoPE, arXiv:2104.09864), several queries share a key
and a value (GQA, arXiv:2305.13245), norms are RMS norms and MLPs gated (arXiv:2002.05202). Llama:
arXiv:2302.13971, arXiv:2407.21783; Mistral, whose layers see a window: arXiv:2310.06825; Qwen:
arXiv:2407.10671, arXiv:2505.09388; Gemma: arXiv:2403.08295, arXiv:2408.00118, arXiv:2503.19786.
Objectives and decoders see what they see of GPT-2, see gpt2.py.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from msgspec import Meta

from xlbench.models import attention, gpt2, layers, transformer
from xlbench.models.cpu_kernels import dot_heads
from xlbench.models.masks import mask_bias
from xlbench.system import errors

ROPE_FORMS = ('default', 'linear', 'llama3')
# [batch, length, head_dim / 2] each.
Rotation = tuple[jax.Array, jax.Array]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LlamaConfig(gpt2.Gpt2Config):
    """Sizes and types of one model; there is no dropout unless a config asks for it.

    Attributes:
      num_kv_heads: heads of keys and values; equally many queries share each.
      max_positions: tokens of a text that the model was made for.
      tied_embeddings: whether the input table also gives the logits.
      scaled_embeddings: tokens are multiplied by sqrt(emb_dim) (Gemma).
      unit_norms: norms multiply by 1 + their parameter (Gemma).
      post_norms: what a part gives is normed, too (Gemma 2 and 3).
      qk_norm: queries and keys are normed, each head alone (Qwen 3, Gemma 3).
      qkv_bias: a bias of queries, keys and values (Qwen 2).
      out_bias: a bias of what attention gives.
      mlp_bias: a bias in the MLP.
      query_scale: queries are divided by its square root; 0: by that of head_dim.
      attention_softcap: logits of attention are c tanh(logits / c); 0: as they are (Gemma 2: 50).
      logits_softcap: likewise the logits of tokens (Gemma 2: 30).
      window: tokens that a layer with a window sees, its own among them; 0: no layer has one.
      full_every: each n-th layer has no window; 0: all have one.
      rope_theta: base of the rotations' frequencies.
      local_rope_theta: that of layers with a window; 0: the same (Gemma 3: 10,000).
      rope_form: how frequencies are stretched for long texts: 'default' leaves them, 'linear'
        divides all by rope_factor, 'llama3' the low ones (arXiv:2407.21783, section 3.4.2).
      rope_factor: see rope_form.
      rope_low, rope_high: of 'llama3', wavelengths in rope_original tokens between which
        frequencies are more and more stretched.
      rope_original: tokens of the texts before that.
    """

    num_kv_heads: Annotated[int, Meta(ge=1, le=2**20)]
    activation: Literal['relu', 'gelu', 'gelu_tanh', 'swish', 'tanh'] = 'swish'
    norm_epsilon: Annotated[float, Meta(ge=0, le=1)] = 1e-6
    dropout_rate: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    attention_dropout_rate: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    tied_embeddings: bool = False
    scaled_embeddings: bool = False
    unit_norms: bool = False
    post_norms: bool = False
    qk_norm: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    query_scale: Annotated[int, Meta(ge=0, le=2**24)] = 0
    attention_softcap: Annotated[float, Meta(ge=0)] = 0.0
    logits_softcap: Annotated[float, Meta(ge=0)] = 0.0
    window: Annotated[int, Meta(ge=0, le=2**24)] = 0
    full_every: Annotated[int, Meta(ge=0, le=2**8)] = 0
    rope_theta: Annotated[float, Meta(gt=0)] = 10_000.0
    local_rope_theta: Annotated[float, Meta(ge=0)] = 0.0
    rope_form: str = 'default'
    rope_factor: Annotated[float, Meta(gt=0)] = 1.0
    rope_low: Annotated[float, Meta(gt=0)] = 1.0
    rope_high: Annotated[float, Meta(gt=0)] = 4.0
    rope_original: Annotated[int, Meta(ge=1, le=2**24)] = 8192

    def __post_init__(self):
        super().__post_init__()
        errors.check_known('rope_form', self.rope_form, ROPE_FORMS)
        if self.num_heads % self.num_kv_heads:
            raise errors.UserError(
                f'num_kv_heads={self.num_kv_heads} does not divide num_heads={self.num_heads}'
            )
        if self.scan_layers and len(set(self.windowed)) > 1:
            raise errors.UserError(
                'scan_layers makes a loop of equal layers, and some here have a window; set it to 0'
            )

    def norm(self) -> layers.RMSNorm:
        return layers.RMSNorm(self.norm_epsilon, self.unit_norms)

    @property
    def windowed(self) -> list[bool]:
        """True for each layer that has a window."""
        every = self.full_every
        numbers = range(1, self.num_layers + 1)
        return [self.window > 0 and (not every or n % every > 0) for n in numbers]


def frequencies(cfg: LlamaConfig, local: bool) -> np.ndarray:
    """The angle of each pair of features from one position to the next, [head_dim / 2]."""
    if local and cfg.local_rope_theta:
        return cfg.local_rope_theta ** (-np.arange(0, cfg.head_dim, 2) / cfg.head_dim)
    found = cfg.rope_theta ** (-np.arange(0, cfg.head_dim, 2) / cfg.head_dim)
    if cfg.rope_form == 'linear':
        return found / cfg.rope_factor
    if cfg.rope_form == 'default':
        return found
    turns = cfg.rope_original * found / (2 * math.pi)  # In a text of the original length.
    kept = np.clip((turns - cfg.rope_low) / (cfg.rope_high - cfg.rope_low), 0, 1)
    return found * (kept + (1 - kept) / cfg.rope_factor)


def rotation(cfg: LlamaConfig, positions: jax.Array, local: bool) -> Rotation:
    """Cosines and sines of positions [batch, length], float32."""
    angles = positions[..., None].astype(jnp.float32) * frequencies(cfg, local).astype(np.float32)
    return jnp.cos(angles), jnp.sin(angles)


def rotate(x: jax.Array, by: Rotation) -> jax.Array:
    """Turns features i and i + head_dim / 2 of x [batch, heads, length, head_dim] as a pair."""
    cos, sin = (part[:, None].astype(x.dtype) for part in by)
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


# ---------------------------------------------------------------------------------------- the model


class SharedAttention(attention.SelfAttention):
    """Attention within a text, in which several queries share a key and a value.

    Queries are one kernel, keys and values another. The cache has the shared heads alone.
    """

    config: LlamaConfig

    def setup(self):
        attention.Attention.setup(self)  # Without one kernel for all three.
        cfg = self.config
        axes, init = ('joined_kv', 'embed'), self.kernel_init or cfg.init
        types = cfg.qkv_bias, cfg.operands, init
        self.query = layers.Dense(cfg.num_heads * cfg.head_dim, axes, 0, *types)
        self.kv = layers.Dense(cfg.num_kv_heads * cfg.head_dim, axes, 2, *types)
        if cfg.qk_norm:
            self.query_norm, self.key_norm = cfg.norm(), cfg.norm()

    def project(
        self, x: jax.Array, bias: Any = None, length: str | None = 'length'
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """x [batch, length, embed] -> q [batch, heads, length, head_dim], k, v of shared heads."""
        cfg = self.config
        q = attention.split_heads(self.query(x), cfg.num_heads, length)
        k, v = (
            jnp.swapaxes(y.reshape(*y.shape[:2], cfg.num_kv_heads, -1), 1, 2)
            for y in layers.unstack(self.kv(x))
        )
        if cfg.qk_norm:
            q, k = self.query_norm(q), self.key_norm(k)
        return rotate(q, bias) * (cfg.query_scale or cfg.head_dim) ** -0.5, rotate(k, bias), v

    def attend(self, q, k, v, bias=None, mask: Any = None, train: bool = False) -> jax.Array:
        """Attention of the q, k, v of `project` -> [batch, length, out_features]."""
        del bias  # Queries and keys are rotated by now.
        cfg = self.config
        share = cfg.num_heads // cfg.num_kv_heads
        axes = ('batch', 'heads', None, None)
        k, v = (layers.constrain(jnp.repeat(y, share, 1), *axes) for y in (k, v))
        if cfg.attention_softcap:
            y = self._capped(q, k, self.dropout(v, train), mask, 3)
            return self.out(attention.join_heads(y))
        return super().attend(q, k, v, None, mask, train)

    def _capped(self, q, k, v, mask: jax.Array, features: int) -> jax.Array:
        """Attention whose logits are soft-capped; `features` is their axis in k."""
        cap = self.config.attention_softcap
        logits = cap * jnp.tanh(dot_heads(q, k, (3, features)) / cap) + mask
        weights = jax.nn.softmax(logits, axis=-1).astype(v.dtype)
        return dot_heads(weights, v, (3, 2)).astype(q.dtype)

    def over(self, q, past: attention.KeysValues, bias, mask: Any) -> jax.Array:
        del bias  # Queries are rotated by now. Those that share a key are further rows of it.
        cfg, beams = self.config, q.shape[2]
        share = cfg.num_heads // cfg.num_kv_heads
        rows = q.reshape(len(q), cfg.num_kv_heads, share * beams, cfg.head_dim)
        mask = jnp.tile(mask, (1, 1, share, 1))
        if cfg.attention_softcap:
            y = self._capped(rows, past['key'], past['value'], mask, 2)
        else:
            y = attention.step_attention(rows, past['key'], past['value'], None, mask)
        return y.reshape(q.shape)


class Layer(gpt2.Layer):
    """Causal self-attention and MLP, each after a norm, in Gemma 2 and 3 also before one."""

    config: LlamaConfig
    windowed: bool = False

    kinds = (SharedAttention,)

    def setup(self):
        super().setup()
        if self.config.post_norms:
            self.attention_post_norm, self.mlp_post_norm = self.config.norm(), self.config.norm()

    def _attention(self, kind: type[attention.Attention]) -> attention.Attention:
        cfg = self.config
        rate = cfg.attention_dropout_rate
        return kind(cfg, use_bias=cfg.out_bias, dropout_rate=rate, **cfg.inits)

    def _mlp(self) -> layers.Mlp:
        cfg = self.config
        return layers.Mlp(cfg, cfg.activation, gated=True, use_bias=cfg.mlp_bias, **cfg.inits)

    def __call__(self, x, encoded, bias, mask, cross_mask, train: bool) -> jax.Array:
        """The layer for whole texts; of bias and mask there are those of both kinds of layers."""
        own = bias[self.windowed], mask[self.windowed]
        return super().__call__(x, encoded, *own, cross_mask, train)

    def _after(self, norm: nn.Module, x: jax.Array, y: jax.Array) -> jax.Array:
        if self.config.post_norms:
            y = (self.attention_post_norm if norm is self.attention_norm else self.mlp_post_norm)(y)
        return x + y

    def step(self, x, past, source, bias, mask, cross_mask, place):
        """The layer for one token; the bias is its rotation, and what a window hides."""
        by, window = bias
        return super().step(x, past, source, by, mask + window, cross_mask, place)

    def prefill(self, x, bias, mask) -> tuple[jax.Array, attention.KeysValues]:
        return super().prefill(x, bias[self.windowed], mask[self.windowed])


class Decoder(gpt2.Decoder):
    """The stack of layers, with its embeddings."""

    config: LlamaConfig

    def setup(self):
        cfg = self.config
        self.token_embedder = layers.Embedding(cfg.vocab_size, cfg.emb_dim, cfg.dtype, cfg.init)
        made = transformer.checkpointed(Layer, cfg.remat)
        self.layers = [made(cfg, windowed) for windowed in cfg.windowed]
        self.final_norm = cfg.norm()
        self.dropout = layers.dropout(cfg, cfg.dropout_rate)

    def check_length(self, length: int) -> None:
        """Rotations have no end."""

    def takes_fused(self, tokens: jax.Array, keys: int, train: bool) -> bool:
        """Returns whether attention is fused; windows and capped logits need a mask."""
        needs_mask = self.config.window or self.config.attention_softcap
        return not needs_mask and super().takes_fused(tokens, keys, train)

    def of_layers(self, positions: jax.Array, mask: Any) -> tuple[tuple, tuple]:
        """Rotations and masks of layers without and with a window."""
        cfg = self.config
        rotations = tuple(rotation(cfg, positions, local) for local in (False, True))
        if not cfg.window:
            return rotations, (mask, mask)
        distance = positions[:, None, :, None] - positions[:, None, None, :]
        return rotations, (mask, mask + mask_bias(distance < cfg.window))

    def embed(self, tokens: jax.Array, positions: jax.Array | None, train: bool) -> jax.Array:
        x = self.token_embedder(tokens)
        if self.config.scaled_embeddings:
            x = x * jnp.asarray(self.config.emb_dim**0.5, self.config.dtype)
        return self.dropout(x, train)

    def bias_step(self, cache: transformer.Cache) -> Sequence[tuple[Rotation, jax.Array]]:
        """The rotation of the new tokens in each layer, and what its window hides."""
        cfg, index = self.config, cache['index']
        _, beams, room = cache['origin'].shape
        now = cache['positions'] + index  # [batch]
        there = cache['prompt_mask'] == 0  # [batch, 1, 1, inputs]
        prompt = jnp.cumsum(there, axis=-1) - 1
        new = cache['positions'][:, None] + jnp.repeat(jnp.arange(room), beams)
        keys = jnp.concatenate([prompt, new[:, None, None]], axis=-1)
        hidden = mask_bias(now[:, None, None, None] - keys < cfg.window)
        of_rows = jnp.broadcast_to(now[:, None], (len(now), beams))
        kinds = [
            (rotation(cfg, of_rows, local), hidden if local else jnp.zeros((1, 1, 1, 1)))
            for local in (False, True)
        ]
        return [kinds[windowed] for windowed in cfg.windowed]


class Llama(gpt2.Gpt2):
    """Decoder-only model over token ids; see the module's docstring."""

    config: LlamaConfig

    def setup(self):
        cfg = self.config
        self.decoder = Decoder(cfg)
        if not cfg.tied_embeddings:
            self.logits_dense = layers.OutputEmbedding(cfg.vocab_size, cfg.emb_dim)

    @property
    def logits_softcap(self) -> float:
        return self.config.logits_softcap

    def output_embedding(self) -> jax.Array:
        if self.config.tied_embeddings:
            return super().output_embedding()
        return self.logits_dense()
