"""Llama, Mistral, Qwen 2 and 3, Gemma 1 to 3 as transformers stores them (LlamaForCausalLM, ...).

One table of names serves all. Older files say rotations in other keys (rope_theta, rope_scaling,
rope_local_base_freq) than those of transformers 5 (rope_parameters); both are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xlbench.huggingface import mapping
from xlbench.huggingface.mapping import KINDS, Special
from xlbench.models.families import FAMILIES, Fields
from xlbench.system.errors import UserError
from xlbench.system.files import Json

if TYPE_CHECKING:  # A config.json is read without jax.
    from xlbench.models.llama import LlamaConfig

KIND = KINDS['llama']
_TYPES = {'gemma3': 'gemma3_text'}  # Family -> model_type, where it is another.
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


def from_config(config: Mapping[str, Json]) -> Fields:
    """The content of a config.json -> arguments of models.build; see mapping.py."""
    family = next(f for f in FAMILIES if _TYPES.get(f, f) == config['model_type'])
    gemma = family in _GEMMAS
    config = {
        **KIND.defaults,
        'tie_word_embeddings': gemma or FAMILIES[family].fields.get('tied_embeddings', False),
        'hidden_act': 'gelu_pytorch_tanh' if gemma else 'silu',
        **{key: value for key, value in config.items() if value is not None},
    }
    if 'num_attention_heads' in config and 'hidden_size' in config:
        heads = config['num_attention_heads']
        config.setdefault('num_key_value_heads', heads)
        config.setdefault('head_dim', 128 if family == 'qwen3' else config['hidden_size'] // heads)
    sizes = KIND.read(config)
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


def to_config(family: str, config: LlamaConfig, ids: Special) -> dict[str, Json]:
    """The content of config.json for a model of ours; see mapping.py."""
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
    start = {'qwen2': 'Qwen2', 'qwen3': 'Qwen3'}.get(family, family.capitalize())
    content = {
        'architectures': [f'{start}ForCausalLM'],
        'model_type': _TYPES.get(family, family),
        **KIND.written(config),
        'rope_parameters': rope,
        **mapping.token_ids(ids, 'pad', 'bos', 'eos'),
    }
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
