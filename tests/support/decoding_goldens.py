"""Tiny models of every encoder-decoder family, and what transformers' generate makes of them.

See tools/goldens/make_decoding.py. A program is compiled for each family and set of rules, and
serves all length penalties and ways of early stopping.
"""

import functools
import json
import pathlib

import jax
import jax.numpy as jnp
import named_weights
import numpy as np

from xlbench import decoding, models
from xlbench.huggingface import bart, bert, t5

GOLDENS = pathlib.Path(__file__).parents[1] / 'goldens'
MAX_LENGTH = 20
_T5 = dict(emb_dim=32, num_heads=4, head_dim=8, mlp_dim=48, dropout_rate=0.0)
_BART = dict(
    emb_dim=32, num_heads=4, head_dim=8, mlp_dim=40, max_positions=40, dropout_rate=0.0,
    attention_dropout_rate=0.0, activation_dropout_rate=0.0,
)  # fmt: skip
_PAIR = dict(
    emb_dim=24, num_heads=4, head_dim=6, mlp_dim=40, num_layers=2, max_positions=40,
    dropout_rate=0.0, attention_dropout_rate=0.0,
)  # fmt: skip
_XLMR = dict(position_offset=2, type_vocab_size=1, norm_epsilon=1e-5)
# Name of the goldens: (family, its fields, the names of its tensors).
FAMILIES = {
    **{name: (name, _T5, t5) for name in ('t5', 't5_1_1', 'mt5')},
    **{name: (name, _BART, bart) for name in ('bart', 'mbart', 'pegasus', 'marian')},
    'bert2bert': ('encoder_decoder', _PAIR, bert),
    'xlmr2xlmr': ('encoder_decoder', _PAIR | _XLMR, bert),
}


class Golden:
    """One of FAMILIES.

    Attributes:
      model, params, batch: what decode is called with.
      ids: the same for start_id, eos_id and pad_id.
      cases: {name: options}.
      values: {name/tokens, name/scores: what generate gives}.
    """

    def __init__(self, name):
        family, fields, names = FAMILIES[name]
        stored = np.load(GOLDENS / f'{name}.npz')
        self.model = models.build(family, 'sample', vocab_size=61, **fields)
        weights = {
            k[8:]: v.astype(np.float32) for k, v in stored.items() if k.startswith('weights/')
        }
        self.params = named_weights.to_params(names.names(family, self.model.config), weights)
        self.cases, self.values = {}, {}
        for kind in ('', 'diverse_'):
            values = dict(np.load(GOLDENS / f'decoding_{kind}{name}.npz'))
            self.cases |= json.loads(str(values.pop('cases')))
            self.values |= values
        ids = self.values['ids'].tolist()
        self.ids = dict(zip(('start_id', 'eos_id', 'pad_id'), ids, strict=True))
        self.batch = as_batch(stored['inputs'], self.ids['pad_id'])

    def decode(self, case):
        """What we make of a case."""
        options = dict(self.cases[case])
        penalty, early = options.pop('length_penalty', 1.0), options.pop('early_stopping', False)
        forced = options.pop('forced_first', None)
        if 'num_beams' in options:
            options['method'] = 'diverse_beam' if 'num_groups' in options else 'beam'
        run = _program(self.model, json.dumps(options), json.dumps(self.ids))
        forced = None if forced is None else jnp.array(forced)
        return run(self.params, self.batch, (penalty, early is True, early == 'never'), forced)


golden = functools.cache(Golden)


def as_batch(inputs, pad_id):
    """Padded inputs [batch, length] -> what decode takes."""
    return {
        'encoder_input_tokens': inputs,
        'encoder_segment_ids': (inputs != pad_id).astype(np.int32),
        'encoder_positions': np.broadcast_to(np.arange(inputs.shape[1]), inputs.shape),
    }


@functools.cache
def _program(model, options, ids):
    def run(params, batch, traced, forced_first):
        fields = dict(json.loads(options), max_length=MAX_LENGTH)
        if 'num_beams' in fields:
            penalty, eager, hopeful = traced
            kind = type('Traced', (decoding.Options,), dict(eager=eager, hopeful=hopeful))
            decoder = kind(**fields, length_penalty=penalty)
        else:
            decoder = decoding.Options(**fields)
        return decoding.decode(
            model, params, batch, decoder, **json.loads(ids), forced_first=forced_first
        )

    return jax.jit(run)


def cases(*names):
    """(family, case) of all goldens of some families."""
    for name in names:
        for kind in ('', 'diverse_'):
            with np.load(GOLDENS / f'decoding_{kind}{name}.npz') as values:
                yield from ((name, case) for case in json.loads(str(values['cases'])))


def check(family, case):
    """Token for token, scores to 1e-4."""
    known = golden(family)
    found = known.decode(case)
    np.testing.assert_array_equal(found.tokens, known.values[f'{case}/tokens'])
    if f'{case}/scores' in known.values:
        np.testing.assert_allclose(found.scores, known.values[f'{case}/scores'], atol=1e-4)
    return found
