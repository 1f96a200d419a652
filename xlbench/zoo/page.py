"""Experiments as a page of Markdown, which a documentation site can include.

Before each experiment stands a comment with what the table at the top has of it, so that a page can
be read again, and experiments whose workdirs are gone can stay on it.
"""

import collections
import re
from collections.abc import Mapping, Sequence

import msgspec

from xlbench.reporting import render
from xlbench.system import files
from xlbench.system.errors import UserError

# A file that begins like this is such a page and may be written again.
MARK = 'xlbench zoo: made by python -m xlbench.zoo, may be overwritten'
_ABOUT = (
    'Every number on this page was read from the workdirs of its experiment by '
    '`python -m xlbench.zoo`. Scores go from 0 to 100. What follows ± is the standard deviation '
    'over seeds; in the tables of a single few-shot sweep it is that over buckets.'
)
_COMMENT = re.compile(r'^<!-- (\{.*\}) -->\n\n', re.MULTILINE)
COSTS: Sequence[str] = ('processor time', 'wall time', 'hardware')  # In the table at the top.


class Experiment(msgspec.Struct, omit_defaults=True):
    """One experiment.

    Attributes:
      name: of the config, or else of the first workdir.
      workdir: last name of the first workdir.
      key: the same of the same experiment.
      score: its main score.
      costs: hours and hardware, by the names in `COSTS`.
      section: all that a page says of it below its heading, as Markdown.
    """

    name: str
    workdir: str
    key: str
    score: str
    costs: Mapping[str, str]
    section: str = ''


def markdown(experiments: Sequence[Experiment]) -> str:
    """The whole page; the same experiments give the same bytes."""
    blocks = [f'<!-- {MARK} -->', '# Model zoo', _ABOUT, _overview(experiments)]
    for one in experiments:
        about = msgspec.json.encode(msgspec.structs.replace(one, section='')).decode()
        about = about.replace('>', '\\u003e')  # Nothing in it can end the comment.
        blocks += [f'<!-- {about} -->', _heading(one), one.section]
    return '\n\n'.join(blocks) + '\n'


def read(data: bytes, name: str) -> list[Experiment]:
    """The experiments of a page: what `markdown` wrote.

    Args:
      data: the page as it is on the disk.
      name: of the page, for the message.

    Raises:
      UserError: it is no such page, or was edited: its table and sections do not match.
    """
    _, *pieces = _COMMENT.split(data.decode('utf-8', errors='replace'))
    experiments = []
    for about, text in zip(pieces[::2], pieces[1::2], strict=True):
        one = files.parse_json(about, Experiment, name)
        one.section = text.removeprefix(f'{_heading(one)}\n\n').rstrip('\n')
        experiments.append(one)
    if markdown(experiments).encode() != data:
        raise UserError(
            f'nothing can be added to {name}: its table of experiments does not match its '
            'sections, as after an edit by hand; undo the edit, or name the workdirs of all '
            'experiments without --add'
        )
    return experiments


def joined(
    experiments: Sequence[Experiment], page: Sequence[Experiment] = ()
) -> list[Experiment]:
    """Joins those of a page, which stay unless `experiments` has them, and the others.

    A name that another experiment also has ends with the name of a workdir.
    """
    fresh = {one.key: one for one in experiments}
    kept = [one.name for one in page if one.key not in fresh]
    named = collections.Counter(one.name for one in experiments)
    for key, one in fresh.items():
        if named[one.name] > 1 or any(f'{name} ('.startswith(f'{one.name} (') for name in kept):
            # Commands that set other keys of one config.
            fresh[key] = msgspec.structs.replace(one, name=f'{one.name} ({one.workdir})')
    return [*(fresh.pop(one.key, one) for one in page), *fresh.values()]


def _overview(experiments: Sequence[Experiment]) -> str:
    """A row an experiment: the main score, the hours, and the hardware where it differs."""
    costs, said = COSTS, ''
    machines = {one.costs.get('hardware', '') for one in experiments}
    if len(machines) == 1:
        costs = COSTS[:-1]
        machine = render.markdown_text(machines.pop())
        said = f'Hardware: {machine}.\n\n' if machine else ''
    heads = ('experiment', 'main score', *costs)
    lines = [heads, ['---'] * len(heads)]
    for one in experiments:
        cells = (one.score, *(one.costs.get(key, '') for key in costs))
        name = render.markdown_text(one.name).replace(',', ', ')  # To wrap there.
        lines.append([name, *map(render.markdown_text, cells)])
    return said + render.grid(lines)


def _heading(one: Experiment) -> str:
    return f'## {render.markdown_text(one.name)}'
