"""What a user got wrong, said in one plain line."""

import argparse
import difflib
import sys
from collections.abc import Callable, Iterable, Sequence


class UserError(Exception):
    """A mistake of the user: one line that says what came, what is allowed, what to try.

    Attributes:
        exit_code: What the program ends with; see xlbench/processes.py for those there are.
    """

    exit_code = 2


def unknown(kind: str, name: str, allowed: Iterable[str], hint: str = '') -> UserError:
    """The error for a name that does not exist, with the nearest names that do.

    Example: unknown('task', 'mtg_qg_xx', tasks) ->
      unknown task 'mtg_qg_xx'; nearest: mtg_qg_es, mtg_qg_de
    """
    allowed = sorted(allowed)
    near = difflib.get_close_matches(str(name), allowed, n=4, cutoff=0.5)
    if near:
        choice = f'nearest: {", ".join(near)}'
    elif len(allowed) <= 12:
        choice = f'allowed: {", ".join(allowed)}'
    else:
        choice = f'{len(allowed)} are known, for example {", ".join(allowed[:4])}'
    return UserError(f'unknown {kind} {name!r}; {choice}' + (f'. {hint}' if hint else ''))


class ArgumentParser(argparse.ArgumentParser):
    """A command line whose mistakes are UserErrors: one line, without the whole usage."""

    def __init__(self, prog: str, description: str):
        super().__init__(
            prog=prog,
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> None:
        """Raises it; argparse would print and exit."""
        raise UserError(f'{message}; see {self.prog} --help')


def run_main(main: Callable[[Sequence[str]], int | None], argv: Sequence[str]) -> int:
    """Runs `main(argv)`; a UserError becomes one line on standard error, and its exit code."""
    try:
        return main(argv) or 0
    except UserError as error:
        print(f'error: {error}', file=sys.stderr, flush=True)
        return error.exit_code
