"""Tiny encoder-decoders, and what transformers makes of models with the same weights.

See tools/goldens/make_bart.py, make_bert.py and make_t5.py.
"""

import dataclasses
import functools
import pathlib

import flax.linen as nn
import jax
import named_weights
import numpy as np
from flax import traverse_util

from xlbench import decoding, models
from xlbench.huggingface import checkpoint
from xlbench.training import losses

GOLDENS = pathlib.Path(__file__).parents[1] / 'goldens'
NO_DROPOUT = dict(dropout_rate=0.0, attention_dropout_rate=0.0)
_T5 = dict(emb_dim=32, num_heads=4, head_dim=8, mlp_dim=48, dropout_rate=0.0)
BART = NO_DROPOUT | dict(
    emb_dim=32, num_heads=4, head_dim=8, mlp_dim=40, max_positions=40, activation_dropout_rate=0.0
)
_PAIR = NO_DROPOUT | dict(
    emb_dim=24, num_heads=4, head_dim=6, mlp_dim=40, max_positions=40, has_pooler=True
)
_XLMR = dict(position_offset=2, type_vocab_size=1, norm_epsilon=1e-5)
# Name of the goldens: (family, its fields, start, end and padding).
ROWS = {
    **{name: (name, _T5, (0, 1, 0)) for name in ('t5', 't5_1_1', 'mt5')},
    'bart': ('bart', BART, (2, 2, 1)),
    'mbart': ('mbart', BART, (2, 2, 1)),
    'pegasus': ('pegasus', BART, (0, 1, 0)),
    'marian': ('marian', BART, (60, 0, 60)),
    'bert2bert': ('encoder_decoder', _PAIR, (2, 3, 0)),
    'xlmr2xlmr': ('encoder_decoder', _PAIR | _XLMR, (0, 2, 1)),
}


@functools.cache
def stored(name: str) -> tuple[dict, dict, dict]:
    """Values, weights and gradients of a file of goldens, by their names."""
    values, weights, gradients = {}, {}, {}
    for key, value in np.load(GOLDENS / f'{name}.npz').items():
        kind, _, rest = key.partition('/')
        if kind == 'weights':
            weights[rest] = value.astype(np.float32)
        elif kind == 'gradients':
            gradients[rest] = value
        else:
            values[key] = value
    return values, weights, gradients


class Reference:
    """One of ROWS.

    Attributes:
      model, params: ours, with the weights of theirs.
      ids: what decode is called with: start_id, eos_id, pad_id.
      inputs, segments, decoder_inputs, targets: a padded batch.
      values: what transformers makes of it, by name.
      gradients, weights: by their names, which `names` maps to ours.
    """

    def __init__(self, name):
        self.name = name
        self.family, fields, ids = ROWS[name]
        self.values, self.weights, self.gradients = stored(name)
        self.ids = dict(zip(('start_id', 'eos_id', 'pad_id'), ids, strict=True))
        self.model = models.build(self.family, 'sample', vocab_size=61, **fields)
        self.names = checkpoint.names(self.family, self.model.config)
        self.params = named_weights.to_params(self.names, self.weights)
        self.inputs, self.targets = self.values['inputs'], self.values['targets']
        self.segments = (self.inputs != self.ids['pad_id']).astype(np.int32)
        self.decoder_inputs = self.values.get('decoder_inputs', self.shifted(self.targets))

    def shifted(self, targets):
        """What the decoder is fed to write the targets."""
        start = self.ids['start_id']
        return np.pad(targets[:, :-1], ((0, 0), (1, 0)), constant_values=start)

    def like(self, **fields):
        """The model with other fields."""
        return self.model.clone(config=dataclasses.replace(self.model.config, **fields))

    @functools.cached_property
    def run(self):
        """The compiled model: its arguments behind the parameters."""
        names = ('method', 'max_length', 'beams')
        apply = jax.jit(self.model.apply, static_argnames=names)
        return functools.partial(apply, {'params': self.params})

    @functools.cache  # noqa: B019
    def loss_and_gradients(self, model):
        """The mean loss of the batch, and its gradients."""

        @jax.jit
        @jax.value_and_grad
        def run(params):
            apply = functools.partial(model.apply, {'params': params})
            hidden = apply(self.inputs, self.decoder_inputs, self.segments, method='hidden')
            out = losses.softmax_cross_entropy(
                hidden.reshape(-1, hidden.shape[-1]),
                apply(method='output_embedding'),
                self.targets.reshape(-1),
                (self.targets != self.ids['pad_id']).reshape(-1),
                bias=apply(method='output_bias'),
                chunk_size=50,
            )
            return out.loss / out.weight

        return run(self.params)


of = functools.cache(Reference)


def drawn(model, *inputs, scale=0.3):
    """Random parameters of any model."""
    return like(jax.eval_shape(model.init, jax.random.key(0), *inputs)['params'], scale)


def like(shapes, scale=0.3):
    """Random parameters of these shapes: to compile a model's own drawing takes seconds."""
    rng = np.random.default_rng(0)
    draw = lambda x: scale * rng.standard_normal(x.shape, np.float32)  # noqa: E731
    return jax.tree.map(draw, nn.unbox(shapes))


def random_params(model, scale=0.2):
    """Parameters of which none passes for another, as checkpoints hold them; norms are near 1."""
    rng = np.random.default_rng(0)
    flat = {
        path: scale * rng.standard_normal(box.value.shape, np.float32) + path.endswith('/scale')
        for path, box in checkpoint.boxed_params(model).items()
    }
    return traverse_util.unflatten_dict(flat, sep='/')


def decoder(model, *, start_id, eos_id, pad_id, forced_first=None, **options):
    """The compiled decoding by a model: parameters and a batch -> texts."""
    ids = dict(start_id=start_id, eos_id=eos_id, pad_id=pad_id, forced_first=forced_first)
    options = decoding.Options(**options)
    return jax.jit(functools.partial(decoding.decode, model, options=options, **ids))


def padded_left(batch):
    """The same batch with the padding of the inputs before them."""
    order = np.argsort(batch['encoder_segment_ids'] > 0, axis=1, kind='stable')
    sides = [name for name in batch if name.startswith('encoder_')]
    return batch | {name: np.take_along_axis(batch[name], order, 1) for name in sides}


def as_batch(inputs, pad_id):
    """Padded inputs [batch, length] -> what decode takes."""
    return {
        'encoder_input_tokens': inputs,
        'encoder_segment_ids': (inputs != pad_id).astype(np.int32),
        'encoder_positions': np.broadcast_to(np.arange(inputs.shape[1]), inputs.shape),
    }


def boxed(family, size='sample', length=4, **fields):
    """The shapes of a model's parameters with their logical axes, by name."""
    if family.endswith('classifier'):
        fields = dict(num_labels=2) | fields
    model, tokens = models.build(family, size, **fields), jax.ShapeDtypeStruct((1, length), 'int32')
    alone = family in ('bert', 'sequence_classifier', 'token_classifier')
    params = jax.eval_shape(model.init, jax.random.key(0), *[tokens] * (1 if alone else 2))
    return traverse_util.flatten_dict(params['params'], sep='/')
