"""Checks what a config or a command line names on disk or on the hub.

These are tasks, mixtures, vocabularies and checkpoints. A user's own task is known by its file
(tasks/<first word>.py) or by its prepared data. A file that imports neither TensorFlow nor SeqIO is
read at once, and what is wrong in it is said before anything else is done.
"""

import difflib
import functools
import os
import pathlib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ml_collections import ConfigDict

from xlbench import benchmarks
from xlbench.benchmarks import task_files
from xlbench.settings import blocks, workdirs
from xlbench.system import errors, files
from xlbench.system.errors import UserError
from xlbench.system.files import Json

if TYPE_CHECKING:
    from xlbench.data import prepared


def check_places(config: ConfigDict) -> None:
    """Raises UserError for a task, mixture, vocabulary or checkpoint of a run that is not there."""
    vocabulary = config.data.vocabulary
    check = functools.partial(check_task, root=config.data.root, vocabulary=vocabulary)
    for name, stage in config.stages.items():
        where = f'config.stages.{name}'
        check(stage.mixture, f'mixture in {where}')
        for part, block in (stage.get('added') or {}).items():
            check(block.mixture, f'mixture in {where}.added.{part}')
        for part in stage.get('curriculum') or ():
            check(part, f'task or mixture in {where}.curriculum')
    for name, block in config.evals.items():
        for task in block.tasks:
            check(task, f'task in config.evals.{name}.tasks')
    if not new_vocabulary_size(config):
        from xlbench.data import tokenizers  # Slow to import.

        tokenizers.check_name(vocabulary)
    if config.init_from:
        check_source(config.init_from, 'config.init_from')


def new_vocabulary_size(config: ConfigDict) -> int:
    """Gives the size of the vocabulary that a run trains on its data first; 0 if it trains none."""
    path = str(config.data.vocabulary)
    is_new = path.endswith('.model') and not os.path.isfile(os.path.expanduser(path))
    return (config.data.get('vocabulary_size') or 0) if is_new else 0


def known() -> frozenset[str]:
    """The names of all tasks and mixtures that come with xlbench."""
    return _known(tuple(benchmarks.BENCHMARKS))


@functools.cache
def _known(words: tuple[str, ...]) -> frozenset[str]:
    """The same; a config names dozens of tasks, each of which is looked for among them."""
    names = set[str]()
    for benchmark in map(benchmarks.get, words):
        names.update(benchmark.task_names())
        for scenario in benchmark.scenarios():
            base = scenario.mixture
            names.update(f'{base}.{rate}' for rate in benchmarks.RATES[1:])
            names.add(base)
    return frozenset(names)


def check_task(name: object, kind: str, root: str, vocabulary: str) -> None:
    """Raises UserError if there can be no task or mixture of that name.

    It may be prepared in the data `root`, with the `vocabulary`. `kind` is what the message says of
    it, such as 'mixture in config.stages.train'.
    """
    if not isinstance(name, str) or not re.fullmatch(r'[A-Za-z0-9][A-Za-z0-9_.]*', name):
        raise UserError(f'unknown {kind} {name!r}; names are letters, digits, _ and .')
    if name in known():
        return
    if any(pathlib.Path(root, 'prepared').glob(f'*/{name}*')):  # Else it need not be imported.
        from xlbench.data import prepared

        if prepared.is_there(root, vocabulary, name):
            return
    if file := task_files.of_user(name):
        if not task_files.is_heavy(file):
            from xlbench import pipeline

            pipeline.get(name)
        return
    folder, word = os.environ.get('XLBENCH_TASKS') or 'tasks', name.split('_')[0]
    place = folder if folder.endswith('.py') else os.path.join(folder, f'{word}.py')
    hint = f'Your own task of that name has to be in {place}'
    raise errors.unknown(kind, name, known(), '' if word in benchmarks.BENCHMARKS else hint)


def check_splits(pairs: Iterable[tuple[str, str]]) -> None:
    """Raises UserError for a pair (task or mixture, split) that is declared without the split."""
    from xlbench import pipeline  # Slips above need not wait for it.

    for name, split in pairs:
        pipeline.check_split(name, split)


def declared_labels(names: Iterable[str], root: str) -> dict[str, tuple[str, ...]]:
    """The labels of each task, also of those of mixtures; () where it has none.

    Training files in the data `root` may have the labels.
    """
    from xlbench import pipeline
    from xlbench.pipeline import registry

    with pipeline.bound(None, root):
        entries = map(pipeline.get, names)
        tasks = [task for entry in entries for task in registry.members(entry)]
        return {task.name: pipeline.labels(task) for task in tasks}


def check_source(spec: object, kind: str) -> None:
    """Raises UserError, with `kind` as its first word, unless there is such a checkpoint.

    It is a workdir of a run (WORKDIR@STEP), a folder in the form of Hugging Face, or a hub name.
    """
    if not isinstance(spec, str):
        raise UserError(f"{kind} is {spec!r}; '' or a checkpoint's name")
    path, step = workdirs.split_step(spec)
    if step or (path / 'checkpoints').is_dir():
        check_checkpoint(str(path), kind, step)
        return
    if path.is_dir():
        if (path / 'left' / 'config.json').is_file():
            return  # Two encoders.
        if (path / 'config.json').is_file():
            workdirs.refuse_sweep(str(path))
            return
        from xlbench.huggingface import marian_files

        if marian_files.find(path):
            return
        raise UserError(f'{kind}={spec} is a folder without config.json, so it holds no checkpoint')
    if spec[:1] in './~':
        raise UserError(f'{kind}: there is no folder {spec}{_nearest(path)}')
    from xlbench.huggingface import hub

    try:
        hub.check_name(spec)
    except UserError as error:
        raise UserError(f'{kind}: {error}{_nearest(path)}') from None


def check_checkpoint(workdir: str, kind: str, step: str = '') -> None:
    """Raises UserError unless a folder is the workdir of a run with that checkpoint."""
    folder = pathlib.Path(os.path.expanduser(workdir))
    if not folder.is_dir():
        raise UserError(f'{kind}: there is no folder {workdir}{_nearest(folder)}')
    workdirs.read_config(str(folder))
    workdirs.check_step(str(folder), step.partition(':')[0] or 'best')  # Behind it, an adapter.


def _nearest(path: pathlib.Path) -> str:
    """The folders beside a missing one that are named alike, for the end of a message."""
    there = path.parent.iterdir() if path.parent.is_dir() else ()
    names = [entry.name for entry in there if entry.is_dir()]
    near = difflib.get_close_matches(path.name, names, n=3)
    return f'; nearest: {", ".join(str(path.parent / name) for name in near)}' if near else ''


def needed_splits(config: ConfigDict) -> list[tuple[str, str]]:
    """(task or mixture, split) of all that a run reads, in the order of the config."""
    pairs = []
    for stage in config.stages.values():
        parts = [(name, stage.split) for name in stage.get('curriculum') or ()]
        pairs += [*blocks.stage_pairs(stage), *parts]
    for block in config.evals.values():
        splits = ['' if block.get('optional') else block.split, block.get('responses', '')]
        pairs += [(task, split) for split in splits if split for task in block.tasks]
        if not block.every and config.baselines:
            pairs += [(task, config.baseline_split) for task in block.tasks]
    return list(dict.fromkeys(pairs))


def optional_splits(config: ConfigDict) -> list[tuple[str, str]]:
    """(task or mixture, split) of what a run evaluates as far as it is there."""
    blocks = [block for block in config.evals.values() if block.get('optional')]
    return list(dict.fromkeys((task, block.split) for block in blocks for task in block.tasks))


def open_task(
    task: str,
    split: str,
    *,
    like: str = '',
    root: str = '',
    vocabulary: str = '',
    sample: bool = False,
) -> 'prepared.Prepared':
    """The prepared task and split, of whichever vocabulary: its texts are the same.

    The data root is `root`, or that of the workdir `like`, or XLBENCH_DATA, or data. With a
    vocabulary, which the workdir may give, too, a task that is not prepared is prepared; `sample`
    makes the sample corpora in the root.

    Raises:
      UserError: there is no such task, or nothing says with which vocabulary to prepare it.
    """
    from xlbench.data import prepared  # Slow to import.

    if like:
        about: dict[str, Json] = files.read_json(pathlib.Path(like) / 'config.json', dict)
        config = about.get('config')
        data = config.get('data') if isinstance(config, dict) else None
        if not isinstance(data, dict) or not isinstance(data.get('root'), str):
            raise UserError(f'--like={like}: its config.json names no data; give --root')
        sample = sample or bool(data.get('sample'))
        root = workdirs.data_root({**about, 'config': {'data': data | {'sample': sample}}}, root)
        vocabulary = vocabulary or str(data.get('vocabulary') or '')
    root = root or os.environ.get('XLBENCH_DATA') or 'data'
    if vocabulary:
        check_task(task, 'task in --task', root, vocabulary)
        data = blocks.Data(root=root, vocabulary=vocabulary, sample=sample)
        prepared.ensure([(task, split)], data, to_stderr=True)
        return prepared.open_task(root, vocabulary, task, split)
    reasons = []
    place = pathlib.Path(root) / 'prepared'
    for name in files.names(place):
        try:
            return prepared.open_task(root, name, task, split)
        except prepared.NotPrepared as error:
            if (place / name / task / split).is_dir():
                reasons.append(str(error))
    if not reasons:
        check_task(task, 'task in --task', root, 'sample')
    why = reasons[0] if reasons else f'{task}/{split} is not prepared in {root}'
    raise UserError(
        f'{why}; name a vocabulary to prepare it with, --vocabulary=mt5, a run that has it, '
        '--like=WORKDIR, or a file of --references'
    )
