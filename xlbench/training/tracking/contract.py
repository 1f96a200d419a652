"""The contract of a tracker: a class with three methods."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from xlbench.system.files import Json


class Sample(NamedTuple):
    """An example with what the model answers."""

    input: str
    target: str
    prediction: str


Samples = Mapping[str, Sequence[Sample]]  # {'eval/test/TASK': the same few examples each time}


@dataclasses.dataclass(frozen=True)
class Run:
    """The run that a tracker follows.

    Attributes:
      workdir: of the run; a tracker that writes files writes them there.
      config: of the run, as plain dicts, lists and scalars.
      step: that the run goes on from: what is written next belongs to later steps. 0 at its begin.
      identity: what the tracker said when this run was tracked before; '' the first time.
    """

    workdir: str
    config: Mapping[str, Json]
    step: int = 0
    identity: str = ''


class Tracked(NamedTuple):
    """The answer of a tracker that has begun.

    Attributes:
      identity: of the run, by which the tracker finds it again when the run is resumed; '' if it
        needs none.
      place: where people find the run: a link, or a file; '' says nothing.
    """

    identity: str = ''
    place: str = ''


class Tracker:
    """Takes the numbers and sample answers of one run.

    All methods are called in one thread, which is not the one that trains. Whatever they raise ends
    the tracking, and not the run.
    """

    # The modules that must be importable, and what installs them.
    modules: ClassVar[Sequence[str]] = ()
    install: ClassVar[str] = ''

    @classmethod
    def check(cls) -> None:
        """Raises UserError for what is missing, before the run costs anything; it has `modules`."""

    def start(self, run: Run) -> Tracked:
        """Begins to track a run, or goes on with it."""
        raise NotImplementedError

    def write(self, step: int, scalars: Mapping[str, float], samples: Samples) -> None:
        """Takes numbers of a step, or samples, or both.

        Args:
          step: of the run. An evaluation of the best checkpoint is of a step before the newest one.
          scalars: {'train/stage1/loss': 2.5}; not all are finite.
          samples: answers of the model at this step.
        """
        raise NotImplementedError

    def close(self, finished: bool) -> None:
        """Ends the tracking.

        Args:
          finished: whether the run is; else it was interrupted, or has failed.
        """
        raise NotImplementedError


def markdown(samples: Sequence[Sample]) -> str:
    """A table of samples, as TensorBoard and MLflow show it."""
    lines = ['| input | target | prediction |', '|---|---|---|']
    lines += [f'| {" | ".join(map(_cell, sample))} |' for sample in samples]
    return '\n'.join(lines) + '\n'


def _cell(text: str) -> str:
    r"""One line, in which nothing is markup. Example: 'a|b' -> 'a\|b'"""
    escaped = ''.join(f'\\{char}' if char in '\\`*_{}[]()#+-!|~' else char for char in text)
    return ' '.join(escaped.replace('&', '&amp;').replace('<', '&lt;').split())
