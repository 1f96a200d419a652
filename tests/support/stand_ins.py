"""Stand-ins for models that generate, and what an evaluator has written of its answers."""

import json
import pathlib
from typing import Any

import jax
import jax.numpy as jnp

from xlbench import metrics
from xlbench.data import prepared


class Generator:
    """What stands in for any model that generates: it has no parameters, and encodes nothing."""

    decoder_only = False
    reads_languages = False
    fixed = ()

    def apply(self, variables, *args, method, **named):
        return getattr(self, method)(*args, **named)

    def reads_copies(self, rows, length):
        return False

    def steps(self, params, rows, length, copies=None):
        return self.decode_step

    def encode(self, encoder_input_tokens, **others):
        return encoder_input_tokens


class Copier(Generator):
    """Stands in for a model: it predicts its input, token by token."""

    def init_cache(self, encoded, segments, max_length, beams=1):
        spread = jnp.pad(encoded, ((0, 0), (0, max_length)))
        return {'tokens': spread, 'at': jnp.zeros((), jnp.int32)}

    def decode_step(self, cache, tokens):
        now = jax.lax.dynamic_index_in_dim(cache['tokens'], cache['at'], 1, keepdims=False)
        return 5.0 * jax.nn.one_hot(now, 128), cache | {'at': cache['at'] + 1}


def with_metrics(task: prepared.Prepared, *found: Any) -> prepared.Prepared:
    """The task with these metrics in its manifest, or what manifests have of them."""
    specs = [one if isinstance(one, dict) else metrics.to_spec(one) for one in found]
    return prepared.Prepared(task.folder, task.manifest | {'metrics': specs})


def read_result(
    workdir: pathlib.Path, task: prepared.Prepared, step: int = 7
) -> tuple[dict, list[dict]]:
    """Reads metrics.json and the lines of predictions.jsonl of a task's test split."""
    folder = workdir / 'eval' / str(step) / 'test' / task.name
    result = json.loads((folder / 'metrics.json').read_text())
    lines = (folder / 'predictions.jsonl').read_text().splitlines()
    return result, [json.loads(line) for line in lines]
