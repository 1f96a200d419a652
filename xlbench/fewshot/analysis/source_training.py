"""Training of a source model in English, from its workdir."""

import dataclasses
import pathlib

import msgspec

from xlbench.benchmarks import FEWSHOT, topics
from xlbench.reporting import results
from xlbench.system import errors, files


class _Optimizer(msgspec.Struct):
    learning_rate: float | None = None


class _Stage(msgspec.Struct):
    num_steps: int = 0
    optimizer: _Optimizer = msgspec.field(default_factory=_Optimizer)


class _Batches(msgspec.Struct):
    batch_size: int = 0


class _Config(msgspec.Struct):
    """The part of the config of a source training that is read."""

    stages: dict[str, _Stage] = {}
    batches: _Batches = msgspec.field(default_factory=_Batches)


@dataclasses.dataclass(frozen=True)
class SourceTraining:
    """One source training in English, as far as its workdir tells.

    Attributes:
        workdir: Of the training.
        learning_rate: Of the last stage, at its highest; None if the config does not say.
        batch_size: Likewise.
        epochs: Over the training examples; None if their number is not known.
        dev: Score on the English dev set, and of how many examples, at the step that is adapted;
            or a sentence on why that is not known.
        test: Likewise, on the English test set.
    """

    workdir: pathlib.Path
    learning_rate: float | None
    batch_size: int | None
    epochs: float | None
    dev: tuple[float, int] | str
    test: tuple[float, int] | str


def read(workdir: pathlib.Path, task: str) -> SourceTraining | str:
    """Reads a workdir of source training for a task; a sentence on why if it cannot be read."""
    try:
        run = results.read_run(workdir)
        config = files.check_type(run.config, _Config, f'{workdir}/config.json')
    except errors.UserError as error:
        return str(error)
    name, metric = topics.task_name(task, FEWSHOT.pivot), topics.main_score(task)

    def score(split: str) -> tuple[float, int] | str:
        try:
            result = run.at(run.choose_step('best', split, metric), split).get(name)
        except errors.UserError as error:
            return str(error)
        if result is None or metric not in result.scores:
            return f'{workdir} has no {metric} of {name} on the split {split!r}'
        return result.scores[metric], result.num_examples

    stages = list(config.stages.values())
    examples = (run.info.get('examples') or {}).get(f'{name}/train')
    rows = config.batches.batch_size * sum(stage.num_steps for stage in stages)
    return SourceTraining(
        workdir,
        stages[-1].optimizer.learning_rate if stages else None,
        config.batches.batch_size or None,
        rows / examples if examples else None,
        score('validation'),
        score('test'),
    )
