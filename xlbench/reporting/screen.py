"""The tables of one run as plain text, for a terminal."""

import functools
import textwrap

from xlbench.reporting import layout, notes, render, sections as sections_lib
from xlbench.reporting.results import read_run


def table(
    workdir: str, step: str | int = 'last', split: str | None = None, max_width: int = 120
) -> str:
    """The benchmark's own table of one run as plain text, see `sections.sections`.

    Tables that would have more characters in a line are split between tasks.
    """
    blocks = []
    for section in sections_lib.sections([read_run(workdir)], step, split):
        pick = section.picks[0]
        stage = f' ({pick.run.stage_of(pick.step)})' if len(pick.run.stages) > 1 else ''
        shown = f'{section.split} split, step {pick.step}{stage}'
        sample = ' [SAMPLE DATA]' if section.data == 'sample' else ''
        blocks.append(textwrap.fill(f'{section.title}: {shown}{sample}', max_width))
        made = layout.tables(section)
        if not section.tables:  # A table a score would be long: of the other scores, averages.
            made = [*made[:1], *layout.averages(section)]
        blocks += [render.plain(one, max_width) for one in made]
        shared = bool(section.tables)
        signatures = {
            line
            for score in section.scores
            for line in notes.signatures(section.picks, [score], shared)
        }
        said = (*section.notes, *sorted(signatures))
        # Whoever copies a signature, or searches for it, needs it whole.
        fill = functools.partial(
            textwrap.fill, width=max_width, break_on_hyphens=False, break_long_words=False
        )
        blocks.append('\n'.join(map(fill, said)))
    return '\n\n'.join(filter(None, blocks))
