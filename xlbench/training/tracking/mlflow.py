"""MLflow, at MLFLOW_TRACKING_URI or, without that variable, in a database in the workdir."""

import logging
import os
import pathlib
import re
import time
from collections.abc import Mapping
from typing import ClassVar

from xlbench.settings.blocks import leaves
from xlbench.system.errors import shortened
from xlbench.system.files import Json
from xlbench.training.tracking.contract import Run, Samples, Tracked, Tracker, markdown

EXPERIMENT = 'xlbench'  # Unless MLFLOW_EXPERIMENT_NAME says another one.
_AT_ONCE = 100  # Parameters, and metrics, that a server takes in one call.
_LONGEST = 500  # Characters of a parameter that every server takes.


class MlflowTracker(Tracker):
    """Logs to MLflow, and leaves MLflow's own current run and settings alone."""

    modules: ClassVar = ('mlflow', 'sqlalchemy', 'alembic')
    install: ClassVar = 'python -m pip install mlflow-skinny sqlalchemy alembic'

    def start(self, run: Run) -> Tracked:
        """Creates a run of MLflow, or goes on with the one of this workdir."""
        # MLflow reports to its makers how it is used, unless it is told not to.
        os.environ.setdefault('MLFLOW_DISABLE_TELEMETRY', 'true')
        # It prints an address that the server chooses.
        os.environ.setdefault('MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT', 'true')
        import mlflow

        for name in ('mlflow', 'alembic'):  # Else a new database says a line for each table.
            logging.getLogger(name).setLevel(logging.WARNING)
        folder = pathlib.Path(run.workdir).resolve()
        uri = os.environ.get('MLFLOW_TRACKING_URI') or f'sqlite:///{folder / "mlflow.db"}'
        self._client = mlflow.MlflowClient(tracking_uri=uri)
        self._id, self._config = run.identity, {}
        if not (self._id and self._goes_on()):
            experiment = self._experiment((folder / 'mlflow').as_uri())
            begun = self._client.create_run(experiment, run_name=folder.name)
            self._id = begun.info.run_id
            self._config = dict(run.config)
        return Tracked(self._id, f'{uri}, run {self._id}')

    def write(self, step: int, scalars: Mapping[str, float], samples: Samples) -> None:
        """Adds points; samples are files of the run."""
        from mlflow.entities import Metric

        if self._config:  # Not before a killed process can find this run again.
            self._log_config(self._config)
            self._config = {}
        now = int(1000 * time.time())
        points = [Metric(_key(tag), value, now, step) for tag, value in scalars.items()]
        for start in range(0, len(points), _AT_ONCE):
            self._client.log_batch(self._id, metrics=points[start : start + _AT_ONCE])
        for tag, answers in samples.items():
            self._client.log_text(self._id, markdown(answers), f'{_key(tag)}/samples_{step}.md')

    def close(self, finished: bool) -> None:
        """Says how the run has ended."""
        self._client.set_terminated(self._id, 'FINISHED' if finished else 'KILLED')

    def _goes_on(self) -> bool:
        """Returns whether the run is still there; it may be of another server, or deleted."""
        from mlflow.exceptions import MlflowException

        try:
            self._client.update_run(self._id, 'RUNNING')
        except MlflowException:
            return False
        return True

    def _experiment(self, artifacts: str) -> str:
        """The experiment that a new run is of, by its number."""
        name = os.environ.get('MLFLOW_EXPERIMENT_NAME') or EXPERIMENT
        if there := self._client.get_experiment_by_name(name):
            return there.experiment_id
        if os.environ.get('MLFLOW_TRACKING_URI'):  # A server has a place of its own for files.
            return self._client.create_experiment(name)
        return self._client.create_experiment(name, artifact_location=artifacts)

    def _log_config(self, config: dict[str, Json]) -> None:
        from mlflow.entities import Param

        params = [
            Param(_key(key), shortened(value, _LONGEST)) for key, value in leaves(config)
        ]
        for start in range(0, len(params), _AT_ONCE):
            self._client.log_batch(self._id, params=params[start : start + _AT_ONCE])
        self._client.log_dict(self._id, config, 'config.json')


def _key(name: str) -> str:
    """A name that MLflow takes."""
    return re.sub(r'[^\w./ :-]', '_', name)[:250]
