"""Translators with a recurrent decoder as Marian stores them; `marian_files` reads the files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xlbench.huggingface import marian_files
from xlbench.huggingface.mapping import Entry
from xlbench.models.families import FAMILIES
from xlbench.system.files import Json

if TYPE_CHECKING:  # A config.json is read without jax.
    from xlbench.models.bart import BartConfig
    from xlbench.models.families import Fields

IGNORED = (r'.*_QuantMultA',)  # Multipliers of activations, for products of int8.
_MAX_INPUTS = 512  # Tokens; its positions have no end.


def from_config(config: Mapping[str, Json]) -> Fields:
    """Maps the output of `marian_files.read` to arguments of models.build."""
    family = config['model_type']
    return {
        'family': family,
        **FAMILIES[family].fields,
        'vocab_size': config['vocab_size'],
        'emb_dim': config['d_model'],
        'num_heads': config['num_heads'],
        'head_dim': config['d_model'] // config['num_heads'],
        'mlp_dim': config['d_ff'],
        'num_encoder_layers': config['encoder_layers'],
        'num_decoder_layers': config['decoder_layers'],
        'max_positions': _MAX_INPUTS,
        'scaled_embeddings': True,
        'activation': 'relu',
        # As such students are trained; with 0.1, fine-tuning began at a loss of 10.6, not of 1.2.
        'dropout_rate': 0.0,
    }


def names(family: str, config: BartConfig) -> dict[str, Entry]:
    """Our parameter -> its tensors; see mapping.py."""
    del family
    table = {
        'token_embedder/embedding': Entry((marian_files.TABLE,)),
        'final_logits_bias': Entry(('decoder_ff_logit_out_b',)),
    }
    depths = {'encoder': config.num_encoder_layers, 'decoder': config.num_decoder_layers}
    for stack, depth in depths.items():
        for i in range(depth):
            ours, theirs = f'{stack}/layers_{i}', f'{stack}_l{i + 1}'
            if stack == 'encoder':
                table |= _dense(f'{ours}/attention/qkv', f'{theirs}_self', 'qkv')
                table |= _dense(f'{ours}/attention/out', f'{theirs}_self', 'o')
                table |= _norm(f'{ours}/attention_norm', f'{theirs}_self_Wo')
            else:
                recurrence, cross = f'{ours}/self_attention', f'{ours}/encoder_decoder_attention'
                table[f'{recurrence}/inwards/kernel'] = Entry((f'{theirs}_rnn_W',))
                table |= _dense(f'{recurrence}/forget', f'{theirs}_rnn', 'f')
                table |= _norm(f'{recurrence}_norm', f'{theirs}_rnn_ffn')
                table |= _dense(f'{cross}/query', f'{theirs}_context', 'q')
                table |= _dense(f'{cross}/kv', f'{theirs}_context', 'kv')
                table |= _dense(f'{cross}/out', f'{theirs}_context', 'o')
                table |= _norm(f'{cross}_norm', f'{theirs}_context_Wo')
            table |= _dense(f'{ours}/mlp/wi', f'{theirs}_ffn', '1')
            table |= _dense(f'{ours}/mlp/wo', f'{theirs}_ffn', '2')
            table |= _norm(f'{ours}/mlp_norm', f'{theirs}_ffn_ffn')
    return table


def _dense(ours: str, theirs: str, letters: str) -> dict[str, Entry]:
    leaves = {'kernel': 'W', 'bias': 'b'}
    return {
        f'{ours}/{a}': Entry(tuple(f'{theirs}_{b}{x}' for x in letters)) for a, b in leaves.items()
    }


def _norm(ours: str, theirs: str) -> dict[str, Entry]:
    return {f'{ours}/{leaf}': Entry((f'{theirs}_ln_{leaf}',)) for leaf in ('scale', 'bias')}


def to_config(config: BartConfig) -> dict[str, int]:
    """The sizes of a model, as `marian_files.write` takes them."""
    return {
        'vocab_size': config.vocab_size,
        'd_model': config.emb_dim,
        'num_heads': config.num_heads,
        'd_ff': config.mlp_dim,
        'encoder_layers': config.num_encoder_layers,
        'decoder_layers': config.num_decoder_layers,
    }
