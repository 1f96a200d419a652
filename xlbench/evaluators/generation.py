"""Generation, evaluated: the loss of the references, and the scores of what is decoded.

Each task leaves two files, written whole or not at all:

  <workdir>/eval/<step>/<split>/<task>/metrics.json       scores, signatures, what was scored
  <workdir>/eval/<step>/<split>/<task>/predictions.jsonl  id, input, target, prediction, scores
"""

import dataclasses
import functools
import json
import math
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from xlbench import (
    batches as batches_lib,
    decoding as decoding_lib,
    errors,
    logs,
    metrics,
    partitioning,
)
from xlbench.prepared import Prepared
from xlbench.tokenizers import Tokenizer


class GenerationEvaluator:
    """Scores an encoder-decoder on prepared tasks; every example exactly once.

    Args:
      prepared: the tasks, of one split.
      model: a Linen module with the methods of an encoder-decoder.
      objective: gives the loss of each row.
      mesh: where it runs.
      tokenizer: turns predicted ids into text.
      batch_size: rows over all processes.
      lengths: most tokens of 'inputs' and 'targets'; longer examples are cut, and counted.
      decode: False computes the loss alone.
      decoding: arguments of decoding.Options; greedy by default, as long as `lengths` has it. Of
        num_return texts a metric of several predictions gets all, any other the first.
      num_examples: only the first so many of each task; 0 takes all.
      allow_metrics: modules, beside xlbench.metrics, that a task's metrics may come from.
    """

    def __init__(
        self,
        prepared: Sequence[Prepared],
        model: nn.Module,
        objective: Any,
        mesh: Mesh,
        tokenizer: Tokenizer,
        *,
        batch_size: int,
        lengths: Mapping[str, int],
        decode: bool = True,
        decoding: Mapping[str, Any] | None = None,
        num_examples: int = 0,
        allow_metrics: Sequence[str] = (),
    ):
        partitioning.check_batch_size(batch_size, mesh)
        self._mesh = mesh
        self._tokenizer = tokenizer
        self._decode = decode
        self._tasks = [
            _Task(
                task,
                batches_lib.eval_batches(
                    task,
                    batch_size=batch_size,
                    lengths=dict(lengths),
                    num_examples=num_examples or None,
                    process_index=jax.process_index(),
                    process_count=jax.process_count(),
                ),
                [metrics.from_spec(spec, allow_metrics) for spec in task.manifest['metrics']],
            )
            for task in prepared
        ]
        self._options = options(lengths, decoding)
        self._row_losses = jax.jit(functools.partial(objective.row_losses, model))
        ids = {
            key: prepared[0].manifest['vocabulary'][f'{name}_id']
            for key, name in (('start_id', 'decoder_start'), ('eos_id', 'eos'), ('pad_id', 'pad'))
        }

        def decode_batch(params: Any, batch: dict[str, jax.Array]) -> decoding_lib.Decoded:
            first = batch.pop('forced_first', None)
            return decoding_lib.decode(
                model, params, batch, self._options, **ids, forced_first=first
            )

        self._decode_batch = jax.jit(decode_batch)

    @property
    def num_programs(self) -> int:
        """Programs that this evaluator compiles: one a shape and a job."""
        shapes = {shape for task in self._tasks for shape in task.batches.shapes}
        return len(shapes) * (2 if self._decode else 1)

    def run(
        self, params: Any, step: int, workdir: str, stage: str, split: str = ''
    ) -> dict[str, dict[str, float]]:
        """The scores of each task, and under 'mean' their averages; process 0 writes the files.

        Args:
          params: of the model.
          step: that they are of.
          workdir: where the files go.
          stage: of the run.
          split: what the results are filed under; default: the split that is scored.
        """
        scores = {}
        for task in self._tasks:
            started = time.monotonic()
            with partitioning.activate(self._mesh):
                rows = self._score_rows(params, task)
            result = self._summarise(task, rows)
            scores[task.prepared.name] = result['scores']
            if jax.process_index() == 0:
                result |= {
                    'step': step,
                    'stage': stage,
                    'seconds': round(time.monotonic() - started, 3),
                }
                write_result(
                    workdir, str(step), task.prepared, result, rows.get('written', []), split
                )
        return scores | {'mean': means(scores)}

    def _score_rows(self, params: Any, task: '_Task') -> dict[str, Any]:
        """Runs the device over all batches first, and fetches after: nothing waits in between."""
        results = []
        first = self._tokenizer.forced_first(task.prepared.manifest['target_lang'])
        for local in task.batches:
            if first is not None:
                local['forced_first'] = np.full(len(local['example_index']), first, np.int32)
            batch = partitioning.put_batch(local, self._mesh)
            result = {'index': batch['example_index'], **self._row_losses(params, batch)}
            if self._decode:
                decoded = self._decode_batch(params, batch)
                result |= decoded._asdict()
            results.append(result)
        return collect(results, task.prepared.name, task.batches.num_examples)

    def _summarise(self, task: '_Task', rows: dict[str, Any]) -> dict[str, Any]:
        nats = float(rows['loss'].sum()) / max(float(rows['weight'].sum()), 1.0)
        scores = {'loss': nats, 'perplexity': math.exp(min(nats, 700.0))}
        signatures = {}
        if self._decode:
            n_best = self._texts(rows['tokens'])
            records = [task.prepared[i] for i in range(task.batches.num_examples)]
            targets = [record['targets_pretokenized'] for record in records]
            per_example = [{} for _ in records]
            for metric in task.metrics:
                found, values = metrics.score(metric, targets, n_best)
                scores |= found
                signatures[type(metric).__name__] = metric.signature
                for row, row_scores in zip(per_example, values, strict=True):
                    row.update(row_scores)
            rows['written'] = [
                {
                    'id': i,
                    'input': record['inputs_pretokenized'],
                    'target': target,
                    'prediction': texts[0],
                    'scores': {
                        'loss': float(rows['loss'][i] / max(rows['weight'][i], 1.0)),
                        'log_probability': float(rows['log_probabilities'][i, 0]),
                        **per_example[i],
                    },
                    **self._n_best(rows, i, texts),
                }
                for i, (record, target, texts) in enumerate(
                    zip(records, targets, n_best, strict=True)
                )
            ]
        return {
            'scores': scores,
            'signatures': signatures,
            'num_examples': task.batches.num_examples,
            'trimmed': task.batches.trimmed,
            'decoding': describe(self._options) if self._decode else {},
        }

    def _texts(self, tokens: np.ndarray) -> list[list[str]]:
        """Tokens [examples, num_return, length] -> the texts of each example, best first."""
        count = tokens.shape[1]
        texts = self._tokenizer.decode_batch(list(tokens.reshape(-1, tokens.shape[-1])))
        return [texts[i : i + count] for i in range(0, len(texts), count)]

    def _n_best(self, rows: dict[str, Any], i: int, texts: Sequence[str]) -> dict[str, Any]:
        """What predictions.jsonl says about all texts of an example, where there are several."""
        if self._options.num_return == 1:
            return {}
        values = (rows[name][i].tolist() for name in ('scores', 'log_probabilities'))
        return {
            'n_best': [
                {'prediction': text, 'score': score, 'log_probability': log_probability}
                for text, score, log_probability in zip(texts, *values, strict=True)
            ]
        }


class _Task:
    """A prepared task with what evaluating it needs."""

    def __init__(self, prepared: Prepared, batches: Any, task_metrics: list[Any]):
        self.prepared = prepared
        self.batches = batches
        self.metrics = task_metrics


def options(lengths: Mapping[str, int], decoding: Mapping[str, Any] | None) -> decoding_lib.Options:
    """How an evaluation with this block of its config decodes."""
    names = [field.name for field in dataclasses.fields(decoding_lib.Options)]
    for name in decoding or {}:
        if name not in names:
            raise errors.unknown('decoding option', name, names)
    return decoding_lib.Options(**{'max_length': lengths['targets'], **(decoding or {})})


def describe(options: decoding_lib.Options) -> dict[str, Any]:
    """What is written down of them: method, length, and what is not as by default."""
    default = decoding_lib.Options()
    return {
        name: value
        for name, value in dataclasses.asdict(options).items()
        if name in ('method', 'max_length') or value != getattr(default, name)
    }


def means(scores: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The average of each score over the tasks that have it."""
    names = {name for values in scores.values() for name in values}
    return {
        name: float(np.mean([v[name] for v in scores.values() if name in v]))
        for name in sorted(names)
    }


def collect(
    results: Sequence[Mapping[str, jax.Array]], name: str, num_examples: int
) -> dict[str, np.ndarray]:
    """The rows of all batches in the order of the examples, without padding, on every process.

    Args:
      results: of each batch, arrays [rows, ...]; 'index' is the example of a row, or -1.
      name: of the task.
      num_examples: that there must be, each once.
    """
    rows = {key: np.concatenate([_fetch(r[key]) for r in results]) for key in results[0]}
    real = rows['index'] >= 0
    order = np.argsort(rows['index'][real], kind='stable')
    rows = {key: value[real][order] for key, value in rows.items()}
    if not np.array_equal(rows['index'], np.arange(num_examples)):
        raise RuntimeError(
            f'{name}: {len(rows["index"])} rows were scored, not each of {num_examples} examples '
            'once'
        )
    return rows


def _fetch(value: jax.Array) -> np.ndarray:
    """The whole array on every process."""
    if jax.process_count() == 1:
        return np.asarray(value)
    return np.asarray(multihost_utils.process_allgather(value, tiled=True))


def write_result(
    workdir: str,
    step: str,
    prepared: Prepared,
    result: Mapping[str, Any],
    predictions: Sequence[Mapping[str, Any]],
    split: str = '',
) -> None:
    """Writes metrics.json, and predictions.jsonl if there are any.

    `split` is what the result is filed under, by default the split that was scored.
    """
    split = split or prepared.split
    folder = pathlib.Path(workdir) / 'eval' / step / split / prepared.name
    folder.mkdir(parents=True, exist_ok=True)
    facts = {
        'task': prepared.name,
        'split': split,
        **result,
        'data': prepared.manifest['data'],
        'manifest': prepared.sha256,
    }
    files = {'metrics.json': logs.as_json(facts)}
    if predictions:
        rows = (json.dumps(row, ensure_ascii=False) for row in predictions)
        files = {'predictions.jsonl': '\n'.join(rows) + '\n'} | files
    for name, text in files.items():
        temporary = folder / f'.{name}.tmp'
        temporary.write_text(text, encoding='utf-8')
        temporary.replace(folder / name)
