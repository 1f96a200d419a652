"""Jobs for tests of xlbench/preparation/workers.py; workers import it: it imports little."""

import time

from xlbench.system import errors


def job(number, shared):
    """Counts one example; job 2 is a mistake of the user."""
    shared.count(1)
    if number == 2:
        raise errors.UserError('job 2 is bad')
    return number


def wait(seconds, shared):
    """Does nothing for a while."""
    del shared
    time.sleep(seconds)
