"""The description of a model in the small files of its checkpoint, read before any weights.

config.json has its family and sizes, and modules.json of sentence-transformers says how its states
become a vector. From a hub repository, only these files are fetched.

Anybody may have written a checkpoint. Its sizes go into shapes and loops before any tensor is read,
so the keys of config.json have types, and ranges that no real model leaves; keys that xlbench does
not read may hold anything. transformers' AutoConfig is not used: it fills in every missing size, so
that a damaged file would pass for a model of other sizes.
"""

import os
import pathlib
from typing import Annotated, NamedTuple

import msgspec

from xlbench.huggingface import hub, marian_files, sentence_files
from xlbench.huggingface.mapping import fields
from xlbench.system import files, untrusted
from xlbench.system.errors import UserError
from xlbench.system.files import Json

# ------------------------------------------------------------------------------------- config.json

Size = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
Rows = Annotated[int, msgspec.Meta(ge=1, le=1 << 28)]  # Of tables.
Layers = Annotated[int, msgspec.Meta(ge=1, le=256)]
Positions = Annotated[int, msgspec.Meta(ge=1, le=1 << 22)]
Token = Annotated[int, msgspec.Meta(ge=-1, le=1 << 28)]
Rate = Annotated[float, msgspec.Meta(ge=0, lt=1)]
Factor = Annotated[float, msgspec.Meta(gt=0, le=1e12)]


class Rope(msgspec.Struct):
    """The rotation of positions; of each kind of layer, where they differ."""

    rope_type: str | None = None
    type: str | None = None
    rope_theta: Factor | None = None
    factor: Factor | None = None
    low_freq_factor: Factor | None = None
    high_freq_factor: Factor | None = None
    original_max_position_embeddings: Positions | None = None
    full_attention: 'Rope | None' = None
    sliding_attention: 'Rope | None' = None


# Type -> keys.
_KEYS = {
    str: """
        model_type feed_forward_proj activation_function hidden_act hidden_activation problem_type
    """,
    list[str]: 'architectures layer_types',
    str | list[str]: 'pos_att_type',
    bool: """
        attention_bias mlp_bias use_sliding_window scale_embedding tie_word_embeddings
        tie_encoder_decoder scale_decoder_outputs
    """,
    Rows: 'vocab_size decoder_vocab_size n_words',
    # As T5, BART, BERT, GPT-2, XLM and Llama call them.
    Size: """
        d_model d_kv d_ff hidden_size intermediate_size dim hidden_dim encoder_ffn_dim
        decoder_ffn_dim num_heads num_attention_heads encoder_attention_heads
        decoder_attention_heads n_embd emb_dim n_heads n_langs n_inner n_head num_key_value_heads
        head_dim position_buckets query_pre_attn_scalar num_labels
    """,
    Layers: """
        num_layers num_decoder_layers num_hidden_layers encoder_layers decoder_layers n_layers
        n_layer sliding_window_pattern
    """,
    Positions: """
        max_position_embeddings n_positions sliding_window relative_attention_max_distance
    """,
    Rate: """
        dropout dropout_rate attention_dropout activation_dropout hidden_dropout_prob
        attention_probs_dropout_prob resid_pdrop embd_pdrop attn_pdrop classifier_dropout
        seq_classif_dropout cls_dropout layer_norm_epsilon layer_norm_eps rms_norm_eps
    """,
    Factor: 'rope_theta rope_local_base_freq attn_logit_softcapping final_logit_softcapping',
    Rope: 'rope_parameters rope_scaling',
    Token: """
        pad_token_id bos_token_id decoder_start_token_id forced_bos_token_id forced_eos_token_id
    """,
    Token | list[Token | None]: 'eos_token_id',
    Annotated[int, msgspec.Meta(ge=0, le=1 << 20)]: 'type_vocab_size',
    Annotated[int, msgspec.Meta(ge=-1, le=1 << 22)]: 'max_relative_positions',
    Annotated[int, msgspec.Meta(ge=0, le=256)]: 'max_window_layers',
    Annotated[int, msgspec.Meta(ge=4, le=1 << 16)]: 'relative_attention_num_buckets',
    Annotated[float, msgspec.Meta(gt=0, le=100)]: 'init_std',
    Annotated[float, msgspec.Meta(ge=0, le=100)]: 'initializer_range',
    dict[str, msgspec.Raw]: 'task_specific_params',
    dict[str, str]: 'id2label',
    dict[str, int]: 'label2id',
}
# A key of config.json is of its type, null or not there; likewise in the halves of an
# encoder-decoder.
_Half = msgspec.defstruct(
    'Config', [(key, kind | None, None) for kind, keys in _KEYS.items() for key in keys.split()]
)
_HALVES = [(half, _Half | None, None) for half in ('encoder', 'decoder')]
Config = msgspec.defstruct('Config', _HALVES, bases=(_Half,))


def read_config(path: pathlib.Path) -> dict[str, Json]:
    """The content of a model's config.json whose keys are of their declared types and ranges.

    Raises:
      UserError: it cannot be read, is of no model, or a key holds something else.
    """
    files.read_json(path, Config)
    content = files.read_json(path, dict)
    if not content.get('model_type'):
        why = 'has no model_type, so the folder holds no model of Hugging Face'
        if 'scored' in content:
            why = "is of xlbench.score, so the folder holds a system's scores and no model"
        raise UserError(f'{path} {why}')
    return content


# ---------------------------------------------------------------------------------- all small files

_FILES = (hub.CONFIG, *sentence_files.NAMES)


class Described(NamedTuple):
    """A checkpoint, as its small files describe it."""

    start: str  # The folder or name, for init_from and config.data.vocabulary.
    model: dict[str, Json]  # Arguments of models.build.
    sentences: dict[str, Json]  # Fields of a dual encoder, of a folder of sentence-transformers.


def describe(spec: str) -> Described:
    """Reads the small files of a folder in the form of Hugging Face, or behind a hub name.

    Raises:
      UserError: there is none, a file is broken, or the model is none of ours.
    """
    folder = pathlib.Path(os.path.expanduser(spec))
    is_here = folder.is_dir()
    if not is_here:
        folder = hub.fetch(spec, (*_FILES, *hub.TOKENIZER_FILES), all_of=[(hub.CONFIG,)])
    if is_here and (marian := marian_files.find(folder)):
        return Described(spec, fields(marian_files.read(marian)[0]), {})
    encoder, sentences = sentence_files.read(folder) or (folder, {})
    if not untrusted.file(encoder, hub.CONFIG):
        raise UserError(f'{spec} has no {hub.CONFIG}, so it holds no checkpoint of one model')
    if encoder != folder and not is_here:
        raise UserError(f'{spec} has its encoder in a subfolder; fetch it, and name that folder')
    start = str(encoder) if encoder != folder else spec
    return Described(start, fields(read_config(encoder / hub.CONFIG)), sentences)
