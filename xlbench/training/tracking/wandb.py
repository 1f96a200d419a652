"""Weights & Biases, to its server or, with WANDB_MODE=offline, into the workdir."""

import errno
import os
import pathlib
import secrets
import shutil
from collections.abc import Mapping
from typing import ClassVar

from xlbench.system.errors import UserError
from xlbench.training.tracking.contract import Run, Sample, Samples, Tracked, Tracker

_LEAST_FREE = 1 << 16  # Bytes, of which a row takes a part.
_HOME = ('offline', 'dryrun', 'disabled')  # Modes without a server.


class WandbTracker(Tracker):
    """Logs to W&B. Its own variables say where: WANDB_PROJECT, WANDB_ENTITY, WANDB_MODE, ..."""

    modules: ClassVar = ('wandb',)
    install: ClassVar = "python -m pip install 'wandb>=0.31'"

    @classmethod
    def check(cls) -> None:
        """Raises UserError where W&B would ask for a key, which nobody would answer."""
        import wandb

        if wandb.setup().settings.mode in _HOME:
            return
        if not wandb.login(prompt=False, verify=False):
            raise UserError(
                "config.trackers has 'wandb', and W&B has no key on this machine: run wandb login, "
                'or set WANDB_API_KEY, or WANDB_MODE=offline for a run that wandb sync uploads '
                'later'
            )

    def start(self, run: Run) -> Tracked:
        """Begins a run of W&B, or goes on with the one of this workdir."""
        import wandb

        # What the run prints stays in its own log.
        settings = wandb.Settings(console='off', silent=True, symlink=False)
        project = wandb.setup().settings.project
        self._run = wandb.init(
            id=run.identity or secrets.token_hex(8),
            resume='allow',
            project=project or 'xlbench',
            name=pathlib.Path(run.workdir).resolve().name,
            dir=run.workdir,
            config=dict(run.config),
            allow_val_change=True,  # As of config.mesh, when a run goes on.
            settings=settings,
        )
        # The x axis of all. W&B's own counts rows, and refuses a step that is not the newest one.
        self._run.define_metric('step')
        self._run.define_metric('*', step_metric='step')
        self._remove_link()
        folder, sends = pathlib.Path(self._run.dir).parent, self._run.settings.mode not in _HOME
        place = self._run.url if sends else f'{folder}, which wandb sync uploads'
        return Tracked(self._run.id, place or '')

    def write(self, step: int, scalars: Mapping[str, float], samples: Samples) -> None:
        """Adds a row; samples are tables.

        Raises:
          OSError: the disk is full, of which W&B's own process says nothing.
        """
        import wandb

        if shutil.disk_usage(self._run.dir).free < _LEAST_FREE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._run.dir)
        columns: list[str | int] = list(Sample._fields)
        tables = {
            f'{tag}/samples': wandb.Table(columns=columns, data=[list(one) for one in answers])
            for tag, answers in samples.items()
        }
        self._run.log({'step': step, **scalars, **tables})

    def close(self, finished: bool) -> None:
        """Waits until all is sent, or written."""
        self._run.finish(exit_code=0 if finished else 1)
        self._remove_link()

    def _remove_link(self) -> None:
        """Removes W&B's link to its log: it leads out of the workdir, and resuming refuses that."""
        logs = pathlib.Path(self._run.dir).parent / 'logs'
        (logs / 'debug-core.log').unlink(missing_ok=True)
