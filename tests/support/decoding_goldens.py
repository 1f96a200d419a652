"""Tiny models of every encoder-decoder family, and what transformers' generate makes of them.

See tools/goldens/make_decoding.py. A program is compiled for each family and set of rules, and
serves all length penalties and ways of early stopping.
"""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import references
from nightly import nightly

from xlbench import decoding

MAX_LENGTH = 20


class Golden:
    """One of references.ROWS.

    Attributes:
      model, params, batch: what decode is called with.
      ids: the same for start_id, eos_id and pad_id.
      cases: {name: options}.
      values: {name/tokens, name/scores: what generate gives}.
    """

    def __init__(self, name):
        known = references.of(name)
        self.model, self.params, self.ids = known.model, known.params, known.ids
        self.batch = references.as_batch(known.inputs, self.ids['pad_id'])
        self.cases, self.values = {}, {}
        for kind in ('', 'diverse_'):
            values = dict(np.load(references.GOLDENS / f'decoding_{kind}{name}.npz'))
            self.cases |= json.loads(str(values.pop('cases')))
            self.values |= values
        assert self.values['ids'].tolist() == list(self.ids.values())

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
    """(family, case) of all goldens; each rule once by day, and 3 beams of some families."""
    for name in names:
        for kind in ('', 'diverse_'):
            with np.load(references.GOLDENS / f'decoding_{kind}{name}.npz') as values:
                every = [(name, case) for case in json.loads(str(values['cases']))]
            by_day = [each for each in every if _is_quick(*each)]
            yield from by_day
            yield from nightly(*(case for case in every if case not in by_day))


def _is_quick(name, case):
    if name == 'mt5':  # Other cases have the single rules, and those of greedy search.
        return case.startswith(('beam3', 'diverse')) or case in ('rules', 'greedy_rules', 'all')
    return name in ('bart', 'mbart', 'marian', 'xlmr2xlmr') and case.startswith('beam3')


def check(family, case):
    """Token for token, scores to 1e-4."""
    known = golden(family)
    found = known.decode(case)
    np.testing.assert_array_equal(found.tokens, known.values[f'{case}/tokens'])
    if f'{case}/scores' in known.values:
        np.testing.assert_allclose(found.scores, known.values[f'{case}/scores'], atol=1e-4)
    return found
