"""A made-up dump of Reddit comments with every defect, and plug-ins for mrs_build that are fast."""

import gzip
import json
import os
import pathlib
import signal
import sys

from backports import zstd

from xlbench.system import errors
from xlbench.tasks.mrs_build import command

IN_2018, IN_2017 = 1_514_764_800, 1_500_000_000  # 2018-01-01 and 2017-07-14.


def comment(name, thread, parent='', body='hello there', **changed):
    """A line of a dump; without a parent it answers the post."""
    value = dict(
        id=name, link_id=f't3_{thread}', parent_id=f't1_{parent}' if parent else f't3_{thread}',
        body=body, score=1, created_utc=IN_2018, author='somebody',
    )  # fmt: skip
    return json.dumps({**value, **changed})


def identify(texts):
    """German if 'ja', 'danke' or 'nein' is among the words; xx-WORD decides otherwise."""
    found = []
    for text in texts:
        words = text.lower().replace('!', '').split()
        lang = 'de' if {'ja', 'danke', 'nein'}.intersection(words) else 'en'
        if 'xx-klingon' in words:
            lang = 'tlh'
        confidence = 0.7 if 'xx-unsure' in words else 0.71
        found.append((lang, confidence))
    return found


def toxicity(texts, lang):
    """As a text says: toxic90 has 0.90, toxic91 0.91; German is believed to be worse."""
    return [
        0.91 if 'toxic91' in text else 0.9 if 'toxic90' in text or lang == 'de' else 0.1
        for text in texts
    ]


def strict_toxicity(texts, lang):
    """toxic51 has 0.51."""
    assert lang == 'en'
    return [0.51 if 'toxic51' in text else 0.5 for text in texts]


def _once(pid):
    """Kills a process, unless the file $REDDIT_KILLED says that it was done."""
    mark = pathlib.Path(os.environ['REDDIT_KILLED'])
    if not mark.exists():
        mark.touch()
        os.kill(pid, signal.SIGKILL)


def identify_and_die(texts):
    """Kills the process that it is called in."""
    _once(os.getpid())
    return identify(texts)


def toxicity_and_orphan(texts, lang):
    """Kills the parent of the process that it is called in."""
    _once(os.getppid())
    return toxicity(texts, lang)


def write_zst(path, data, window_log=31):
    """As dumps are compressed: a window of 2 GiB, and no size at the front."""
    parameter = zstd.CompressionParameter
    options = {parameter.window_log: window_log, parameter.enable_long_distance_matching: 1}
    with zstd.open(path, 'wb', options=options) as file:
        for start in range(0, len(data), 1000):
            file.write(data[start : start + 1000])


def write_gz(path, data):
    with gzip.open(path, 'wb') as file:
        file.write(data)


def killed_until_done(argv):
    """Builds in processes that are killed when a second file would appear; prints what was left."""
    folder, states = pathlib.Path(argv[0]), []
    while True:
        pid = os.fork()
        if not pid:
            _work_until_the_second_file(argv)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0:
            break
        states.append(
            {
                str(path.relative_to(folder)): path.stat().st_mtime_ns
                for path in folder.rglob('*')
                if path.is_file() and not any(part[0] == '.' for part in path.parts[1:])
            }
        )
    print(json.dumps(states))


def _work_until_the_second_file(argv):
    files = []

    def deadly(function):
        def call(*args):
            files.append(args)
            if len(files) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args)

        return call

    os.replace, os.rename = deadly(os.replace), deadly(os.rename)
    sys.stdout = sys.stderr
    os._exit(errors.run_main(command.main, argv))
