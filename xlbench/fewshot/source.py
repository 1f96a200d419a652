"""Data that a sweep reads, and the source-trained model that it adapts."""

import hashlib
import json
import pathlib
from collections.abc import Callable, Sequence

import jax
from jax.sharding import Mesh
from ml_collections import ConfigDict

from xlbench import config as config_lib, runs
from xlbench.benchmarks import topics
from xlbench.data import prepared
from xlbench.fewshot import corpus as corpus_lib, results
from xlbench.fewshot.settings import Adapt, planned
from xlbench.system import progress as progress_lib
from xlbench.system.errors import UserError
from xlbench.training import checkpoints, init_from, objectives, train_step
from xlbench.training.experiment import Data
from xlbench.training.objectives.contract import Params


def open_data(config: ConfigDict, adapt: Adapt) -> Data:
    """Opens what the sweep and its source training read; makes what is not prepared."""
    root, vocabulary = config.source.data.root, config.source.data.vocabulary
    pairs = needed_data(config, adapt)
    trained = trained_pairs(config)
    prepared.ensure(
        pairs,
        root=root,
        vocabulary=vocabulary,
        sample=config.source.data.sample,
        vocabulary_size=config.source.data.get('vocabulary_size') or 0,
        vocabulary_type=config.source.data.get('vocabulary_type') or 'unigram',
        texts=[*trained, *(pair for pair in pairs if pair[1].startswith('shots_'))],
    )
    return {pair: prepared.open_mixture(root, vocabulary, *pair) for pair in pairs}


def trained_pairs(config: ConfigDict) -> list[tuple[str, str]]:
    """Returns (task or mixture, split) of all that the source training trains on."""
    stages = config.source.stages.values()
    return [pair for stage in stages for pair in config_lib.stage_pairs(stage)]


def needed_data(config: ConfigDict, adapt: Adapt) -> list[tuple[str, str]]:
    """Returns (task or mixture, split) of all that `open_data` opens."""
    pairs = [
        pair
        for language in adapt.languages
        for pair in corpus_lib.needed(config.task, language, adapt.shots, adapt.dev)
    ]
    if not config.source_workdir:
        pairs += trained_pairs(config)
        blocks = [b for b in config.source.evals.values() if not b.get('optional')]
        pairs += [(task, block.split) for block in blocks for task in block.tasks]
    return list(dict.fromkeys(pairs))


def open_corpus(
    config: ConfigDict, adapt: Adapt, language: str, further_labels: Sequence[str] = ()
) -> corpus_lib.Corpus:
    """Opens one language's buckets, dev and test sets; see corpus.Options."""
    return corpus_lib.Corpus.open(
        config.source.data.root,
        config.source.data.vocabulary,
        config.task,
        language,
        corpus_lib.Options(
            shots=tuple(adapt.shots),
            buckets=adapt.numbers,
            dev=adapt.dev,
            lengths=adapt.lengths,
            batch_size=adapt.eval_batch_size,
            view='tagging' if topics.is_tagging(config.task) else 'classification',
            dev_examples=adapt.dev_examples,
            test_examples=adapt.test_examples,
            further_labels=further_labels,
        ),
    )


def open_corpora(
    config: ConfigDict,
    adapt: Adapt,
    journal: results.Journal,
    further_labels: Sequence[str],
    check: Callable[[], None],
) -> dict[str, corpus_lib.Corpus]:
    """Opens the corpora of what is not done, all of them before anything costs.

    So what cannot be read is found at once; an example takes a few kB until its language is done.
    """
    left = [
        language
        for language in adapt.languages
        if not journal.has_all(planned(config.task, adapt, [language]))
    ]
    corpora = {}
    with progress_lib.Progress('read', len(left), 'languages') as progress:
        for language in left:
            corpora[language] = open_corpus(config, adapt, language, further_labels)
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


class Source:
    """The model that is adapted.

    Args:
      workdir: where it is trained, or has been.
      config: of its training.
      data: what the sweep reads.
      mesh: where its parameters go, whole on each device.

    Attributes:
      workdir: the same.
      config: the same.
      labels: what it labels with, by number.
      further_labels: those of them that the data does not have.
      model: the module.
      objective: what it is trained and adapted for.

    Raises:
      UserError: it cannot be adapted.
    """

    def __init__(self, workdir: str, config: ConfigDict, data: Data, mesh: Mesh):
        self.workdir, self.config, self._mesh = workdir, config, mesh
        vocabulary = next(iter(data.values()))[0][0].manifest['vocabulary']
        self.labels = runs.labels_of(data, config.model)
        self.further_labels = self.labels[len(runs.labels_of(data, {})) :]
        self.objective = objectives.build(**config.objective)
        self.model = runs.build_model(config.model, vocabulary['size'], self.labels)
        self._shapes, self._shardings = train_step.params_like(self.model, self.objective, mesh)

    def params(self, start: str) -> Params:
        """Returns the parameters that adaptations start from."""
        if start == 'source':
            step = checkpoints.find_step(self.workdir, 'best')
            return checkpoints.load_params(self.workdir, step, self._shapes, self._shardings)
        # As xlbench.train makes them.
        rng = jax.random.fold_in(jax.random.key(self.config.seed), 2**31 - 1)
        params = train_step.init_params(self.model, self.objective, self._mesh, rng)
        if not (spec := self.config.init_from):
            return params
        plan = init_from.Plan(spec, self.config.model.family, self.model, self._shapes)
        return plan.load(params)


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


def check_fits(config: ConfigDict, adapt: Adapt, source: Source, data: Data) -> None:
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
    vocabulary = next(iter(data.values()))[0][0].manifest['vocabulary']
    theirs = about.get('vocabulary') or {}
    if theirs.get('sha256') != vocabulary['sha256']:
        raise UserError(
            f'config.source_workdir={source.workdir} was trained with the vocabulary '
            f'{theirs.get("name")!r}, but the data is prepared with another, '
            f'{vocabulary["name"]!r}; set config.source.data.vocabulary to it'
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
