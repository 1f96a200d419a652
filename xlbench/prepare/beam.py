"""Jobs on Apache Beam, for data that outgrows one machine.

  -- --runner=FlinkRunner --flink_master=HOST:8081 --environment_type=LOOPBACK

Without a runner they run here, in this process. The jobs of a stage are one Beam program, a Map
over jobs that are spread over all workers. This process and the workers need the same installation,
and a network disk with all files at the same paths; so give absolute paths.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar, TypeVarTuple

import apache_beam as beam
from apache_beam.options import pipeline_options

from xlbench.system import errors, files

_RESULTS = 'results'  # A line of JSON for each job.
_ERROR = 'error'  # What a worker has to say to the user.

Args = TypeVarTuple('Args')
Result = TypeVar('Result')


class _Work(beam.DoFn):
    """Does a job in a worker, as often as the runner likes."""

    def __init__(self, work: Callable[..., Any], scratch: str):
        self._work, self._scratch, self._tasks = work, scratch, os.environ.get('XLBENCH_TASKS')

    def setup(self) -> None:
        if self._tasks:
            os.environ['XLBENCH_TASKS'] = self._tasks

    def process(self, job: tuple) -> Iterator[Any]:
        """Called by Beam; a mistake of the user reaches them, whatever the runner makes of it."""
        try:
            yield self._work(*job)
        except (errors.UserError, OSError) as error:
            files.write(os.path.join(self._scratch, _ERROR), str(error))
            raise


class Beam(contextlib.AbstractContextManager):
    """Runs jobs as programs of Beam.

    Args:
      options: Beam's own, such as '--runner=DataflowRunner'.
      scratch: a folder for messages, on a disk that all workers share.
    """

    is_elsewhere: ClassVar[bool] = True

    def __init__(self, options: Sequence[str], scratch: str):
        self._options, self._scratch = options, os.path.abspath(scratch)

    def __exit__(self, *error: object) -> None:
        """Leaves nothing behind: each program has a scratch folder of its own."""

    def run(
        self, work: Callable[[*Args], Result], jobs: Iterable[tuple[*Args]]
    ) -> Iterator[Result]:
        """Yields what work(*job) has given, once all jobs are done.

        Raises:
          UserError: there is no such runner, or a job says that the user made a mistake.
        """
        if not (jobs := list(jobs)):
            return
        os.makedirs(self._scratch, exist_ok=True)
        # The name of what a killed writer leaves, so that it is removed as such.
        with tempfile.TemporaryDirectory('.tmp', '.beam', self._scratch) as scratch:
            self._run(work, jobs, scratch)
            with open(os.path.join(scratch, _RESULTS), encoding='utf-8') as file:
                yield from map(json.loads, file)

    def _run(self, work: Callable[..., Result], jobs: Sequence[tuple], scratch: str) -> None:
        # Beam's DirectRunner would download a program first.
        chosen = pipeline_options.PipelineOptions(['--runner=FnApiRunner', *self._options])
        try:
            begin = beam.Pipeline(options=chosen)
        except (ValueError, ImportError) as error:  # No such runner, or a package of it is missing.
            raise errors.UserError(f'Beam: {errors.printable(error, 1000)}') from error
        try:
            with begin:
                (
                    begin
                    | beam.Create(jobs)
                    | 'spread' >> beam.Reshuffle()
                    | 'work' >> beam.ParDo(_Work(work, scratch))
                    | 'lines' >> beam.Map(json.dumps)
                    | beam.io.WriteToText(os.path.join(scratch, _RESULTS), shard_name_template='')
                )
        except Exception as error:
            said = os.path.join(scratch, _ERROR)
            if not os.path.exists(said):
                raise
            with open(said, encoding='utf-8') as file:
                raise errors.UserError(file.read()) from error
