"""A run and a sweep, with what the programs do to their workdirs."""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ml_collections import ConfigDict

from xlbench import config as config_lib, evaluate, report, train
from xlbench.config import commands
from xlbench.evaluators.generation import Prediction
from xlbench.fewshot import command, report as sweep_report, sweep as sweep_lib
from xlbench.fewshot.analysis.sweeps import Sweep as SweepResults
from xlbench.inference.answering import Suggestion
from xlbench.inference.labeller import Classifier, Tagger
from xlbench.inference.loading import Answering, load
from xlbench.inference.retriever import NUM_SUGGESTIONS, Retriever
from xlbench.interactive.calling import Cell, flags, frame, plainly
from xlbench.parallel import cluster
from xlbench.reporting import layout, predictions
from xlbench.reporting.results import Run as RunResults, read_run
from xlbench.system import errors, ranges
from xlbench.system.files import Setting

if TYPE_CHECKING:
    import pandas as pd


class _Workdir:
    """A folder of something that is trained, which may not be there yet."""

    def __init__(self, workdir: str | os.PathLike):
        self.workdir = os.fspath(workdir)

    def __repr__(self) -> str:
        return f'{type(self).__name__}({self.workdir!r})'

    @property
    def config(self) -> ConfigDict:
        """The config that the workdir was begun with; UserError if it is not there."""
        config = config_lib.read_about(self.workdir).get('config')
        if not isinstance(config, dict):
            raise errors.UserError(f'{self.workdir}/config.json has no config of a run or a sweep')
        return ConfigDict(ranges.tuples(config))


class Run(_Workdir):
    """A run of xlbench.train: one that is there, or one that `train` is to begin."""

    def __init__(self, workdir: str | os.PathLike):
        super().__init__(workdir)
        self._models: dict[str, Answering] = {}

    @plainly
    def train(self, config: ConfigDict | None = None) -> None:
        """Trains as `python -m xlbench.train` does; without a config it goes on with the run's own.

        To interrupt the kernel saves the step that the run is at.
        """
        config = self.config if config is None else config
        commands.check_train(config, self.workdir)
        _begin()
        self._models.clear()
        train.train(config, self.workdir)

    @plainly
    def evaluate(self, **options: Setting) -> 'pd.DataFrame':
        """Scores a checkpoint as `python -m xlbench.evaluate` does, whose flags are the `options`.

        Example: run.evaluate(tasks=['mtg_qg_en_de'], num_beams=4, num_examples=100)

        Returns:
          The scores of these tasks, as `scores` gives them.
        """
        args = commands.parse_evaluate(['evaluate', self.workdir, *flags(options)])
        _begin()
        step, split = evaluate.evaluate(args)
        return Run(args.output or self.workdir).scores(split, step)

    @plainly
    def scores(self, split: str = '', step: str | int = 'last') -> 'pd.DataFrame':
        """Reads the scores of the run and of its baselines.

        The split '' is test if it was scored, else validation; a step is 'last', 'best', the name
        of a stage, or a number.

        Returns:
          A frame by system and task: the number of examples, and each score. Its `attrs` have the
          split and the step.
        """
        run = read_run(self.workdir)
        split, number = _place(run, split, step)
        systems = {'run': run.at(number, split)} | {
            name: {task: result for (task, of), result in results.items() if of == split}
            for name, results in run.baselines.items()
        }
        rows: Iterator[dict[str, Cell]] = (
            {'system': name, 'task': task, 'examples': result.num_examples, **result.scores}
            for name, results in systems.items()
            for task, result in sorted(results.items())
        )
        scores = frame(rows, index=('system', 'task'))
        scores.attrs.update(split=split, step=number)
        return scores

    @plainly
    def history(self) -> 'pd.DataFrame':
        """Reads what was logged.

        Returns:
          A frame with the columns step, kind ('train' or 'eval'), name (of a stage or a task),
          and a column for each value, such as loss and learning_rate.
        """
        lines = read_run(self.workdir).log
        return frame({'step': x.step, 'kind': x.kind, 'name': x.name, **x.values} for x in lines)

    @plainly
    def predictions(self, task: str, split: str = '', step: str | int = 'last') -> 'pd.DataFrame':
        """Reads what the run wrote for a task that was scored: a frame by the examples' ids.

        It has input, target, prediction, and the scores of each; for split and step see `scores`.
        """
        run = read_run(self.workdir)
        split, number = _place(run, split, step)
        results = run.at(number, split)
        errors.check_known(f'task of {self.workdir}, step {number}, {split}', task, results)
        rows = predictions.of_result(results[task])
        cells: Iterator[dict[str, Cell]] = (
            {'id': i, 'input': x.input, 'target': x.target, 'prediction': x.prediction, **x.scores}
            for i, x in rows.items()
        )
        return frame(cells, index=('id',))

    @plainly
    def predict(
        self, texts: Sequence[str | Sequence[str]], step: str = 'best', **options: Setting
    ) -> 'pd.DataFrame':
        """Has the model of a step answer texts, or pairs of them, as `xlbench.predict` does.

        The `options` are `target_lang` and `num_return`; of a model that writes texts, the other
        arguments of its `generate`, too.

        Example: run.predict(['Rome is an old city. <answer> Rome'], target_lang='de', num_beams=4)

        Returns:
          A frame with a row for each answer: the text as `input`, `prediction`, and the answer's
          `score` or `probability`.
        """
        return frame(_answers(self.model(step), texts, options))

    @plainly
    def model(self, step: str = 'best') -> Answering:
        """Opens the model of 'best', 'last' or a step once; see `xlbench.predict.load`."""
        if step not in self._models:
            _begin()
            self._models[step] = load(f'{self.workdir}@{step}')
        return self._models[step]

    @plainly
    def table(self, split: str = '', step: str | int = 'last') -> str:
        """Gives the benchmark's own table of the run as a text to print; see `scores`."""
        return layout.screen(self.workdir, step, split or None)


def _begin() -> None:
    """Does what each program does before it calls jax."""
    errors.allow_open_files()
    cluster.keep_programs()


def _place(run: RunResults, split: str, step: str | int) -> tuple[str, int]:
    split = split or run.splits()[0]
    return split, run.choose_step(step, split)


def _answers(
    model: Answering,
    texts: Sequence,  # Texts or pairs of them, as the model takes them.
    options: Mapping[str, Setting],
) -> Iterator[dict[str, Cell]]:
    options = dict(options)
    if isinstance(model, Classifier):
        for text, one in zip(texts, model.classify(texts, **options), strict=True):
            yield {'input': text, 'prediction': one.label, 'probability': one.probability}
    elif isinstance(model, Tagger):
        for x in model.tag(texts, **options):
            yield {'input': x.words, 'prediction': x.tags, 'probability': x.probabilities}
    else:
        lang = options.pop('target_lang', None)
        count = options.pop('num_return', None)
        lists: Sequence[Sequence[Suggestion | Prediction]] = (
            model.suggest(texts, lang, count or NUM_SUGGESTIONS, **options)
            if isinstance(model, Retriever)
            else model.generate(texts, target_lang=lang, num_return=count or 1, **options)
        )
        for text, answers in zip(texts, lists, strict=True):
            for answer in answers:
                yield {'input': text, 'prediction': answer.text, 'score': answer.score}


class Sweep(_Workdir):
    """A sweep of few-shot transfer: one that is there, or one that `train` is to begin."""

    @plainly
    def train(self, config: ConfigDict | None = None) -> None:
        """Trains and adapts as `python -m xlbench.fewshot` does; see `Run.train`."""
        config = self.config if config is None else config
        command.check(config, self.workdir)
        _begin()
        sweep_lib.sweep(config, self.workdir)

    @plainly
    def results(self) -> 'pd.DataFrame':
        """Reads the results: the rows of results.csv, as docs/fewshot.md has them."""
        rows = map(dataclasses.asdict, SweepResults(self.workdir).rows)
        return frame({k: v for k, v in row.items() if k != 'curve'} for row in rows)

    @plainly
    def table(self) -> str:
        """Gives the tables of the sweep as a text to print."""
        return sweep_report.table(self.workdir)


@plainly
def write_report(
    runs: Sequence[Run | Sweep], output: str | os.PathLike, **options: Setting
) -> None:
    """Writes the report of runs, as `xlbench.report` does with these flags, or that of sweeps."""
    folders = [run.workdir for run in runs]
    if any(isinstance(run, Sweep) for run in runs):
        if not all(isinstance(run, Sweep) for run in runs):
            raise errors.UserError('a report is of runs or of sweeps; write one of each')
        read = [SweepResults(folder) for folder in folders]
        print('\n'.join(sweep_report.write(read, os.fspath(output))))
    else:
        report.main([*folders, f'--output={os.fspath(output)}', *flags(options)])
