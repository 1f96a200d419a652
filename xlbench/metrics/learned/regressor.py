"""BLEURT's model: BERT or RemBERT over a pair of texts, and a number from its first token.

Its BERT has the approximate gelu; RemBERT (arXiv:2010.12821) has embeddings of a smaller width, and
a map from them to the layers' width. Parameters have the names of the published checkpoints.
"""

import pathlib
import re
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from xlbench.data import tokenizers, vocabularies
from xlbench.huggingface import tensors
from xlbench.metrics.learned import tf_variables
from xlbench.parallel import partitioning
from xlbench.system.errors import UserError, printable

Params = dict[str, jax.Array]
_VARIABLES = 'variables/variables'  # Of a SavedModel.
_WIDTHS = (32, 64, 96, 128, 192, 256, 384, 512)
_BATCH_TOKENS = {'cpu': 4096, 'other': 32768}
_INTO_LAYERS = 'bert/encoder/embedding_hidden_mapping_in'
_PIECES = ('sent_piece.model', 'sentencepiece.model', 'spiece.model')
# Names of transformers, and of ports to it -> those of the published checkpoints.
_RENAMED = (
    (r'^(bleurt|rembert)\.', 'bert.'),
    (r'^classifier\.', 'dense.'),
    (r'(encoder|embeddings)\.embedding_(projection|hidden_mapping_in)', _INTO_LAYERS[5:]),
    (r'layer\.(\d+)', r'layer_\1'),
    (r'LayerNorm\.weight$', 'LayerNorm/gamma'),
    (r'LayerNorm\.bias$', 'LayerNorm/beta'),
    (r'_embeddings\.weight$', '_embeddings'),
    (r'\.weight$', '/kernel'),
    (r'\.', '/'),
)


class _Config(msgspec.Struct):
    """Fields that are read from config.json, bert_config.json and bleurt_config.json."""

    num_attention_heads: int = 0
    layer_norm_eps: float = 1e-12
    max_seq_length: int = 0


class Regressor:
    """A checkpoint of BLEURT: a published folder with saved_model.pb, or one for transformers.

    UserError for a file that is missing or broken, and for a model of another kind.
    """

    def __init__(self, folder: pathlib.Path):
        self._folder = folder
        is_tensorflow = (folder / f'{_VARIABLES}.index').is_file()
        name = 'bert_config.json' if is_tensorflow else 'config.json'
        config = vocabularies.read_json(str(folder), name, _Config)
        own = vocabularies.read_json(str(folder), 'bleurt_config.json', _Config)
        params = tf_variables.read(folder / _VARIABLES) if is_tensorflow else _of_port(folder)
        heads, epsilon = config.num_attention_heads, config.layer_norm_eps
        layers = (re.search(r'/layer_\d+/', name) for name in params)
        num_layers = len({layer[0] for layer in layers if layer})

        def rate(params: Params, tokens, types, mask) -> jax.Array:
            with jax.default_matmul_precision('float32'):
                return _rate(params, tokens, types, mask, heads, num_layers, epsilon)

        _check(params, rate, folder)
        positions = params['bert/embeddings/position_embeddings'].shape[0]
        self._max_length = min(own.max_seq_length or positions, positions)
        self._widths = sorted({min(width, self._max_length) for width in _WIDTHS})
        self._load_vocabulary()
        self._mesh = partitioning.make_mesh(devices=jax.local_devices())
        self._params = jax.device_put(params, partitioning.replicated(self._mesh))
        self._rate = jax.jit(rate)

    def __call__(self, texts: Sequence[tuple[str, str]]) -> list[float]:
        """Pairs of a reference and a prediction -> a number each."""
        flat = self._encode([text for pair in texts for text in pair])
        rows = [self._row(*pair) for pair in zip(flat[::2], flat[1::2], strict=True)]
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i][0]))
        kind = 'cpu' if jax.default_backend() == 'cpu' else 'other'
        spec = NamedSharding(self._mesh, PartitionSpec(self._mesh.axis_names))
        values = np.empty(len(rows))
        start = 0
        while start < len(order):
            longest = len(rows[order[start]][0])
            width = next((width for width in self._widths if width >= longest), longest)
            count = max(_BATCH_TOKENS[kind] // width, 1) * self._mesh.size
            places = order[start : start + count]
            tokens, types, mask = (np.zeros((count, width), np.int32) for _ in range(3))
            for row, place in enumerate(places):
                ids, num_first = rows[place]
                tokens[row, : len(ids)] = ids
                types[row, num_first : len(ids)] = 1
                mask[row, : len(ids)] = 1
            batch = [jax.device_put(array, spec) for array in (tokens, types, mask)]
            with partitioning.activate(self._mesh):
                values[places] = np.asarray(self._rate(self._params, *batch))[: len(places)]
            start += count
        return values.tolist()

    def _load_vocabulary(self) -> None:
        """Sets the tokenizer and the ids of [CLS] and [SEP]."""
        pieces = [self._folder / name for name in _PIECES if (self._folder / name).is_file()]
        tokenizer = tokenizers.load(str(pieces[0] if pieces else self._folder), '')
        self._encode = tokenizer.encode_batch
        if not pieces:
            self._opening, self._closing = tokenizer.bos_id, tokenizer.eos_id
            return
        places = {piece: i for i, piece in enumerate(tokenizer.pieces())}
        try:
            self._opening, self._closing = places['[CLS]'], places['[SEP]']
        except KeyError:
            raise UserError(f'{pieces[0]} has no [CLS] and [SEP], which BLEURT needs') from None

    def _row(self, reference: np.ndarray, prediction: np.ndarray) -> tuple[list[int], int]:
        """[CLS] reference [SEP] prediction [SEP], and how many of these are of the first text."""
        first, second = reference.tolist(), prediction.tolist()
        while len(first) + len(second) > self._max_length - 3:
            (first if len(first) > len(second) else second).pop()  # Of the longer one its last.
        opened = [self._opening, *first, self._closing]
        return [*opened, *second, self._closing], len(opened)


def _of_port(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """The tensors of a checkpoint for transformers, by the published names and shapes."""
    params = {}
    for name, stored in tensors.find(folder).items():
        for pattern, new in _RENAMED:
            name = re.sub(pattern, new, name)
        value = stored.read().astype(np.float32)
        params[name] = value.T if name.endswith('/kernel') else value
    return {name: value for name, value in params.items() if not name.endswith('_ids')}


def _check(params: dict[str, np.ndarray], rate: Callable[..., jax.Array], folder: pathlib.Path):
    """Raises UserError unless a pair gets one number, from all parameters of BERT and its head."""
    read: set[str] = set()

    class Noted(dict):
        def __getitem__(self, name: str) -> jax.Array:
            read.add(name)
            return super().__getitem__(name)

    try:
        batch = [np.zeros((1, 3), np.int32)] * 3
        rated = jax.eval_shape(lambda given: rate(Noted(given), *batch), params)
        others = {name for name in params if re.match(r'bert/|dense', name)} - read
        if others or rated.shape != (1,):
            raise ValueError(f'{min(others, default="dense/kernel")} is another one')
    except KeyError as error:
        raise UserError(f'{folder} is not a checkpoint of BLEURT: {error} is missing') from None
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise UserError(f'{folder} is not a checkpoint of BLEURT: {printable(error)}') from None


# ---------------------------------------------------------------------------------------- the model


def _rate(
    params: Params,
    tokens: jax.Array,  # [batch, length]
    types: jax.Array,  # [batch, length], 1 for the second text
    mask: jax.Array,  # [batch, length], 1 where there is a token
    num_heads: int,
    num_layers: int,
    epsilon: float,
) -> jax.Array:  # [batch]

    def dense(x: jax.Array, name: str) -> jax.Array:
        return x @ params[f'{name}/kernel'] + params[f'{name}/bias']

    def norm(x: jax.Array, name: str) -> jax.Array:
        mean = x.mean(-1, keepdims=True)
        scaled = (x - mean) * jax.lax.rsqrt(x.var(-1, keepdims=True) + epsilon)
        return scaled * params[f'{name}/LayerNorm/gamma'] + params[f'{name}/LayerNorm/beta']

    def heads(x: jax.Array) -> jax.Array:
        return x.reshape(*x.shape[:2], num_heads, -1)

    table = 'bert/embeddings'
    x = params[f'{table}/word_embeddings'][tokens]
    x = x + params[f'{table}/position_embeddings'][: tokens.shape[1]]
    x = norm(x + params[f'{table}/token_type_embeddings'][types], table)
    if f'{_INTO_LAYERS}/kernel' in params:
        x = dense(x, _INTO_LAYERS)
    bias = jnp.where(mask[:, None, None] > 0, 0.0, -1e9)
    for i in range(num_layers):
        layer = f'bert/encoder/layer_{i}'
        query, key, value = (
            heads(dense(x, f'{layer}/attention/self/{part}')) for part in ('query', 'key', 'value')
        )
        logits = jnp.einsum('bqhd,bkhd->bhqk', query, key) / jnp.sqrt(query.shape[-1])
        seen = jnp.einsum('bhqk,bkhd->bqhd', jax.nn.softmax(logits + bias), value)
        seen = dense(seen.reshape(x.shape), f'{layer}/attention/output/dense')
        x = norm(x + seen, f'{layer}/attention/output')
        wide = jax.nn.gelu(dense(x, f'{layer}/intermediate/dense'), approximate=True)
        x = norm(x + dense(wide, f'{layer}/output/dense'), f'{layer}/output')
    return dense(jnp.tanh(dense(x[:, 0], 'bert/pooler/dense')), 'dense').ravel()
