"""GPT-2 (OpenAI 2019, "Language Models are Unsupervised Multitask Learners") and DialoGPT.

One stack of causal layers over learned positions; each layer norms what its parts read, and the
stack its result. DialoGPT (arXiv:1911.00536) is the same model, trained on dialogues.

To objectives and decoders it is a `Generator`: an example's inputs and targets are one text, the
second part of which is scored or written. Decoding reads the inputs once, all together, and their
keys and values are shared by the beams. The position of a token is the number of tokens before it
in its example, so padding on either side changes nothing, and neither does what else is in a row.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from msgspec import Meta

from xlbench.models import generator, transformer
from xlbench.models.attention import KeysValues
from xlbench.models.layers import Embedding, Initializer, Mlp, TransformerConfig
from xlbench.models.masks import MaskSpec, mask_bias
from xlbench.models.positions import LearnedPositions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gpt2Config(TransformerConfig):
    """Sizes and types of one model.

    Attributes:
      num_layers: layers of the stack.
      max_positions: tokens that the learned positions suffice for, of inputs and targets together.
      activation: of the MLP; a name in layers.ACTIVATIONS.
      norm_epsilon: what layer norms add to the variance.
      init_std: standard deviation of fresh kernels and tables; kernels whose result is added to the
        residual have 1 / sqrt(2 * num_layers) of it (GPT-2's report, section 2.3).
      attention_dropout_rate: on attention weights.
    """

    num_layers: Annotated[int, Meta(ge=1, le=2**8)]
    max_positions: Annotated[int, Meta(ge=1, le=2**24)]
    activation: Literal['relu', 'gelu', 'gelu_tanh', 'swish', 'tanh'] = 'gelu_tanh'
    norm_epsilon: Annotated[float, Meta(ge=0, le=1)] = 1e-5
    init_std: Annotated[float, Meta(ge=0)] = 0.02
    attention_dropout_rate: Annotated[float, Meta(ge=0, lt=1)] = 0.1

    @property
    def init(self) -> Initializer:
        """Draws fresh kernels and tables."""
        return nn.initializers.normal(self.init_std)

    @property
    def inits(self) -> dict[str, Any]:
        residual = nn.initializers.normal(self.init_std / math.sqrt(2 * self.num_layers))
        return dict(kernel_init=self.init, out_kernel_init=residual)


# ---------------------------------------------------------------------------------------- the model


class Layer(transformer.Layer):
    """Causal self-attention and MLP, each after a norm."""

    config: Gpt2Config
    pre_norm = True

    def _mlp(self) -> Mlp:
        return Mlp(self.config, self.config.activation, use_bias=True, **self.config.inits)

    def prefill(
        self, x: jax.Array, bias: None, mask: jax.Array | MaskSpec
    ) -> tuple[jax.Array, KeysValues]:
        """The layer for whole texts, with the keys and values that `step` reads of them."""
        (norm, attention), (mlp_norm, mlp) = self.parts
        y, past = attention.prefill(norm(x), bias, mask)
        x = self._after(norm, x, y)
        return self._after(mlp_norm, x, mlp(mlp_norm(x))), past


class Decoder(transformer.Decoder):
    """The stack of layers, with its embeddings."""

    config: Gpt2Config
    layer, norm_name = Layer, 'final_norm'

    def setup(self):
        super().setup()
        cfg = self.config
        self.token_embedder = Embedding(cfg.vocab_size, cfg.emb_dim, cfg.dtype, cfg.init)
        self.position_embedder = LearnedPositions(
            cfg.max_positions, cfg.emb_dim, cfg.dtype, cfg.init
        )

    def __call__(  # type: ignore[override]  # There is no source.
        self, tokens: jax.Array, segment_ids: jax.Array | None, *, train: bool = False
    ) -> jax.Array:
        """Tokens of whole texts, [batch, length] -> normed states [batch, length, emb_dim].

        Raises:
          UserError: a row is longer than positions go.
        """
        mask, positions = self.look_back(tokens, segment_ids, train)
        arguments = (None, *self.of_layers(positions, mask), None, train)
        x = self.embed(tokens, positions, train)
        x = transformer.run_layers(self.layers, self.config.scan_layers, x, arguments)
        return self.normalize(x, train)

    def of_layers(self, positions: jax.Array, mask: jax.Array | MaskSpec) -> tuple:
        """Bias and mask, as layers read them, of positions [batch, length] and a mask."""
        del positions
        return None, mask

    def check_length(self, length: int) -> None:
        """Raises UserError where a text of `length` tokens has no positions."""
        self.position_embedder.check_length(length)

    def look_back(
        self, tokens: jax.Array, segment_ids: jax.Array | None, train: bool = False
    ) -> tuple[jax.Array | MaskSpec, jax.Array]:
        """Returns the attention mask of tokens [batch, length], and their positions in their texts.

        The mask is [1 or batch, 1, length, length], 0 or MASKED, and positions are [batch, length];
        without segments every row is one text.
        """
        length, mask = tokens.shape[1], MaskSpec(segment_ids, segment_ids, causal=True)
        self.check_length(length)
        seen: Any = mask.seen(length)
        positions = jnp.broadcast_to(jnp.sum(seen[:, 0], axis=-1) - 1, tokens.shape)
        if segment_ids is not None:  # Padding counts itself, and its position is nothing's.
            positions = jnp.where(segment_ids > 0, positions, 0)
        fused = self.takes_fused(tokens, length, train)
        return mask if fused else mask_bias(seen), positions

    def embed(self, tokens: jax.Array, positions: Any, train: bool) -> jax.Array:
        x = self.token_embedder(tokens) + self.position_embedder(positions)
        return self.dropout(x, train)

    def prefill(self, tokens: jax.Array, segment_ids: jax.Array | None) -> list[KeysValues]:
        """Tokens [batch, length] -> keys and values of each layer."""
        mask, positions = self.look_back(tokens, segment_ids)
        of_layers, past = self.of_layers(positions, mask), []
        x = self.embed(tokens, positions, False)
        for layer in self.layers:
            x, keys_values = layer.prefill(x, *of_layers)
            past.append(keys_values)
        return past

    def init_cache(
        self, encoded: Sequence[KeysValues], encoder_segment_ids, max_length: int, beams: int
    ) -> transformer.Cache:
        """The cache before the first token, with what `prefill` has `encoded` of the inputs."""
        batch, _, _, inputs = encoded[0]['key'].shape
        self.check_length(inputs + max_length)
        if encoder_segment_ids is None:
            encoder_segment_ids = jnp.ones((batch, inputs), jnp.int32)
        there = encoder_segment_ids > 0
        room = (0, max_length * beams)
        return {
            'index': jnp.zeros((), jnp.int32),
            'origin': jnp.zeros((batch, beams, max_length), jnp.int32),
            'self': [
                {
                    'key': jnp.pad(past['key'], [(0, 0)] * 3 + [room]),
                    'value': jnp.pad(past['value'], [(0, 0)] * 2 + [room, (0, 0)]),
                }
                for past in encoded
            ],
            'cross': [None] * len(encoded),
            'cross_mask': None,
            'prompt_mask': mask_bias(there[:, None, None, :]),
            'positions': jnp.sum(there, axis=1, dtype=jnp.int32),  # Of each row's first new token.
        }

    def embed_step(self, cache: transformer.Cache, tokens: jax.Array) -> jax.Array:
        """Tokens [rows, 1] behind the inputs and the cache's tokens -> [rows, 1, emb_dim]."""
        beams = cache['origin'].shape[1]
        positions = jnp.repeat(cache['positions'], beams)[:, None] + cache['index']
        return self.embed(tokens, positions, train=False)


class Gpt2(generator.Generator):
    """Decoder-only model over token ids; see the module's docstring."""

    config: Gpt2Config
    decoder_only: ClassVar[bool] = True

    def setup(self):
        self.decoder = Decoder(self.config)

    def output_embedding(self) -> jax.Array:
        return self.decoder.token_embedder.embedding

    def take_examples(self, cache: transformer.Cache, examples: jax.Array) -> transformer.Cache:
        taken = super().take_examples(cache, examples)
        return {**taken, 'positions': cache['positions'][examples]}  # Each example has one.

    def states(
        self,
        tokens: jax.Array,  # [batch, length]
        segment_ids: jax.Array | None = None,  # [batch, length]; 0 is padding
        *,
        train: bool = False,
    ) -> jax.Array:  # [batch, length, emb_dim]
        """Tokens of whole texts -> hidden states."""
        return self.decoder(tokens, segment_ids, train=train)

    def encode(
        self,
        encoder_input_tokens: jax.Array,  # [batch, inputs]
        encoder_segment_ids: jax.Array | None = None,  # [batch, inputs]; 0 is padding
        encoder_positions: jax.Array | None = None,
        encoder_language_ids: jax.Array | None = None,
        *,
        train: bool = False,
    ) -> list[KeysValues]:
        """Tokens of the inputs -> keys and values of each layer.

        Positions follow from the segments; those that are given are not looked at.
        """
        del encoder_positions, encoder_language_ids, train
        return self.decoder.prefill(encoder_input_tokens, encoder_segment_ids)

    def hidden(  # type: ignore[override]  # Its batches have neither languages nor marks.
        self,
        encoder_input_tokens: jax.Array,  # [batch, inputs]
        decoder_input_tokens: jax.Array,  # [batch, targets]
        encoder_segment_ids: jax.Array | None = None,  # [batch, inputs]; 0 is padding
        decoder_segment_ids: jax.Array | None = None,  # [batch, targets]; None: all of segment 1
        encoder_positions: jax.Array | None = None,
        decoder_positions: jax.Array | None = None,
        *,
        train: bool = False,
        of_inputs: bool = False,
    ) -> jax.Array:  # [batch, targets, emb_dim], or with `of_inputs` [batch, inputs + targets, ...]
        """The states of what follows the inputs of the same segment, or of both.

        Positions follow from the segments; those that are given are not looked at.
        """
        del encoder_positions, decoder_positions
        sides = (encoder_input_tokens, decoder_input_tokens)
        segments = None
        if encoder_segment_ids is not None or decoder_segment_ids is not None:
            pairs = zip(sides, (encoder_segment_ids, decoder_segment_ids), strict=True)
            filled = [jnp.ones_like(x) if ids is None else ids for x, ids in pairs]
            segments = jnp.concatenate(filled, axis=1)
        states = self.decoder(jnp.concatenate(sides, axis=1), segments, train=train)
        return states if of_inputs else states[:, encoder_input_tokens.shape[1] :]
