"""Jobs for tests of worker processes of xlbench.prepare."""

import time

from xlbench.system import errors


def job(number):
    """Counts one example; job 2 is a mistake of the user."""
    from xlbench.prepare import jobs

    jobs._shared.count(1)
    if number == 2:
        raise errors.UserError('job 2 is bad')
    return number


def wait(seconds):
    """Does nothing for a while."""
    time.sleep(seconds)
