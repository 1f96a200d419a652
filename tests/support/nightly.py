"""Parameters of tests that take long beside others that are like them."""

import pytest


def nightly(*parameters):
    """The parameters, for `make test-all` alone; a tuple is the values of several names."""
    values = (p if isinstance(p, tuple) else (p,) for p in parameters)
    return [pytest.param(*each, marks=pytest.mark.nightly) for each in values]


def by_day(few, every):
    """Parameters, of which `make test-all` alone takes those that are not among the few."""
    return [*few, *nightly(*(each for each in every if each not in few))]
