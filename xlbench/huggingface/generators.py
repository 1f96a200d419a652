"""Models that write texts as transformers stores them: T5, BART, GPT-2, Llama and their relatives.

In the classes T5ForConditionalGeneration, BartForConditionalGeneration, GPT2LMHeadModel,
LlamaForCausalLM and their kin. Each row of kinds.toml serves all relatives; what it cannot say of
config.json is here, see mapping.py. BART's learned positions pass through whole, with their two
rows before position 0; sinusoidal ones are computed, and stored copies are ignored. Older files of
Llama say rotations in other keys (rope_theta, rope_scaling, rope_local_base_freq) than those of
transformers 5 (rope_parameters); both are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xlbench.huggingface import mapping
from xlbench.huggingface.mapping import KINDS, Kind, Special
from xlbench.models.families import FAMILIES, MODEL_TYPES, Fields
from xlbench.system.errors import UserError
from xlbench.system.files import Json

_MODEL_TYPES = {'t5_1_1': 't5', 'gemma3': 'gemma3_text'}  # Of families that are called otherwise.


def from_config(config: Mapping[str, Json]) -> Fields:
    """The content of a config.json -> arguments of models.build."""
    name = MODEL_TYPES[config['model_type']].tensors
    return _FORMS[name][0](KINDS[name], KINDS[name].filled(config))


def to_config(family: str, config: Any, ids: Special) -> dict[str, Json]:
    """The content of config.json for a model of ours."""
    name = FAMILIES[family].tensors
    kind, model_type = KINDS[name], _MODEL_TYPES.get(family, family)
    content: dict[str, Json] = {'architectures': [kind.architectures[model_type]]}
    content['model_type'] = model_type
    if name in ('t5', 'bart'):
        content['is_encoder_decoder'] = True
    return content | kind.written(config) | _FORMS[name][1](family, config, ids)


# ----------------------------------------------------------------------------------------------- T5

# feed_forward_proj -> gated_mlp. transformers computes 'gated-gelu' with the tanh approximation.
_MLPS = {'relu': False, 'gated-gelu': True}


def _t5(kind: Kind, config: dict[str, Json]) -> Fields:
    config = {'num_decoder_layers': config.get('num_layers')} | config
    if config['model_type'] in ('mt5', 'umt5'):  # Whatever the file says: transformers 5 says True.
        family, tied = config['model_type'], False
    else:
        # transformers 5 says in a key of its own what 'tied' has always meant for T5: the output
        # table is the input table, scaled.
        tied = bool(config.get('scale_decoder_outputs', config.get('tie_word_embeddings', True)))
        family = 't5' if tied else 't5_1_1'
    return {
        'family': family,
        'gated_mlp': mapping.chosen(config, 'feed_forward_proj', _MLPS),
        'tied_embeddings': tied,
        'relpos_each_layer': family == 'umt5',
        **kind.read(config),
    }


def _t5_written(family: str, config: Any, ids: Special) -> dict[str, Json]:
    del family
    return {
        'feed_forward_proj': next(k for k, gated in _MLPS.items() if gated == config.gated_mlp),
        'layer_norm_epsilon': 1e-6,
        'tie_word_embeddings': config.tied_embeddings,
        **mapping.token_ids(ids, 'pad', 'eos'),
        # Old files leave it out: decoding starts with padding.
        'decoder_start_token_id': ids['decoder_start_id'] or ids['pad_id'],
    }


# --------------------------------------------------------------------------------------------- BART


def _bart(kind: Kind, config: dict[str, Json]) -> Fields:
    """Which norms a model has and how it counts positions follows from its model_type alone.

    So it is in transformers; old files repeat that in keys which nothing reads.
    """
    family, fixed = config['model_type'], kind.fixed
    if family == 'm2m_100':  # Its public files say how it was trained; no layer is dropped here.
        fixed = {key: value for key, value in kind.fixed.items() if not key.endswith('layerdrop')}
    fields = kind.read(config, fixed)
    mapping.expect(config, 'decoder_vocab_size', config['vocab_size'], ', as vocab_size is')
    return {
        'family': family,
        'activation': mapping.chosen(config, 'activation_function', mapping.ACTIVATIONS),
        **FAMILIES[family].fields,
        **fields,
    }


def _bart_written(family: str, config: Any, ids: Special) -> dict[str, Json]:
    fixed = FAMILIES[family].fields | {'head_dim': config.emb_dim / config.num_heads}
    mapping.check_written(family, config, fixed)
    return {
        'activation_function': mapping.activation_key(config.activation),
        'tie_word_embeddings': True,
        **mapping.token_ids(ids, 'pad', 'bos', 'eos', 'decoder_start', 'forced_bos', 'forced_eos'),
    }


# -------------------------------------------------------------------------------------------- GPT-2


def _gpt2(kind: Kind, config: dict[str, Json]) -> Fields:
    fields = kind.read(config)
    activation = mapping.chosen(config, 'activation_function', mapping.ACTIVATIONS)
    inner = config.get('n_inner', 4 * fields['emb_dim'])
    return {'family': 'gpt2', 'activation': activation, 'mlp_dim': inner, **fields}


def _gpt2_written(family: str, config: Any, ids: Special) -> dict[str, Json]:
    mapping.check_written(family, config, {'head_dim': config.emb_dim / config.num_heads})
    end = ids.get('eos_id')
    return {
        'n_inner': config.mlp_dim,
        'activation_function': mapping.activation_key(config.activation),
        'tie_word_embeddings': True,
        'pad_token_id': ids.get('pad_id'),
        'bos_token_id': end if ids.get('bos_id') is None else ids['bos_id'],
        'eos_token_id': end,
    }


# -------------------------------------------------------------------------------------------- Llama

_GEMMAS = ('gemma', 'gemma2', 'gemma3')
# Our field -> the key, of the families that have it.
_GEMMA_KEYS = {
    'query_scale': 'query_pre_attn_scalar',
    'attention_softcap': 'attn_logit_softcapping',
    'logits_softcap': 'final_logit_softcapping',
}
_SCALED = {'rope_factor': 'factor'}
_LLAMA3 = {
    'rope_low': 'low_freq_factor',
    'rope_high': 'high_freq_factor',
    'rope_original': 'original_max_position_embeddings',
}


def _llama(kind: Kind, config: dict[str, Json]) -> Fields:
    family = config['model_type'].removesuffix('_text')
    gemma = family in _GEMMAS
    config.setdefault('tie_word_embeddings', gemma)
    config.setdefault('hidden_act', 'gelu_pytorch_tanh' if gemma else 'silu')
    if 'num_attention_heads' in config and 'hidden_size' in config:
        heads = config['num_attention_heads']
        config.setdefault('num_key_value_heads', heads)
        config.setdefault('head_dim', 128 if family == 'qwen3' else config['hidden_size'] // heads)
    sizes = kind.read(config)
    # Gemma 1 says 'gelu' and means the tanh approximation, as its second key may say.
    activation = config.get('hidden_activation') or config['hidden_act']
    activation = 'gelu_pytorch_tanh' if gemma and activation == 'gelu' else activation
    fields = {
        **FAMILIES[family].fields,
        **sizes,
        'family': family,
        'activation': mapping.chosen({'hidden_act': activation}, 'hidden_act', mapping.ACTIVATIONS),
        **_windows(family, config),
        **_rotations(family, config),
    }
    if family in ('llama', 'qwen3', *_GEMMAS):  # Qwen 2 has one without saying it.
        bias = bool(config.get('attention_bias', False))
        fields |= {'qkv_bias': bias, 'out_bias': bias, 'mlp_bias': bool(config.get('mlp_bias'))}
    if family in ('gemma2', 'gemma3'):
        fields |= {ours: config.get(key, 0) for ours, key in _GEMMA_KEYS.items()}
        fields['query_scale'] = fields['query_scale'] or 256
    return fields


def _windows(family: str, config: Mapping[str, Json]) -> Fields:
    """The layers that have a window: the file lists them, or the family's pattern says it."""
    window, count = config.get('sliding_window') or 0, config['num_hidden_layers']
    no_window: Fields = {'window': 0, 'full_every': 0}
    is_qwen = family.startswith('qwen')
    if family in ('llama', 'gemma') or (is_qwen and not config.get('use_sliding_window')):
        return no_window
    pattern = {'gemma2': 2, 'gemma3': config.get('sliding_window_pattern', 6)}.get(family, 0)
    kinds = config.get('layer_types')
    if kinds is None and is_qwen:
        first = config.get('max_window_layers', 28)
        kinds = ['sliding_attention' if i >= first else 'full_attention' for i in range(count)]
    if kinds is not None:
        full = [kind == 'full_attention' for kind in kinds]
        numbers = range(1, count + 1)
        fits = [
            every
            for every in (pattern, *range(count + 1))
            if full == [every > 0 and n % every == 0 for n in numbers]
        ]
        if not fits:
            raise UserError(
                'config.json: layer_types has full attention in no regular distance; supported: in '
                'each n-th layer, in all or in none'
            )
        pattern = fits[0]
    return {'window': window, 'full_every': pattern} if pattern != 1 else no_window


def _rotations(family: str, config: Mapping[str, Json]) -> Fields:
    given = _known(config.get('rope_parameters'))
    whole = _known(given.get('full_attention')) or given
    local = _known(given.get('sliding_attention'))
    scaling = whole | _known(config.get('rope_scaling'))
    form = scaling.get('rope_type', scaling.get('type', 'default'))
    forms = {'default': {}, 'linear': _SCALED, 'llama3': _SCALED | _LLAMA3}
    keys = mapping.chosen({'rope_type': form}, 'rope_type', forms)
    for key in keys.values():
        if key not in scaling:
            raise UserError(f'config.json lacks {key!r}, which rotations of type {form} need')
    usual = 1_000_000.0 if family == 'gemma3' else 10_000.0
    fields = {
        'rope_theta': whole.get('rope_theta', config.get('rope_theta', usual)),
        'rope_form': form,
        **{ours: scaling[key] for ours, key in keys.items()},
    }
    if family == 'gemma3':
        base = config.get('rope_local_base_freq', 10_000.0)
        fields['local_rope_theta'] = local.get('rope_theta', base)
    return fields


def _known(values: Mapping[str, Json] | None) -> dict[str, Json]:
    return {key: value for key, value in (values or {}).items() if value is not None}


def _llama_written(family: str, config: Any, ids: Special) -> dict[str, Json]:
    fixed = dict.fromkeys(('unit_norms', 'scaled_embeddings', 'post_norms', 'qk_norm'), False)
    own = {key: FAMILIES[family].fields.get(key, value) for key, value in fixed.items()}
    mapping.check_written(family, config, own)
    rope = {'rope_theta': config.rope_theta, 'rope_type': config.rope_form}
    if config.rope_form != 'default':
        rope['factor'] = config.rope_factor
    if config.rope_form == 'llama3':
        rope |= {key: getattr(config, ours) for ours, key in _LLAMA3.items()}
    if family == 'gemma3':
        local = {'rope_theta': config.local_rope_theta, 'rope_type': 'default'}
        rope = {'full_attention': rope, 'sliding_attention': local}
    content = {'rope_parameters': rope, **mapping.token_ids(ids, 'pad', 'bos', 'eos')}
    activation = mapping.activation_key(config.activation, 'gelu_pytorch_tanh', 'silu')
    content['hidden_activation' if family in _GEMMAS else 'hidden_act'] = activation
    if family not in ('qwen2', 'mistral'):
        content['attention_bias'] = config.qkv_bias
    if family == 'llama':
        content['mlp_bias'] = config.mlp_bias
    if family in ('gemma2', 'gemma3'):
        content |= {key: getattr(config, ours) or None for ours, key in _GEMMA_KEYS.items()}
    if family not in ('llama', 'gemma'):
        content['sliding_window'] = config.window or None
        if family != 'mistral':
            kinds = ('full_attention', 'sliding_attention')
            content['layer_types'] = [kinds[windowed] for windowed in config.windowed]
        if family.startswith('qwen'):
            content['use_sliding_window'] = config.window > 0
    return content


_FORMS: dict[str, tuple[Any, Any]] = {
    't5': (_t5, _t5_written),
    'bart': (_bart, _bart_written),
    'gpt2': (_gpt2, _gpt2_written),
    'llama': (_llama, _llama_written),
}
