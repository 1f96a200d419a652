"""The parts of a run before any parameter exists; `xlbench.runs.build` composes them."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import flax.linen as nn
import jax
import numpy as np
from flax import traverse_util
from jax.sharding import Mesh
from ml_collections import ConfigDict

from xlbench import models
from xlbench.data import batches as batches_lib
from xlbench.data.prepared import Prepared
from xlbench.data.tokenizers import Tokenizer
from xlbench.models.layers import TransformerConfig
from xlbench.models.lora import Lora
from xlbench.parallel import partitioning
from xlbench.settings import blocks
from xlbench.settings.blocks import Added
from xlbench.system.files import Json, Setting
from xlbench.system.progress import Progress
from xlbench.system.trees import Mask, Params, Shapes, Shardings
from xlbench.training import train_step
from xlbench.training.objectives.contract import Objective
from xlbench.training.rows import ALL_ROWS, Rows

Scores = dict[str, dict[str, float]]  # {task, or 'mean': {score: value}}
# {(task or mixture, split): (its prepared tasks, their rates)}
Data = dict[tuple[str, str], tuple[list[Prepared], list[float]]]
_AT_ONCE = 4096  # Examples that are read together.


def stage_batches(
    config: ConfigDict,
    name: str,
    data: Data,
    mesh: Mesh,
    view: str,
    *,
    position: Mapping[str, int] | None = None,
    **changed: Setting,
) -> batches_lib.TrainBatches:
    """This process's batches of a stage, from its beginning or from a position.

    `changed` are keys of config.batches that are to have other values here.

    Raises:
      UserError: such batches cannot be made.
    """
    stage = config.stages[name]
    tasks, rates = stage_data(data, stage)
    share, shares = partitioning.row_share(mesh)
    parts = [data[part, stage.split][0] for part in stage.get('curriculum') or ()]
    if config.objective.get('chunk_rows'):  # It cuts a batch in its own way.
        changed['widths'] = 1
    return batches_lib.TrainBatches(
        tasks,
        rates,
        **blocks.batches_of(config, name) | changed,
        view=view,
        curriculum=[[task.name for task in part] for part in parts],
        seed=config.seed,
        position=position,
        process_index=share,
        process_count=shares,
        devices=partitioning.batch_shards(mesh),
    )


def stage_data(data: Data, stage: ConfigDict) -> tuple[list[Prepared], list[float]]:
    """The tasks of a stage and their rates, with what is added to its own mixture.

    Each added mixture has its `rate` times as many examples as the stage's own, and shares them
    among its tasks at its own rates.
    """
    tasks, rates = data[stage.mixture, stage.split]
    if not stage.get('added'):
        return tasks, rates
    tasks, rates = list(tasks), [rate / sum(rates) for rate in rates]
    for block in stage.added.values():
        added = Added(**block)
        others, theirs = data[added.mixture, added.split]
        tasks += others
        rates += [added.rate * rate / sum(theirs) for rate in theirs]
    return tasks, rates


def adapter_places(lora: Lora, tasks: Sequence[Prepared]) -> list[int]:
    """The place of each task's adapter, that of its target language; empty where they share one.

    Raises:
      UserError: a language has no adapter.
    """
    langs = [task.manifest.get('target_lang') for task in tasks] if lora.languages else []
    return [lora.place(lang) for lang in langs]


def data_facts(data: Data) -> dict[str, dict[str, str] | dict[str, int] | str]:
    """Describes prepared data for config.json: hashes, examples, sample or real."""
    splits = {f'{t.name}/{t.split}': t for tasks, _ in data.values() for t in tasks}
    ordered = dict(sorted(splits.items()))
    return {
        'manifests': {name: task.sha256 for name, task in ordered.items()},
        'contents': {name: task.content for name, task in ordered.items()},
        'examples': {name: task.pass_size for name, task in ordered.items()},
        'data': 'sample' if is_sample(data) else 'files',
    }


def is_sample(data: Data) -> bool:
    """True if any of the data are the embedded sample corpora."""
    return any(task.manifest['data'] == 'sample' for tasks, _ in data.values() for task in tasks)


class Evaluator(Protocol):
    """The part of an evaluator that the loop knows; xlbench/evaluators/base.py has all of it."""

    samples: Mapping[str, Sequence[Mapping[str, Json]]]
    collapsed: Sequence[str]

    @property
    def notes(self) -> Mapping[str, str]:
        """Warnings about tasks, by their names."""

    def run(self, *args: Any, **options: Any) -> Scores:
        """The scores of each task, and under 'mean' their averages; see there."""

    def examples(self, name: str) -> np.ndarray:
        """The numbers of the examples that are scored of a task."""

    def score_names(self, task: str) -> set[str]:
        """The scores that `run` gives of a task, or of any for 'mean'."""

    def headline(self, scores: Scores, task: str) -> float:
        """The score that stands for a task, or for 'mean'."""


@dataclasses.dataclass(frozen=True)
class Experiment:
    """All that a config builds before any parameter exists.

    `shapes`, `shardings` and `mask` are trees of the parameters; True in the mask is trained.
    """

    mesh: Mesh
    data: Data  # Everything that the config's stages, evals and baselines read.
    model: nn.Module
    lora: Lora
    objective: Objective
    initialise: train_step.Initialiser
    shapes: Shapes
    shardings: Shardings
    mask: Mask
    tokenizer: Tokenizer  # Of the vocabulary that the data was prepared with.
    evals: Mapping[str, tuple[Evaluator, int]]  # {name: (evaluator, every)}
    # {key: epochs of the config in place of which it has steps now}
    given: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def adapters(self, stage: ConfigDict) -> list[int]:
        """The place of the adapter of each task of a stage; empty where they share one."""
        return adapter_places(self.lora, stage_data(self.data, stage)[0])

    @property
    def num_parameters(self) -> int:
        """All parameters, trained or not."""
        return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(self.shapes))

    @property
    def num_trainable(self) -> int:
        """The parameters that training moves."""
        trainable, _ = train_step.split_params(self.shapes, self.mask)
        return sum(math.prod(leaf.shape) for leaf in trainable.values())


def trained_vocab_rows(
    config: ConfigDict,
    data: Data,
    shapes: Shapes | Params,
    mask: Mask,
    of_model: TransformerConfig,
    vocabulary: Tokenizer,
) -> Rows:
    """Finds the rows that a run trains; reads its training data where only some of them are."""
    if config.get('embedding_rows') != 'occurring':
        return ALL_ROWS
    family = config.model.family
    flat_mask = traverse_util.flatten_dict(mask, sep='/')
    flat = traverse_util.flatten_dict(shapes, sep='/')
    # Tables that are only looked up: one that also gives the logits moves as a whole.
    encoders = (e for e in models.FAMILIES[family].encoders if e != 'decoder/')
    tables = [f'{encoder}token_embedder/embedding' for encoder in encoders]
    sizes = {name: flat[name].shape[0] for name in tables if flat_mask.get(name)}
    if not sizes:
        return ALL_ROWS
    tasks = {
        (task.name, task.split): task
        for stage in config.stages.values()
        for task in stage_data(data, stage)[0]
    }
    sides = ('inputs', 'targets') if family == 'dual_encoder' else ('inputs',)
    seen_ids = _ids_seen(list(tasks.values()), sides)
    # What batches and models add to examples.
    for side in ('left', 'right'):
        seen_ids[list(getattr(of_model, f'{side}_prefix', ()))] = True
    for number in (0, vocabulary.pad_id, vocabulary.eos_id, vocabulary.bos_id, vocabulary.unk_id):
        if number is not None and number >= 0:
            seen_ids[number] = True
    return Rows.of(np.flatnonzero(seen_ids), sizes)


def _ids_seen(tasks: Sequence[Prepared], sides: Sequence[str]) -> np.ndarray:
    """[vocabulary] bool: True for an id that stands in a side of some example."""
    ids = np.zeros(tasks[0].manifest['vocabulary']['size'], bool)
    total = sum(len(task) for task in tasks)
    with Progress('read', total, 'examples', active=jax.process_index() == 0) as progress:
        for task in tasks:
            for start in range(0, len(task), _AT_ONCE):
                records = task.read(range(start, min(start + _AT_ONCE, len(task))))
                for record in records:
                    for side in sides:
                        if side in record:
                            ids[record[side]] = True
                progress.add(len(records))
    return ids
