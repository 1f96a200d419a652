"""The texts of systems, from the workdirs of runs and from files, example by example."""

import dataclasses
import os
import pathlib
from collections.abc import Sequence

import msgspec

from xlbench.data import readers
from xlbench.reporting import predictions, results, tables
from xlbench.reporting.predictions import Prediction
from xlbench.system.errors import UserError, shortened


@dataclasses.dataclass(frozen=True)
class Source:
    """The predictions of one system, and the place where they were read.

    Attributes:
      tasks: task -> id of the example -> prediction.
      data: 'sample' where the examples are made up.
    """

    name: str
    place: str
    tasks: dict[str, dict[str, Prediction]]
    data: str = 'files'


def read(
    places: Sequence[str], step: str, split: str, tasks: Sequence[str], task: str, sets: int = 0
) -> list[Source]:
    """Reads the systems that are to be judged.

    Places are workdirs, or files of predictions; `NAME=PLACE` names the system. Runs have a step, a
    split ('': the one that a report shows) and tasks (none: all that every system has); the task of
    files is `task`. With `sets` above 0, a text is the list of as many first texts of an example,
    and generators and retrievers of replies have the same tasks.

    Raises:
      UserError: one cannot be read, two have the same name, or tasks of files are chosen.
    """
    sources: list[Source] = []
    for place in places:
        name, equals, path = place.partition('=')
        if not equals or os.path.exists(place):
            name, path = '', place
        if os.path.isdir(path):
            sources.append(_of_run(name, path, step, split, () if sets else tasks))
        else:
            sources.append(_of_file(name, path, task))
        if sets:
            sources[-1] = _of_sets(sources[-1], sets, tasks)
    if tasks and not sets and not any(os.path.isdir(source.place) for source in sources):
        raise UserError(
            f'--tasks={",".join(tasks)} chooses tasks of runs, and all systems are files; '
            f'--task={tasks[0]} names the task of files'
        )
    for i, source in enumerate(sources):
        if source.name in (other.name for other in sources[:i]):
            raise UserError(
                f'two systems are called {shortened(source.name)}; name them: NAME={source.place}'
            )
    return sources


def _of_run(name: str, path: str, step: str, split: str, tasks: Sequence[str]) -> Source:
    run = results.read_run(path)
    shown = split or run.splits()[0]
    chosen = run.at(run.choose_step(step, shown), shown)
    if missing := [name for name in tasks if name not in chosen]:
        raise UserError(f'{path} has no predictions of {missing[0]}, split {shown}')
    rows, kinds = {}, set()
    for name_of_task, result in chosen.items():
        if not tasks or name_of_task in tasks:
            kinds.add(result.data)
            if of_task := predictions.of_result(result):
                rows[name_of_task] = _texts(of_task, f'{path}, task {name_of_task}')
    if not rows:
        raise UserError(f'{path} has no predictions.jsonl of split {shown}')
    data = 'sample' if 'sample' in kinds else 'files'
    return Source(tables.clean(name) or run.name, path, rows, data)


def _of_sets(source: Source, count: int, chosen: Sequence[str]) -> Source:
    """The system whose texts are lists of several, a line each.

    Example: mrs_generation_en_en -> mrs_retrieval_en_en, as the retriever's task is called.
    """
    tasks = {}
    for task, rows in source.tasks.items():
        parts = task.split('_')
        is_reply = len(parts) == 4 and parts[1] == 'generation'
        name = '_'.join((parts[0], 'retrieval', *parts[2:])) if is_reply else task
        if chosen and name not in chosen:
            continue
        tasks[name] = {
            key: msgspec.structs.replace(
                row, prediction='\n'.join(f'- {text}' for text in row.texts(count))
            )
            for key, row in rows.items()
        }
    if missing := [name for name in chosen if name not in tasks]:
        raise UserError(f'{source.place} has no predictions of {missing[0]}')
    return dataclasses.replace(source, tasks=tasks)


def _of_file(name: str, path: str, task: str) -> Source:
    if not os.path.isfile(path):
        raise UserError(f'there is no workdir or file {path}')
    name = name or pathlib.Path(path).name.removesuffix('.gz').rpartition('.')[0] or path
    is_text = not path.removesuffix('.gz').endswith('.jsonl')
    rows: dict[str, Prediction] = {}
    for number, line in readers.good(readers.numbered(path)):
        if is_text:
            rows[str(number - 1)] = Prediction(line)
        else:
            predictions.parse(line, f'{path}:{number}', number - 1, rows)
    if not rows:
        raise UserError(f'{path} has no predictions')
    return Source(tables.clean(name), path, {task: _texts(rows, path)})


def _texts(rows: dict[str, Prediction], place: str) -> dict[str, Prediction]:
    """The predictions as they are, once each is known to be a text."""
    for key, row in rows.items():
        if row.prediction is None:
            raise UserError(f'{place}: example {shortened(key)} has no prediction that is a text')
    return rows
