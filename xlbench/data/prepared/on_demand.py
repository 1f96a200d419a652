"""Missing or stale preparations, made in a child process."""

import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from xlbench.data.prepared.format import NotPrepared
from xlbench.data.prepared.reader import Prepared, members, open_mixture, open_optional
from xlbench.settings.blocks import Data
from xlbench.system import errors

Pairs = Sequence[tuple[str, str]]  # Of a task or mixture, and a split.


def ensure(
    needed: Pairs,
    data: Data,
    *,
    optional: Pairs = (),  # More of them; of those tasks that have the split.
    texts: Pairs = (),  # A vocabulary's texts; by default the first needed.
    # Whether the run keeps a copy of the vocabulary. Another one is then trained only if there is
    # something to prepare with it.
    has_copy: bool = False,
    to_stderr: bool = False,  # Whether lines about it go to standard error, not to the output.
) -> None:
    """Makes what is missing or stale in a child process, the only one that needs TensorFlow.

    Raises:
      SystemExit: the child failed; it has said why.
      UserError: a preparation is stale although the child has just made it.
    """
    root, vocabulary = data.root, data.vocabulary
    say = functools.partial(print, file=sys.stderr if to_stderr else sys.stdout, flush=True)
    missing, reason, ready = _missing(needed, optional, data)
    path = os.path.expanduser(vocabulary)
    trained = []  # What the vocabulary is trained on.
    is_new = data.vocabulary_size and vocabulary.endswith('.model') and not os.path.isfile(path)
    if is_new and (missing or not has_copy):
        trained = list(dict.fromkeys(map(':'.join, texts or needed[:1])))
        say(f'training the vocabulary {vocabulary} on {",".join(trained)}')
    unseen = [f'{task.name}:{task.split}' for task in ready if task.manifest.get('unseen')]
    if unseen:
        names = ','.join(dict.fromkeys(unseen))
        say(
            f'a function reads the data of {names}; the earlier preparation is used; if the data '
            f'has changed since: python -m xlbench.prepare --force --mixture={names} '
            f'--root={root} --vocabulary={vocabulary}'
        )
    command = [sys.executable, '-m', 'xlbench.prepare', f'--root={root}']
    if trained:
        # Another run may be training it, or have just done so.
        command += [f'--new_vocabulary={path}', f'--vocabulary_size={data.vocabulary_size}']
        command += [f'--vocabulary_type={data.vocabulary_type}', '--if_missing']
        command += [f'--{"texts" if missing else "mixture"}={",".join(trained)}']
    if missing:
        splits = 'split' if len(missing) == 1 else 'splits'
        say(f'preparing {len(missing)} {splits}, the last because {reason}')
        command += [f'--mixture={",".join(missing)}', f'--vocabulary={vocabulary}']
        command += ['--sample'] if data.sample else []
    if trained or missing:
        out = 2 if to_stderr else None
        _end_as(subprocess.run(command, check=False, stdout=out).returncode)
    if missing:
        for name, split in optional:
            if not members(root, vocabulary, name):
                raise errors.UserError(f'{name} has no split {split!r}; name another one, or none')
        missing, reason, _ = _missing(needed, (), data)
        if missing:  # Whoever edits a task file does not wait for a run.
            raise stale_at_once(reason)


def _missing(needed: Pairs, optional: Pairs, data: Data) -> tuple[list[str], str, list[Prepared]]:
    """Finds what `--mixture` has to be given, why the last of it is missing, and what is ready."""
    missing, reason, ready = [], '', []
    place = data.root, data.vocabulary
    for name, split in needed:
        try:
            ready += open_mixture(*place, name, split)[0]
        except NotPrepared as error:
            missing.append(f'{name}:{split}')
            reason = str(error)
    for name, split in optional:
        known = members(*place, name)
        having = {task for task, splits in known.items() if not splits or split in splits}
        opened = {task.name for task in open_optional(*place, name, split)}
        if not known or having - opened:
            missing.append(f'{name}:{split}?')
            reason = f'{name} has no prepared split {split!r}'
    return missing, reason, ready


def stale_at_once(reason: NotPrepared | str) -> errors.UserError:
    """Makes the error for a preparation that is stale although it has just been made."""
    return errors.UserError(
        f'{reason}, although it has just been prepared; if its task file or its data was '
        'edited meanwhile, start the same command again'
    )


def _end_as(code: int) -> None:
    """Ends the program with the code of its child, if that ended badly; UserError if killed."""
    if code < 0 and -code not in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        raise errors.UserError(
            f'the preparation was ended by signal {-code} ({signal.Signals(-code).name})'
            + (', perhaps by the system for lack of memory' if -code == signal.SIGKILL else '')
            + '; what was finished stays: run python -m xlbench.prepare --workers=1 ahead, or give '
            'it more memory, and start the same command again'
        )
    if code:
        raise SystemExit(code)


def wait_for(needed: Pairs, data: Data, *, optional: Pairs = (), seconds: float = 2.0) -> None:
    """Looks every few seconds until another process has prepared what `ensure` would.

    If that process fails, the coordination service of the run ends this one as well.
    """
    while _missing(needed, optional, data)[0]:
        time.sleep(seconds)
