"""Evaluations of a run: when they are due, their log lines, and the best score so far."""

import itertools
import math
import time
from collections.abc import Mapping

from ml_collections import ConfigDict

from xlbench.parallel.preemption import Interruption
from xlbench.parallel.watchdog import Watch
from xlbench.settings import blocks
from xlbench.system import errors
from xlbench.system.files import Json
from xlbench.system.progress import duration
from xlbench.system.trees import Params
from xlbench.training import memory, messages, tracking
from xlbench.training.checkpoints import Best, Progress
from xlbench.training.experiment import Evaluator, Scores

# Characters of a text that trackers get.
_LONGEST_SAMPLE = 1000


class Evaluation:
    """The evaluations of a run; `interruption` and `watch` hear of every batch.

    Attributes:
      final: {name: evaluator} of those at the end of a stage.
    """

    def __init__(
        self,
        config: ConfigDict,
        workdir: str,
        evals: Mapping[str, tuple[Evaluator, int]],
        log: tracking.Log,
        interruption: Interruption,
        watch: Watch,
    ):
        self._config, self._workdir, self._evals = config, workdir, evals
        self._log, self._interruption, self._watch = log, interruption, watch
        self._batches = itertools.count(1)  # For the watch.
        self._tracked_samples = config.get('tracked_samples', blocks.LATER_KEYS['tracked_samples'])
        self.final = {name: one for name, (one, every) in evals.items() if not every}

    def due(self, step: int, last: bool) -> list[str]:
        """The evaluations of a step while a stage trains; all but the final ones in its last."""
        return [
            name
            for name, (_, every) in self._evals.items()
            if every and (step % every == 0 or last)
        ]

    def run(self, name: str, params: Params, step: int, stage: str) -> Scores:
        """Evaluates the parameters of a step, and writes the scores into the log."""
        evaluator, _ = self._evals[name]
        started = time.monotonic()
        rows = self._config.evals[name].batch_size
        with memory.advising(f'take a smaller config.evals.{name}.batch_size (now {rows:,})'):
            scores = evaluator.run(
                params,
                step,
                self._workdir,
                stage,
                check=self._after_batch,
                scoring=lambda: self._watch.paused('scoring'),
            )
        self._watch.done(step)
        for task, values in scores.items():
            self._log.write(step, 'eval', f'{name}/{task}', values)
            samples = map(_sample, evaluator.samples.get(task, ()))
            if shown := list(itertools.islice(samples, self._tracked_samples)):
                self._log.track(step, {}, {f'eval/{name}/{task}': shown})
        took = duration(time.monotonic() - started)
        mean = messages.headline(scores, self._config.best.score)
        count = len(scores) - 1
        of = f', mean of {count} tasks' if count > 1 else ''
        self._log.line(f'{name} at step {step}{of}: {mean} ({took})')
        if collapsed := evaluator.collapsed:
            more = f' So do {len(collapsed) - 1} more tasks.' if len(collapsed) > 1 else ''
            self._log.line(f'the predictions collapse; {collapsed[0]}{more}')
        return scores

    def _after_batch(self) -> None:
        self._watch.done(next(self._batches), 'evaluation batch')
        self._interruption.check()

    def note_score(self, name: str, step: int, scores: Scores, progress: Progress) -> bool:
        """Notes the score that chooses the best checkpoint in `best` or `stale` of progress.

        False if it is not among the scores of this evaluation.
        """
        chosen, _, rest = self._config.best.score.partition('/')
        if name != chosen:
            return False
        task, key = rest.split('/')
        if key == 'headline':
            score = self._evals[name][0].headline(scores, task)
        elif key in scores[task]:
            score = scores[task][key]
        else:
            raise errors.unknown('score in config.best.score', key, scores[task])
        best = progress.best
        sign = 1 if self._config.best.mode == 'max' else -1
        if math.isfinite(score) and (best is None or sign * score > sign * best.score):
            progress.best, progress.stale = Best(step, float(score)), 0
        else:
            progress.stale += 1
        return True


def _sample(line: Mapping[str, Json]) -> tracking.Sample:
    """A line of predictions.jsonl as trackers get it."""
    texts = (str(line.get(key, '')) for key in tracking.Sample._fields)
    return tracking.Sample(*(text[:_LONGEST_SAMPLE] for text in texts))
