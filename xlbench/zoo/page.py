"""Experiments as a page of Markdown, which a documentation site can include."""

from collections.abc import Iterator, Sequence

from xlbench.reporting import command_lines, render
from xlbench.zoo.experiments import Entry

# A file that begins like this is such a page and may be written again.
MARK = 'xlbench zoo: made by python -m xlbench.zoo, may be overwritten'
_ABOUT = (
    'Every number on this page was read from the workdirs of its experiment by '
    '`python -m xlbench.zoo`. Scores go from 0 to 100. What follows ± is the standard deviation '
    'over seeds; in the tables of a single few-shot sweep it is that over buckets.'
)


def markdown(entries: Sequence[Entry]) -> str:
    """The whole page; the same experiments give the same bytes."""
    blocks = [f'<!-- {MARK} -->', '# Model zoo', _ABOUT, _overview(entries)]
    for entry in entries:
        blocks += _section(entry)
    return command_lines.without_places('\n\n'.join(blocks)) + '\n'


def _overview(entries: Sequence[Entry]) -> str:
    """A row an experiment: the main score, the hours, and the hardware where it differs."""
    costs = ['processor time', 'wall time', 'hardware']
    machines = {entry.facts.get('hardware', '') for entry in entries}
    said = ''
    if len(machines) == 1:
        costs.remove('hardware')
        machine = machines.pop()
        said = f'Hardware: {render.markdown_text(machine)}.\n\n' if machine else ''
    heads = ('experiment', 'main score', *costs)
    lines = [_row(*heads), _row(*['---'] * len(heads))]
    for entry in entries:
        score = '; '.join(part.headline for part in entry.parts if part.headline)
        cost = (entry.facts.get(key, '') for key in costs)
        name = entry.name.replace(',', ', ')  # Long variants wrap there.
        lines.append(_row(*map(render.markdown_text, (name, score, *cost))))
    return said + '\n'.join(lines)


def _section(entry: Entry) -> Iterator[str]:
    yield f'## {render.markdown_text(entry.name)}'
    if entry.commands:
        yield '\n'.join(['```sh', *entry.commands, '```'])
    facts = [_row('', ''), _row('---', '---')]
    facts += [_row(key, render.markdown_text(fact)) for key, fact in entry.facts.items()]
    yield '\n'.join(facts)
    for part in entry.parts:
        yield f'### {render.markdown_text(part.title)}'
        if part.notes:
            yield render.items(part.notes)
        # A level below the part's own title.
        yield from (f'#{render.markdown(table)}' for table in part.tables)
    for name, card in entry.cards:
        yield f'### Model card of the exported folder {render.markdown_text(name)}'
        yield '\n'.join(f'> {line}'.rstrip() for line in _shown(card).splitlines())


def _shown(card: str) -> str:
    """A card whose metadata is shown as YAML, and whose title is no title of the page."""
    parts = card.split('---\n', 2)
    if len(parts) == 3 and not parts[0]:
        card = f'```yaml\n{parts[1]}```\n{parts[2]}'
    lines, fenced = [], False
    for line in card.splitlines():
        fenced ^= line.startswith('```')
        lines.append(f'###{line}' if line.startswith('#') and not fenced else line)
    return '\n'.join(lines)


def _row(*cells: str) -> str:
    return f'| {" | ".join(cells)} |'
