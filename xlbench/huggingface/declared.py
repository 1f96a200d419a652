"""The type and range of each key that is read from a checkpoint's config.json.

Anybody may have written a checkpoint. Its sizes go into shapes and loops before any tensor is read,
so they have to stay below limits that no real model reaches; keys that xlbench does not read may
hold anything. transformers' AutoConfig is not used: it fills in every missing size, so that a
damaged file would pass for a model of other sizes.
"""

import pathlib
from typing import Annotated

import msgspec

from xlbench.system import files
from xlbench.system.files import Json

Size = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)] | None
Rows = Annotated[int, msgspec.Meta(ge=1, le=1 << 28)] | None  # Of tables.
Layers = Annotated[int, msgspec.Meta(ge=1, le=256)] | None
Positions = Annotated[int, msgspec.Meta(ge=1, le=1 << 22)] | None
Token = Annotated[int, msgspec.Meta(ge=-1, le=1 << 28)] | None
Rate = Annotated[float, msgspec.Meta(ge=0, lt=1)] | None
Factor = Annotated[float, msgspec.Meta(gt=0, le=1e12)] | None


class Rope(msgspec.Struct):
    """How positions are rotated; of each kind of layer, where they differ."""

    rope_type: str | None = None
    type: str | None = None
    rope_theta: Factor = None
    factor: Factor = None
    low_freq_factor: Factor = None
    high_freq_factor: Factor = None
    original_max_position_embeddings: Positions = None
    full_attention: 'Rope | None' = None
    sliding_attention: 'Rope | None' = None


class Config(msgspec.Struct):
    """A key of config.json is of this type, null or not there."""

    model_type: str | None = None
    architectures: list[str] | None = None
    # Sizes, as T5, BART, BERT, GPT-2 and XLM call them.
    vocab_size: Rows = None
    decoder_vocab_size: Rows = None
    d_model: Size = None
    d_kv: Size = None
    d_ff: Size = None
    hidden_size: Size = None
    intermediate_size: Size = None
    dim: Size = None
    hidden_dim: Size = None
    encoder_ffn_dim: Size = None
    decoder_ffn_dim: Size = None
    num_heads: Size = None
    num_attention_heads: Size = None
    encoder_attention_heads: Size = None
    decoder_attention_heads: Size = None
    num_layers: Layers = None
    num_decoder_layers: Layers = None
    num_hidden_layers: Layers = None
    encoder_layers: Layers = None
    decoder_layers: Layers = None
    max_position_embeddings: Positions = None
    type_vocab_size: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)] | None = None
    n_embd: Size = None
    emb_dim: Size = None
    n_heads: Size = None
    n_layers: Layers = None
    n_langs: Size = None
    n_words: Rows = None
    n_inner: Size = None
    n_head: Size = None
    n_layer: Layers = None
    n_positions: Positions = None
    num_key_value_heads: Size = None
    head_dim: Size = None
    sliding_window: Positions = None
    sliding_window_pattern: Layers = None
    position_buckets: Size = None
    max_relative_positions: Annotated[int, msgspec.Meta(ge=-1, le=1 << 22)] | None = None
    pos_att_type: str | list[str] | None = None
    cls_dropout: Rate = None
    max_window_layers: Annotated[int, msgspec.Meta(ge=0, le=256)] | None = None
    layer_types: list[str] | None = None
    rope_parameters: Rope | None = None
    rope_scaling: Rope | None = None
    rope_theta: Factor = None
    rope_local_base_freq: Factor = None
    query_pre_attn_scalar: Size = None
    attn_logit_softcapping: Factor = None
    final_logit_softcapping: Factor = None
    relative_attention_num_buckets: Annotated[int, msgspec.Meta(ge=4, le=1 << 16)] | None = None
    relative_attention_max_distance: Positions = None
    # Rates and forms.
    dropout: Rate = None
    dropout_rate: Rate = None
    attention_dropout: Rate = None
    activation_dropout: Rate = None
    hidden_dropout_prob: Rate = None
    attention_probs_dropout_prob: Rate = None
    resid_pdrop: Rate = None
    embd_pdrop: Rate = None
    attn_pdrop: Rate = None
    classifier_dropout: Rate = None
    seq_classif_dropout: Rate = None
    init_std: Annotated[float, msgspec.Meta(gt=0, le=100)] | None = None
    initializer_range: Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None
    layer_norm_epsilon: Rate = None
    layer_norm_eps: Rate = None
    rms_norm_eps: Rate = None
    feed_forward_proj: str | None = None
    activation_function: str | None = None
    hidden_act: str | None = None
    hidden_activation: str | None = None
    attention_bias: bool | None = None
    mlp_bias: bool | None = None
    use_sliding_window: bool | None = None
    scale_embedding: bool | None = None
    tie_word_embeddings: bool | None = None
    tie_encoder_decoder: bool | None = None
    scale_decoder_outputs: bool | None = None
    task_specific_params: dict[str, msgspec.Raw] | None = None
    # Ids and labels.
    pad_token_id: Token = None
    bos_token_id: Token = None
    eos_token_id: Token | list[Token] = None
    decoder_start_token_id: Token = None
    forced_bos_token_id: Token = None
    forced_eos_token_id: Token = None
    num_labels: Size = None
    id2label: dict[str, str] | None = None
    label2id: dict[str, int] | None = None
    problem_type: str | None = None
    # The halves of an encoder-decoder.
    encoder: 'Config | None' = None
    decoder: 'Config | None' = None


def read(path: pathlib.Path) -> dict[str, Json]:
    """The content of a config.json whose keys are of their declared types and ranges.

    Raises:
      UserError: it cannot be read, or a key holds something else.
    """
    files.read_json(path, Config)
    return files.read_json(path, dict)
