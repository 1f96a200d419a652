"""TensorBoard: event files in the workdir, which `tensorboard --logdir=WORKDIR` shows."""

import json
import os
import pathlib
import time
from collections.abc import Mapping

from tensorboardX import summary
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary

from xlbench.training.tracking.contract import Run, Samples, Tracked, Tracker, markdown

FOLDER = 'tensorboard'


class TensorboardTracker(Tracker):
    """Writes event files, with the config and the samples as texts; TensorFlow is not needed."""

    def start(self, run: Run) -> Tracked:
        """Opens one more file; a run that goes on takes back the steps that it repeats."""
        folder = pathlib.Path(run.workdir) / FOLDER
        folder.mkdir(exist_ok=True)
        goes_on = any(folder.iterdir())
        # Not SummaryWriter: its thread dies when a disk is full, and then it blocks for ever. The
        # name has seconds only: two processes of one second shall not share a file.
        self._board = EventsWriter(str(folder / 'events'), f'.{os.getpid()}')
        if goes_on:
            log = SessionLog(status=SessionLog.START)
            self._add(Event(step=run.step + 1, session_log=log))
        else:
            text = json.dumps(run.config, indent=1, ensure_ascii=False)
            indented = ''.join(f'    {line}\n' for line in text.splitlines())  # Code, in Markdown.
            self._add(Event(step=0, summary=summary.text('config', indented)))
        self._board.flush()
        return Tracked()

    def write(self, step: int, scalars: Mapping[str, float], samples: Samples) -> None:
        """Puts all of it on the disk."""
        if scalars:
            points = [Summary.Value(tag=tag, simple_value=one) for tag, one in scalars.items()]
            self._add(Event(step=step, summary=Summary(value=points)))
        for tag, answers in samples.items():
            text = summary.text(f'{tag}/samples', markdown(answers))
            self._add(Event(step=step, summary=text))
        self._board.flush()

    def close(self, finished: bool) -> None:
        """Closes the file."""
        del finished
        self._board.close()

    def _add(self, event: Event) -> None:
        event.wall_time = time.time()
        self._board.write_event(event)
