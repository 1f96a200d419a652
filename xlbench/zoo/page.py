"""Experiments as a page of Markdown, which a documentation site can include.

A page can be read again, so that experiments whose workdirs are gone can stay on it.
"""

import collections
import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence

from xlbench.reporting import command_lines, render
from xlbench.system.errors import UserError
from xlbench.zoo.entries import Entry

# A file that begins like this is such a page and may be written again.
MARK = 'xlbench zoo: made by python -m xlbench.zoo, may be overwritten'
_ABOUT = (
    'Every number on this page was read from the workdirs of its experiment by '
    '`python -m xlbench.zoo`. Scores go from 0 to 100. What follows ± is the standard deviation '
    'over seeds; in the tables of a single few-shot sweep it is that over buckets.'
)
_SECTION, _FENCE = '## ', '```'
_SAME = 'config hash'  # The fact that two experiments share if they are the same one.


@dataclasses.dataclass(frozen=True)
class Shown:
    """An experiment as a page shows it; the text is Markdown.

    Attributes:
      section: all that the page says of it, from the line with its name on.
      score: its main score, which only the first table has.
    """

    section: str
    score: str

    @property
    def name(self) -> str:
        """Returns the name as in the section's heading."""
        return self.section.partition('\n')[0].removeprefix(_SECTION)

    @functools.cached_property
    def facts(self) -> Mapping[str, str]:
        """Seeds, hours, hardware and so on, by name."""
        rows = self.section.partition(f'\n{_facts({})}\n')[2].partition('\n\n')[0]
        cells = (row.removeprefix('| ').removesuffix(' |') for row in rows.split('\n'))
        return {name: fact for name, _, fact in (cell.partition(' | ') for cell in cells)}


def markdown(experiments: Sequence[Shown]) -> str:
    """The whole page; the same experiments give the same bytes."""
    blocks = [f'<!-- {MARK} -->', '# Model zoo', _ABOUT, _overview(experiments)]
    return '\n\n'.join([*blocks, *(shown.section for shown in experiments)]) + '\n'


def read(data: bytes, name: str) -> list[Shown]:
    """The experiments of a page: what `markdown` wrote.

    Args:
      data: the page as it is on the disk.
      name: of the page, for the message.

    Raises:
      UserError: it is no such page, or was edited: its table and sections do not match.
    """
    pieces, fenced = [list[str]()], False
    for line in data.decode('utf-8', errors='replace').split('\n'):
        fenced ^= line.startswith(_FENCE)
        if line.startswith(_SECTION) and not fenced:  # An argument of a command may have any line.
            pieces.append([])
        pieces[-1].append(line)
    head, *sections = ('\n'.join(lines).removesuffix('\n') for lines in pieces)
    rows = head.rpartition('\n\n')[2].split('\n')[2:]
    scores = [row.removesuffix(' |').partition(' | ')[2].partition(' | ')[0] for row in rows]
    shown = [Shown(*both) for both in itertools.zip_longest(sections, scores, fillvalue='')]
    written = '\n\n'.join([head, *sections]) + '\n'
    if not head.endswith(f'\n\n{_overview(shown)}') or written.encode() != data:
        raise UserError(
            f'nothing can be added to {name}: its table of experiments does not match its '
            'sections, as after an edit by hand; undo the edit, or name the workdirs of all '
            'experiments without --add'
        )
    return shown


def show(entries: Sequence[Entry], page: Sequence[Shown] = ()) -> list[Shown]:
    """Shows experiments beside those that a page has, which stay as they are.

    Args:
      entries: the experiments.
      page: the experiments of a page.

    Returns:
      The experiments of the page, those that are also in `entries` replaced, then the other
      `entries`. A name that another experiment also has ends with the name of a workdir.
    """
    fresh = {entry.facts[_SAME]: entry for entry in entries}
    kept = [shown.name for shown in page if shown.facts.get(_SAME) not in fresh]
    named = collections.Counter(entry.name for entry in entries)
    made: dict[str | None, Shown] = {}
    for key, entry in fresh.items():
        taken = f'{render.markdown_text(entry.name)} ('
        name = entry.name
        if named[name] > 1 or any(f'{other} ('.startswith(taken) for other in kept):
            name += f' ({entry.workdir})'  # Commands that set other keys of one config.
        made[key] = _shown(dataclasses.replace(entry, name=name))
    experiments = [made.pop(shown.facts.get(_SAME), shown) for shown in page]
    return [*experiments, *made.values()]


def _shown(entry: Entry) -> Shown:
    score = '; '.join(part.headline for part in entry.parts if part.headline)
    section = '\n\n'.join(_section(entry))
    return Shown(*map(command_lines.without_places, (section, render.markdown_text(score))))


def _overview(experiments: Sequence[Shown]) -> str:
    """A row an experiment: the main score, the hours, and the hardware where it differs."""
    costs = ['processor time', 'wall time', 'hardware']
    machines = {shown.facts.get('hardware', '') for shown in experiments}
    said = ''
    if len(machines) == 1:
        costs.remove('hardware')
        machine = machines.pop()
        said = f'Hardware: {machine}.\n\n' if machine else ''
    heads = ('experiment', 'main score', *costs)
    lines = [heads, ['---'] * len(heads)]
    for shown in experiments:
        cost = (shown.facts.get(key, '') for key in costs)
        lines.append([shown.name.replace(',', ', '), shown.score, *cost])  # To wrap there.
    return said + render.grid(lines)


def _section(entry: Entry) -> Iterator[str]:
    yield f'{_SECTION}{render.markdown_text(entry.name)}'
    if entry.commands:
        yield '\n'.join([f'{_FENCE}sh', *entry.commands, _FENCE])
    yield _facts(entry.facts)
    for part in entry.parts:
        yield f'### {render.markdown_text(part.title)}'
        if part.notes:
            yield render.items(part.notes)
        # A level below the part's own title.
        yield from (f'#{render.markdown(table)}' for table in part.tables)


def _facts(facts: Mapping[str, str]) -> str:
    rows = ((key, render.markdown_text(fact)) for key, fact in facts.items())
    return render.grid([('', ''), ('---', '---'), *rows])
