"""The tables of a build: Table 6 and Table 2 of arXiv:2108.07140, for your own data."""

import os
from collections.abc import Mapping, Sequence

from xlbench.data import readers
from xlbench.data.statistics import Statistics
from xlbench.reporting import lengths, render
from xlbench.reporting.tables import Cell, Column, Row, Table
from xlbench.system import files
from xlbench.system.errors import UserError
from xlbench.tasks.mtg_build.correcting import SPLITS
from xlbench.tasks.mtg_build.options import ENGLISH
from xlbench.tasks.mtg_build.publishing import ROUGH, SIDES, About, file_name


def thresholds(abouts: Mapping[str, About], chosen: Sequence[float]) -> str:
    """Table 6: how many examples stay at each threshold.

    Args:
      abouts: task -> what made its rough data.
      chosen: thresholds with at most two decimals.
    """
    made = []
    for threshold in chosen:
        kept = [(about.kept[f'{threshold:g}'], about.kept['0']) for about in abouts.values()]
        cells = [Cell(text=f'{n:,} ({100 * n / max(whole, 1):.1f} %)') for n, whole in kept]
        made.append(Row(f'{threshold:g}', 'data', tuple(cells)))
    columns = tuple(Column('', task) for task in abouts)
    title = 'Examples that stay at a threshold of overlap'
    table = Table(title, columns, tuple(made), 'threshold', notes=_notes(abouts))
    return render.markdown(table)


def _notes(abouts: Mapping[str, About]) -> tuple[str, ...]:
    notes = []
    for task, about in abouts.items():
        rough = about.settings['rough']
        failed = ', '.join(f'{n:,} in {lang}' for lang, n in about.failures.items() if n)
        counts = about.counts
        notes.append(
            f'{task}: {counts["read"]:,} originals, {counts["sample"]:,} for people, '
            f'{counts["with_sample"]:,} left out because people have their passage, '
            f'{counts["repeated"]:,} repeated, {counts["bad"]:,} bad; threshold '
            f'{rough["threshold"]}, n-grams of {rough["ngram"]}; not translated: {failed or "none"}'
            + (f' ({about.failure})' if about.failure else '')
            + '.'
        )
    return tuple(notes)


def statistics(folder: str) -> str:
    """Table 2 of the files in ROOT/mtg: sizes, and how long the texts are.

    Raises:
      UserError: there are none, or a file is wrong.
    """
    measured = {}
    for task in files.names(folder):
        names = files.names(os.path.join(folder, task))
        for lang in sorted(names, key=lambda lang: (lang != ENGLISH, lang)):
            for split in (ROUGH, *SPLITS):
                paths = [os.path.join(folder, task, file_name(lang, split, s)) for s in SIDES]
                if all(map(readers.find, paths)):
                    measured[f'{task} {lang} {split}'] = _measured(paths, lang), (lang, lang)
    if not measured:
        raise UserError(f'{folder} has no files TASK/LANG/SPLIT.{SIDES[0]}; name the --output')
    sizes = {name: counts.examples for name, (counts, _) in measured.items()}
    rough = sum(size for name, size in sizes.items() if name.endswith(ROUGH))
    annotated = sum(sizes.values()) - rough
    table = lengths.markdown(measured, has_tokens=False, has_turns=False)
    total = f'{annotated:,} annotated, {annotated + rough:,} with the rough data'
    return f'{table}\nTotal of all languages: {total}'


def _measured(paths: Sequence[str], lang: str) -> Statistics:
    counts = Statistics()
    for record in readers.read_parallel(*paths):
        if isinstance(record, readers.BadRecord):
            raise UserError(str(record))
        counts.add(record['source'], lang, [record['target']], lang)
    return counts
