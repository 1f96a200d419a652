"""A whole sweep: one source-trained model, adapted to few shots again and again, and resumed.

Adaptations form groups: a group has one language, start, method and number of shots K. It has a
lane for each learning rate, bucket and seed, and one compiled program runs as many of its lanes at
once as fit; see adaptation.py. Every finished lane is written down (results.py), so that a stopped
sweep continues with the others, and ends with the same results. For this, plan.json keeps the
number of lanes at once, because it decides in which order a compiled program adds numbers.

A later command may ask for more in the same workdir: see workdir.py. Finished results are kept, and
the results are, byte for byte, those of a sweep that was asked for everything at once: no lane
depends on the others, and results.csv has a fixed order. Nothing else may change, including the
contents of the data.
"""

import contextlib
import os
import pathlib
from collections.abc import Iterator

import jax
from jax.sharding import Mesh
from ml_collections import ConfigDict

from xlbench import config as config_lib, dry_run, runs, tracking, train
from xlbench.fewshot import report, results, workdir as workdir_lib
from xlbench.fewshot.runner import Runner
from xlbench.fewshot.settings import Adapt, planned
from xlbench.fewshot.source import (
    Source,
    check_fits,
    needed_data,
    open_corpora,
    open_data,
    source_config,
    source_model,
    survey,
)
from xlbench.parallel import partitioning
from xlbench.parallel.preemption import Interruption
from xlbench.system import locks, sessions
from xlbench.system.errors import UserError
from xlbench.system.files import Json
from xlbench.training import checkpoints, memory, messages
from xlbench.training.experiment import Data, data_facts


def check_config(config: ConfigDict) -> Adapt:
    """Builds config.adapt, and checks all that needs nothing opened.

    Raises:
      UserError: a key or value is wrong, or missing.
    """
    config_lib.check_sweep(config)
    try:
        runs.check_config(config.source)
    except UserError as error:
        raise UserError(f'in config.source: {error}') from None
    for axis, size in config.mesh.items():
        if axis != 'data' and size != 1:
            raise UserError(
                f'config.mesh.{axis} is {size}, but every adaptation runs on one device; set it '
                'to 1'
            )
    adapt = Adapt(**config.adapt.to_dict())
    adapt.check(config.task)
    if adapt.source_learning_rates:
        check_search(config)
    if jax.process_count() > 1:
        raise UserError(
            f'a sweep runs in one process, on all devices of its machine, but this is one of '
            f'{jax.process_count()}; start it without XLBENCH_PROCESSES, and start a sweep with '
            'its own config.adapt.languages and --workdir on each other machine'
        )
    return adapt


def in_advance(config: ConfigDict, workdir: str, joined: str) -> Iterator[str]:
    """Says what `sweep` would do, a line each; the arguments are the same. Writes nothing."""
    adapt = check_config(config)
    mesh = partitioning.make_mesh(**config.mesh)
    memory.check(config.source, mesh)
    begun = workdir_lib.check_workdir(workdir, config)
    yield from dry_run.settings(config)
    yield dry_run.workdir_line(workdir, begun, begun and is_finished(workdir, config.task, adapt))
    yield from introduction(config, adapt, workdir, mesh, joined)
    source = source_config(config)
    pairs = needed_data(config, adapt)
    data = yield from dry_run.data_lines(config.source.data, pairs)
    if config.source_workdir:
        yield f'source model: {config.source_workdir}'
    else:
        rates = ', '.join(map(str, adapt.source_learning_rates))
        searched = f' with each of the learning rates {rates}; the best one is adapted'
        yield 'source model: trained first' + (searched if rates else '')
        yield from dry_run.size_lines(source, data, mesh)
        yield from dry_run.download_lines(source)


def sweep(config: ConfigDict, workdir: str, joined: str = 'alone') -> None:
    """Trains the source model unless there is one, and adapts it as often as config.adapt says.

    Args:
      config: see configs/fewshot.py.
      workdir: made, or resumed if this config was begun in it.
      joined: how the process was started, to say it.

    Raises:
      UserError: before anything is written, if config, data, mesh or workdir cannot work, or if
        another process writes into the workdir.
      Interrupted: the process was told to end.
    """
    adapt = check_config(config)
    if workdir_lib.check_workdir(workdir, config) and is_finished(workdir, config.task, adapt):
        print(f'{workdir} is finished already; its tables:\n\n{report.table(workdir)}')
        return
    tracking.check(config.source.get('trackers', ()))
    mesh = partitioning.make_mesh(**config.mesh)
    memory.check(config.source, mesh)
    if adapt.at_once % mesh.size:
        raise UserError(
            f'config.adapt.at_once is {adapt.at_once}, but {mesh.size} devices share them equally; '
            f'set it to a multiple of {mesh.size}, or to 0'
        )
    source_workdir = config.source_workdir or os.path.join(workdir, 'source')
    trained = source_config(config)
    with (
        locks.folder(workdir),
        sessions.recorded(workdir) as session,
        Interruption() as interruption,
    ):
        workdir_lib.check_workdir(workdir, config)  # It may have been begun since.
        print(f'{config.task}: reads the data of {len(adapt.languages)} languages', flush=True)
        data = open_data(config, adapt)
        source = Source(source_workdir, trained, data, mesh)
        check_fits(config, adapt, source, data)
        journal = results.Journal(workdir)
        corpora = open_corpora(config, adapt, journal, source.further_labels, interruption.check)
        surveys = [survey(adapt, *item) for item in corpora.items()]
        workdir_lib.claim_workdir(workdir, config, facts(config, source, data, mesh))
        session.begin(partitioning.describe(mesh))
        if not config.source_workdir and not (pathlib.Path(source_workdir) / 'DONE').exists():
            if adapt.source_learning_rates:
                search(config, adapt, workdir, joined)
            else:
                train.train(config.source, source_workdir, joined)
        with contextlib.closing(
            Runner(config, adapt, workdir, source, mesh, journal, interruption.check)
        ) as runner:
            for line in (*introduction(config, adapt, workdir, mesh, joined), *surveys):
                runner.log.line(line)
            runner.run(corpora)


def check_search(config: ConfigDict) -> None:
    """Raises UserError unless source training with several learning rates can be compared."""
    where = 'config.adapt.source_learning_rates'
    if config.source_workdir:
        raise UserError(
            f'{where} trains source models, but config.source_workdir={config.source_workdir} '
            'names a trained one; leave out one of the two'
        )
    if not config.source.best.score:
        raise UserError(
            f'{where} needs a score on English dev data, but config.source.best.score names none; '
            'set it to a score of an evaluation in config.source.evals'
        )


def search(config: ConfigDict, adapt: Adapt, workdir: str, joined: str) -> None:
    """Trains a source model with each learning rate; the best one becomes WORKDIR/source.

    The others stay beside it, as WORKDIR/source-RATE. The first of equally good ones is the best.

    Args:
      config: of the sweep.
      adapt: its block of that name.
      workdir: of the sweep.
      joined: how the process was started, to say it.
    """
    scores, best = {}, config.source.best
    for rate in adapt.source_learning_rates:
        folder = os.path.join(workdir, f'source-{rate}')
        if not os.path.exists(os.path.join(folder, 'DONE')):
            print(f'source training with the learning rate {rate}', flush=True)
            train.train(with_rate(config.source, rate), folder, joined)
        last = checkpoints.find_step(folder, 'last')
        scored = checkpoints.read_progress(folder, last).best
        if scored is None:
            raise UserError(f'{folder} has no {best.score}, which chooses the learning rate')
        scores[folder] = scored.score
    chosen = (max if best.mode == 'max' else min)(scores, key=scores.get)
    listed = ', '.join(f'{os.path.basename(name)} {score:.2f}' for name, score in scores.items())
    print(f'{best.score}: {listed}; {os.path.basename(chosen)} is adapted', flush=True)
    os.rename(chosen, os.path.join(workdir, 'source'))


def with_rate(source: ConfigDict, rate: float) -> ConfigDict:
    """Copies the config of a source training, with another learning rate in all its stages."""
    source = ConfigDict(source.to_dict())
    for stage in source.stages.values():
        stage.optimizer.learning_rate = float(rate)
    return source


def is_finished(workdir: str, task: str, adapt: Adapt) -> bool:
    """Returns whether the workdir's tables hold everything that is asked for."""
    if not (pathlib.Path(workdir) / 'DONE').exists():
        return False
    return results.Journal(workdir).has_all(planned(task, adapt))


def introduction(
    config: ConfigDict, adapt: Adapt, workdir: str, mesh: Mesh, joined: str
) -> Iterator[str]:
    """Versions, mesh, and what will be adapted, a plain line each."""
    yield from messages.machine(workdir, mesh, joined)
    if config.source.data.sample:
        yield messages.SAMPLE_DATA
    groups = len(adapt.languages) * len(adapt.groups('', '')) * len(adapt.starts)
    numbers = [len(adapt.lanes(method)) for method in adapt.methods]
    total = sum(numbers) * groups // len(adapt.methods)
    each, rates = (
        ' or '.join(map(str, dict.fromkeys(counts)))
        for counts in (numbers, [len(adapt.rates(method)) for method in adapt.methods])
    )
    yield (
        f'{config.task}: {groups} groups of {each} adaptations = {total}; '
        f'{len(adapt.languages)} languages x start {", ".join(adapt.starts)} x '
        f'{", ".join(adapt.methods)} x {", ".join(map(str, adapt.shots))} shots; a group has '
        f'{len(adapt.numbers)} buckets x {rates} learning rates x '
        f'{len(adapt.seeds)} seeds'
    )


def facts(config: ConfigDict, source: Source, data: Data, mesh: Mesh) -> dict[str, Json]:
    """Returns the facts that config.json has beside the config."""
    tasks, _ = next(iter(data.values()))
    return config_lib.facts() | {
        'vocabulary': tasks[0].manifest['vocabulary'],
        'labels': source.labels,
        'source_model': source_model(config),
        **data_facts(data),
        'devices': partitioning.describe(mesh),
        'dtype': source.config.model.get('dtype', 'float32'),
    }
