"""A whole sweep: one source-trained model, adapted to few shots again and again, and resumed.

Adaptations form groups: a group has one language, start, method and number of shots K. It has a
lane for each learning rate, bucket and seed, and one compiled program runs as many of its lanes at
once as fit; see adaptation.py. Every finished lane is written down (results.py), so that a stopped
sweep continues with the others, and ends with the same results. For this, plan.json keeps the
number of lanes at once, because it decides in which order a compiled program adds numbers.

A later command may ask for more in the same workdir: see command.py. Finished results are kept, and
the results are, byte for byte, those of a sweep that was asked for everything at once: no lane
depends on the others, and results.csv has a fixed order. Nothing else may change, including the
contents of the data.
"""

import collections
import contextlib
import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Iterator

import jax
from jax.sharding import Mesh
from ml_collections import ConfigDict

from xlbench import config as config_lib, runs, train
from xlbench.benchmarks import topics
from xlbench.data import prepared, tokenizers
from xlbench.fewshot import command, corpus as corpus_lib, report, results
from xlbench.fewshot.runner import Runner, Source
from xlbench.fewshot.settings import Adapt, planned
from xlbench.parallel import partitioning
from xlbench.parallel.preemption import Interruption
from xlbench.plan import dry_run
from xlbench.settings import blocks
from xlbench.system import locks, progress as progress_lib, sessions
from xlbench.system.errors import UserError
from xlbench.system.files import Json
from xlbench.training import checkpoints, memory, messages, tracking
from xlbench.training.experiment import Data, data_facts


def checked_adapt(config: ConfigDict) -> Adapt:
    """Builds config.adapt, and checks all that needs nothing opened.

    Raises:
      UserError: a key or value is wrong, or missing.
    """
    config_lib.check_sweep_names(config)
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
    rates = 'config.adapt.source_learning_rates'
    if adapt.source_learning_rates and config.source_workdir:
        raise UserError(
            f'{rates} trains source models, but config.source_workdir={config.source_workdir} '
            'names a trained one; leave out one of the two'
        )
    if adapt.source_learning_rates and not config.source.best.score:
        raise UserError(
            f'{rates} needs a score on dev data, but config.source.best.score names none; '
            'set it to a score of an evaluation in config.source.evals'
        )
    if jax.process_count() > 1:
        raise UserError(
            f'a sweep runs in one process, on all devices of its machine, but this is one of '
            f'{jax.process_count()}; start it without XLBENCH_PROCESSES, and start a sweep with '
            'its own config.adapt.languages and --workdir on each other machine'
        )
    return adapt


def in_advance(config: ConfigDict, workdir: str, joined: str) -> Iterator[str]:
    """Says what `sweep` would do, a line each; the arguments are the same. Writes nothing."""
    adapt = checked_adapt(config)
    mesh = partitioning.make_mesh(**config.mesh)
    memory.check(config.source, mesh)
    begun = command.check_workdir(workdir, config)
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

    The workdir is made, or resumed if this config was begun in it. `joined` says how the process
    was started.

    Raises:
      UserError: before anything is written, if config, data, mesh or workdir cannot work, or if
        another process writes into the workdir.
      Interrupted: the process was told to end.
    """
    adapt = checked_adapt(config)
    if command.check_workdir(workdir, config) and is_finished(workdir, config.task, adapt):
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
        sessions.Recorder(workdir) as session,
        Interruption() as interruption,
    ):
        command.check_workdir(workdir, config)  # It may have been begun since.
        print(f'{config.task}: reads the data of {len(adapt.languages)} languages', flush=True)
        data = open_data(config, adapt)
        source = Source(source_workdir, trained, data, mesh)
        check_fits(config, adapt, source)
        journal = results.Journal(workdir)
        corpora = open_corpora(config, adapt, data, journal, source, interruption.check)
        surveys = [survey(adapt, *item) for item in corpora.items()]
        command.claim_workdir(workdir, config, facts(config, source, data, mesh))
        session.begin(partitioning.describe(mesh))
        if not config.source_workdir and not (pathlib.Path(source_workdir) / 'DONE').exists():
            if adapt.source_learning_rates:
                search(config, adapt, workdir, joined)
            else:
                train.train(config.source, source_workdir, joined)
        folder, check = pathlib.Path(workdir), interruption.check
        runner = Runner(config, adapt, folder, source, mesh, journal, check)
        with contextlib.closing(runner.log):
            for line in (*introduction(config, adapt, workdir, mesh, joined), *surveys):
                runner.log.line(line)
            runner.run(corpora)


def search(config: ConfigDict, adapt: Adapt, workdir: str, joined: str) -> None:
    """Trains a source model with each learning rate; the best one becomes WORKDIR/source.

    The others stay beside it, as WORKDIR/source-RATE. The first of equally good ones is the best.
    The arguments are those of `sweep`, and config.adapt.
    """
    scores, best = {}, config.source.best
    for rate in adapt.source_learning_rates:
        folder = os.path.join(workdir, f'source-{rate}')
        if not os.path.exists(os.path.join(folder, 'DONE')):
            print(f'source training with the learning rate {rate}', flush=True)
            source = ConfigDict(config.source.to_dict())
            for stage in source.stages.values():
                stage.optimizer.learning_rate = float(rate)
            train.train(source, folder, joined)
        last = checkpoints.find_step(folder, 'last')
        scored = checkpoints.read_progress(folder, last).best
        if scored is None:
            raise UserError(f'{folder} has no {best.score}, which chooses the learning rate')
        scores[folder] = scored.score
    chosen = (max if best.mode == 'max' else min)(scores, key=lambda folder: scores[folder])
    listed = ', '.join(f'{os.path.basename(name)} {score:.2f}' for name, score in scores.items())
    print(f'{best.score}: {listed}; {os.path.basename(chosen)} is adapted', flush=True)
    os.rename(chosen, os.path.join(workdir, 'source'))


def is_finished(workdir: str, task: str, adapt: Adapt) -> bool:
    """Returns whether the workdir's tables hold everything that is asked for."""
    if not (pathlib.Path(workdir) / 'DONE').exists():
        return False
    return results.Journal(workdir).has_all(planned(task, adapt))


def introduction(
    config: ConfigDict, adapt: Adapt, workdir: str, mesh: Mesh, joined: str
) -> Iterator[str]:
    """Yields versions, mesh and the adaptations to come, a plain line each."""
    yield from messages.machine(workdir, mesh, joined)
    if config.source.data.sample:
        yield messages.SAMPLE_DATA
    groups = collections.Counter(row.group for row in planned(config.task, adapt) if row.shots)
    each, rates = (
        ' or '.join(map(str, dict.fromkeys(counts)))
        for counts in (groups.values(), [len(adapt.rates(method)) for method in adapt.methods])
    )
    yield (
        f'{config.task}: {len(groups)} groups of {each} adaptations = {groups.total()}; '
        f'{len(adapt.languages)} languages x start {", ".join(adapt.starts)} x '
        f'{", ".join(adapt.methods)} x {", ".join(map(str, adapt.shots))} shots; a group has '
        f'{len(adapt.numbers)} buckets x {rates} learning rates x '
        f'{len(adapt.seeds)} seeds'
    )


def facts(config: ConfigDict, source: Source, data: Data, mesh: Mesh) -> dict[str, Json]:
    """Returns the facts that config.json has beside the config."""
    return config_lib.facts() | {
        'vocabulary': source.vocabulary,
        'labels': source.labels,
        'source_model': source_model(config),
        **data_facts(data),
        'devices': partitioning.describe(mesh),
        'dtype': source.config.model.get('dtype', 'float32'),
    }


# -----------------------------------------------------------------------------------------------
# The data and the source-trained model.


def open_data(config: ConfigDict, adapt: Adapt) -> Data:
    """Opens what the sweep and its source training read; makes what is not prepared."""
    root, vocabulary = config.source.data.root, config.source.data.vocabulary
    pairs = needed_data(config, adapt)
    trained = [p for stage in config.source.stages.values() for p in config_lib.stage_pairs(stage)]
    prepared.ensure(
        pairs,
        blocks.Data(**config.source.data),
        texts=[*trained, *(pair for pair in pairs if pair[1].startswith('shots_'))],
    )
    return {pair: prepared.open_mixture(root, vocabulary, *pair) for pair in pairs}


def _of_language(config: ConfigDict, adapt: Adapt, language: str) -> list[tuple[str, str]]:
    """Returns (task, split) of all that adaptations to a language read."""
    root = config.source.data.root
    return corpus_lib.needed(config.task, language, adapt.shots, adapt.dev, root)


def needed_data(config: ConfigDict, adapt: Adapt) -> list[tuple[str, str]]:
    """Returns (task or mixture, split) of all that `open_data` opens."""
    pairs = [pair for language in adapt.languages for pair in _of_language(config, adapt, language)]
    if not config.source_workdir:
        pairs += config_lib.needed_splits(config.source)
    return list(dict.fromkeys(pairs))


def open_corpora(
    config: ConfigDict,
    adapt: Adapt,
    data: Data,
    journal: results.Journal,
    source: Source,
    check: Callable[[], None],
) -> dict[str, corpus_lib.Corpus]:
    """Reads the corpora of what is not done, all of them before anything costs.

    So what cannot be read is found at once; an example takes a few kB until its language is done.
    """
    left = [
        language
        for language in adapt.languages
        if not journal.has_all(planned(config.task, adapt, [language]))
    ]
    corpora, view = {}, source.objective.view
    if view == 'tagging_first_letter':
        tokenizers.load(config.source.data.vocabulary, config.source.data.root)  # Knows letters.
    with progress_lib.Progress('read', len(left), 'languages') as progress:
        for language in left:
            needed = _of_language(config, adapt, language)
            splits = {split: data[name, split][0][0] for name, split in needed}
            corpora[language] = corpus_lib.Corpus(splits, adapt, view, source.labels)
            progress.add()
            check()
    return corpora


def survey(adapt: Adapt, language: str, corpus: corpus_lib.Corpus) -> str:
    """Describes a language's dev and test sets and buckets; UserError without a dev set."""
    parts = [f'{corpus.test_size} test examples']
    for number in adapt.shots:
        every, dev = corpus.bucket_sizes(number), corpus.dev_size(number)
        sizes = {bucket: every[bucket] for bucket in adapt.numbers}
        text = f'{number} shots: {min(sizes.values())} to {max(sizes.values())} examples'
        parts.append(text + (f', dev {dev}' if dev else ''))
        if empty := [f'{bucket}' for bucket, size in sizes.items() if not size]:
            parts.append(f'EMPTY of {number} shots: bucket {", ".join(empty)}')
    if note := corpus.about_test:
        parts.append(note)
    return f'  {language}: {"; ".join(parts)}'


def source_config(config: ConfigDict) -> ConfigDict:
    """Returns the config of the source training; UserError if its model does not suit the task."""
    source, workdir = config.source, config.source_workdir
    if workdir:
        source = config_lib.read_config(workdir)
        if not (pathlib.Path(workdir) / 'DONE').is_file():
            raise UserError(
                f'config.source_workdir={workdir} is an unfinished run; finish it with the command '
                'that started it'
            )
    needed = 'tagging' if topics.is_tagging(config.task) else 'classification'
    if source.objective.name != needed:
        raise UserError(
            f'the source model is trained for {source.objective.name}, but {config.task} is '
            f'{needed}; name another one in config.source or config.source_workdir'
        )
    if rank := source.lora.rank:
        raise UserError(
            f'the source model is trained with LoRA of rank {rank}, but only models without LoRA '
            'can be adapted; set config.source.lora.rank to 0, or name another source_workdir'
        )
    return source


def check_fits(config: ConfigDict, adapt: Adapt, source: Source) -> None:
    """Raises UserError unless texts of the data are what the source model reads and labels."""
    length, most = adapt.lengths['inputs'], source.model.config.max_positions
    if length > most:
        raise UserError(
            f'config.adapt.lengths.inputs is {length}, but the source model accepts at most {most} '
            f'tokens; set it to {most} or less'
        )
    if not config.source_workdir:
        return
    about = config_lib.read_about(source.workdir)
    if (labels := about.get('labels') or []) != source.labels:
        raise UserError(
            f'config.source_workdir={source.workdir} was trained with the labels '
            f'{", ".join(labels) or "none"}, but {config.task} has {", ".join(source.labels)}'
        )
    theirs = about.get('vocabulary') or {}
    if theirs.get('sha256') != source.vocabulary['sha256']:
        raise UserError(
            f'config.source_workdir={source.workdir} was trained with the vocabulary '
            f'{theirs.get("name")!r}, but the data is prepared with another, '
            f'{source.vocabulary["name"]!r}; set config.source.data.vocabulary to it'
        )


def source_model(config: ConfigDict) -> str:
    """Hashes a finished source model; '' for one that is trained here."""
    if not (workdir := config.source_workdir):
        return ''
    about = config_lib.read_about(workdir)
    trained = {key: value for key, value in about['config'].items() if key != 'mesh'}
    step = checkpoints.find_step(workdir, 'best')
    text = json.dumps([trained, about.get('contents'), step], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
