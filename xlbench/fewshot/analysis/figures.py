"""The figures of arXiv:2012.15682 from the results of sweeps.

The numbers of each figure, from figure_data.py, are written beside its SVG and PNG as CSV. They are
for the paper's setting: the whole source-trained model is adapted, with the learning rate that is
best on dev. Figure 2 has every number of shots, figures 3 to 6 the smallest one, which is 1 in the
paper. With one version of matplotlib the same results give the same bytes.
"""

import collections
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from xlbench.benchmarks import topics
from xlbench.fewshot.analysis import figure_data
from xlbench.fewshot.analysis.figure_data import Drawn
from xlbench.fewshot.analysis.sweeps import Adaptations
from xlbench.fewshot.analysis.systems import System
from xlbench.fewshot.results import Group
from xlbench.reporting import drawing, render
from xlbench.system import files
from xlbench.system.errors import UserError

Drawing = TypeVar('Drawing')
PANELS = 6  # Languages that a figure with a panel for each has room for; its CSV has all.


def draw_all(systems: Sequence[System], output: str | pathlib.Path) -> list[Drawn]:
    """Draws every figure that the results suffice for into a folder, one for each system.

    Where several sweeps of a system have the same language and shots, the one with the most buckets
    counts, and for figure 1 also the one with the most seeds.
    """
    folder = pathlib.Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    count: collections.Counter[str] = collections.Counter()
    named = []
    for system in systems:
        count[system.task] += 1
        name = system.task + f'-{count[system.task]}' * (count[system.task] > 1)
        named.append((system, name))
    drawn = []
    for number, (draw, title, only) in enumerate(_FIGURES, 1):
        heading = f'Figure {number}'
        fitting = [
            (system, name)
            for system, name in named
            if not only or topics.is_tagging(system.task) == (only == 'tagging')
        ]
        if not fitting:
            drawn.append(Drawn('', f'{heading}: {title}', f'there is no task of {only}'))
        for system, short in fitting:
            stem = folder / f'figure{number}-{short}'
            try:
                if not system.adapted:
                    raise UserError('no adaptation of the whole model is finished')
                caption, *more = draw(system, stem)
            except UserError as error:
                drawn.append(Drawn('', f'{heading}, {system.title}: {title}', str(error)))
            else:
                about = system.about_data if system.data != 'official' else ''
                note = ' '.join(filter(None, [*more, about]))
                said = f'{heading}, {system.title}: {caption}'
                drawn.append(Drawn(f'{stem.name}.svg', said, note))
    return drawn


def _write_csv(
    stem: pathlib.Path, columns: Sequence[str], rows: Iterable[Sequence[str | float | None]]
) -> None:
    """Writes the numbers of a figure; each row begins with task, language and shots."""
    head = ('task', 'language', 'shots', *columns)
    files.write(f'{stem}.csv', render.comma_separated(head, rows, decimals=4))


def _square_rows(
    group: Adaptations, drawn: tuple[Sequence[str | int | None], np.ndarray]
) -> Iterator[tuple[str | float | None, ...]]:
    """Yields row, column and value of a table whose rows have the names of its columns."""
    names, table = drawn
    for name, values in zip(names, table, strict=True):
        yield from ((name, *pair) for pair in zip(names, values, strict=True))


def _draw_panels(
    stem: pathlib.Path,
    made: Mapping[tuple[Adaptations, int], Drawing],  # Of a group with K shots; 0: zero-shot.
    columns: Sequence[str],  # Of the CSV, behind those of `_write_csv`.
    rows: Callable[[Adaptations, Drawing], Iterable[Sequence[str | float | None]]],
    panel: Callable[[Figure, Axes, Adaptations, Drawing], None],
    size: tuple[float, float],
    names: Mapping[str, str],  # For `Axes.set`.
    per_row: int = 3,
) -> str:
    """Draws those languages that gain most over zero-shot; returns the end of the caption."""
    numbers = (
        (group.sweep.task, group.language, shots, *row)
        for (group, shots), one in made.items()
        for row in rows(group, one)
    )
    _write_csv(stem, columns, numbers)
    groups = dict.fromkeys(group for group, _ in made)
    gains = {group: np.nan_to_num(group.scores.mean() - group.zero_shot) for group in groups}
    chosen = sorted(groups, key=lambda group: -gains[group])[:PANELS]
    shown = [key for group in chosen for key in made if key[0] is group]
    columns_of, rows_of = min(per_row, len(shown)), -(-len(shown) // per_row)
    with drawing.figure(stem, size[0] * columns_of, size[1] * rows_of + 0.3) as figure:
        panels = figure.subplots(rows_of, columns_of, squeeze=False).ravel().tolist()
        for axes in panels[len(shown) :]:
            axes.remove()
        for axes, (group, shots) in zip(panels, shown, strict=False):
            panel(figure, axes, group, made[group, shots])
            title = f'{group.language}, {f"{shots}-shot" if shots else "zero-shot"}'
            axes.set(title=title, **names)
    if len(groups) == len(chosen):
        return ''
    return f' The {len(chosen)} languages that gain most of {len(groups)}; the CSV has all of them.'


# ---------------------------------------------------------------------------------------------
# Figure 1: how far the seed moves the score, and how far the bucket.


def _figure1(system: System, stem: pathlib.Path) -> tuple[str]:
    halves_of = {
        (lang, shots): halves
        for lang, shots in system.adapted
        if (halves := figure_data.distributions(system.by_sweep[Group(lang, shots)]))
    }
    if not halves_of:
        raise UserError(figure_data.HALVES)
    rows = {key: (seeds.by_seed, buckets.by_bucket) for key, (seeds, buckets) in halves_of.items()}
    _write_csv(
        stem,
        ('varied', 'bucket', 'seed', 'dev_score'),
        (
            (row.task, row.language, row.shots, varied, row.bucket, row.seed, row.dev_score)
            for halves in rows.values()
            for varied, half in zip(('seed', 'bucket'), halves, strict=True)
            for row in half
        ),
    )
    # The smallest K first, where there is not room for all.
    shown = sorted(rows, key=lambda key: (key[1], key[0]))[:PANELS]
    with drawing.figure(stem, 2.6 * len(shown) + 0.5, 4.2) as figure:
        grid = figure.subplots(2, len(shown), squeeze=False, sharex='col', sharey='col')
        for column, (language, shots) in zip(grid.T, shown, strict=True):
            scores = [np.array([row.dev_score for row in half]) for half in rows[language, shots]]
            bins = np.histogram_bin_edges(np.concatenate(scores), 14)
            kinds = (('seeds', drawing.BLUE), ('buckets', drawing.ORANGE))
            for axes, values, (varied, colour) in zip(column, scores, kinds, strict=True):
                axes.hist(values, bins, color=colour)
                axes.axvline(values.mean(), color=drawing.BLACK, linestyle='--', linewidth=1)
                spread = f'{values.mean():.1f} ± {values.std(ddof=1):.1f}'
                axes.set_title(f'{len(values)} {varied}: {spread}', fontsize='medium')
            column[0].set_title(
                f'{language}, {shots}-shot\n{column[0].get_title()}', fontsize='medium'
            )
            column[1].set_xlabel(f'dev {rows[language, shots][0][0].metric}')
        for axes in grid[:, 0]:
            axes.set_ylabel('adaptations')
        for axes in grid[0]:
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    caption = (
        'dev scores of adaptations that differ only in the seed, on one bucket (top), and only in '
        'the bucket, with one seed (bottom); mean (dashed) and standard deviation of the sample.'
    )
    return (caption + ' The CSV has more.' * (len(shown) < len(rows)),)


# ---------------------------------------------------------------------------------------------
# Figure 2: scores by language.


def _figure2(system: System, stem: pathlib.Path) -> tuple[str]:
    adapted, one = system.adapted, next(iter(system.adapted.values()))
    zero = {lang: group.zero_shot for (lang, _), group in adapted.items()}
    # Those without a zero-shot score come last.
    langs = sorted(zero, key=lambda lang: (-np.nan_to_num(zero[lang], nan=-1), lang))
    every = sorted({shots for _, shots in adapted})
    rows = []
    for lang in langs:
        rows.append((system.task, lang, 0, zero[lang], '', ''))
        for shots in every:
            group = adapted.get((lang, shots))
            numbers = (group.mean, group.deviation, len(group.scores)) if group else ('', '', 0)
            rows.append((system.task, lang, shots, *numbers))
    _write_csv(stem, ('mean', 'deviation', 'buckets'), rows)
    places = np.arange(len(langs))
    with drawing.figure(stem, max(4.5, 0.34 * len(places) + 1.2), 3.4) as figure:
        axes = figure.subplots()
        for place in places[1::2]:
            axes.axvspan(place - 0.5, place + 0.5, color='0.94', linewidth=0)
        axes.hlines(
            [zero[lang] for lang in langs], places - 0.4, places + 0.4, color=drawing.BLACK,
            linewidth=1.5, label='zero-shot', zorder=3,
        )  # fmt: skip
        for j, shots in enumerate(every):
            colour, marker = drawing.SHOTS[j % len(drawing.SHOTS)]
            found = ((i, adapted.get((lang, shots))) for i, lang in enumerate(langs))
            there = [(i, group) for i, group in found if group]
            axes.errorbar(
                [i + 0.2 * (j - (len(every) - 1) / 2) for i, _ in there],
                [group.mean for _, group in there],
                [group.deviation or 0.0 for _, group in there],
                color=colour, marker=marker, markersize=4, linestyle='none', linewidth=1,
                label=f'{shots}-shot',
            )  # fmt: skip
        axes.set_xticks(places, langs)
        axes.set(title=system.task, ylabel=f'test {one.rows[0].metric}')
        axes.set_xlim(-0.5, len(places) - 0.5)
        axes.grid(axis='y', alpha=0.3)
        figure.legend(loc='outside lower center', ncols=5, frameon=False)
    counts = {len(group.scores) for group in adapted.values()}
    count = ' to '.join(map(str, sorted({min(counts), max(counts)})))
    caption = (
        f'test {one.rows[0].metric} by language, sorted by that of zero-shot transfer; K-shot '
        f'transfer by its mean and standard deviation (of the sample) over {count} buckets.'
    )
    return (caption,)


# ---------------------------------------------------------------------------------------------
# Figures 3 and 4: the words that adapting puts right, and the words of buckets.


def _figure3(system: System, stem: pathlib.Path) -> tuple[str, str]:
    having, why = figure_data.with_words(system)
    made, first = {}, figure_data.FIRST
    for group, words in having.items():
        numbers = [row.bucket for row in group.by_bucket[:first]]
        made[group, group.shots] = numbers, words.overlaps(first)

    def panel(figure, axes, group, drawn):
        numbers, table = drawn
        image = axes.imshow(table, cmap=drawing.SHADES, vmin=0)
        axes.set_xticks(range(len(numbers)), numbers)
        axes.set_yticks(range(len(numbers)), numbers)
        # As high as the squares are, whatever room the panel has.
        figure.colorbar(image, cax=axes.inset_axes((1.04, 0, 0.06, 1)))

    columns = ('words_of_bucket', 'improved_by_bucket', 'jaccard')
    names = dict(xlabel='improved by bucket', ylabel='words of bucket')
    more = _draw_panels(stem, made, columns, _square_rows, panel, (3.2, 2.9), names)
    caption = (
        'Jaccard index of the words of a bucket (rows) and of those test words that zero-shot '
        'transfer labels incorrectly and the model adapted to a bucket (columns) labels correctly, '
        f'for the first {max(len(numbers) for numbers, _ in made.values())} buckets.{more}'
    )
    return caption, why


def _figure4(system: System, stem: pathlib.Path) -> tuple[str, str]:
    having, why = figure_data.with_words(system)
    made = {(group, group.shots): words.seen() for group, words in having.items()}

    def rows(group, counts):
        for row, of_row in zip(group.by_bucket, counts.tolist(), strict=True):
            yield (row.bucket, *of_row)

    def panel(figure, axes, group, counts):
        inside, outside = counts.T
        places = np.arange(len(inside))
        # The hatch tells them apart in print without colours.
        style = dict(color=drawing.ORANGE, hatch='////', edgecolor='white', linewidth=0)
        axes.bar(places, inside, 0.9, label='occur in the bucket', **style)
        axes.bar(places, outside, 0.9, inside, label='do not', color=drawing.BLUE)
        every = 1 + len(places) // 15
        axes.set_xticks(places[::every], [row.bucket for row in group.by_bucket[::every]])
        if not figure.legends:
            handles = axes.get_legend_handles_labels()
            figure.legend(*handles, loc='outside lower center', ncols=2, frameon=False)

    columns = ('bucket', 'in_bucket', 'not_in_bucket')
    names = dict(xlabel='bucket', ylabel='improved words')
    more = _draw_panels(stem, made, columns, rows, panel, (3.6, 2.5), names)
    caption = (
        'words of the test set that zero-shot transfer labels incorrectly and the model adapted to '
        f'a bucket labels correctly, by whether they occur in that bucket.{more}'
    )
    return caption, why


# ---------------------------------------------------------------------------------------------
# Figure 5: what texts are taken for.


def _figure5(system: System, stem: pathlib.Path) -> tuple[str]:
    having, made = figure_data.fewest_shots(system), {}
    for group in having:
        sweep, lang = group.sweep, group.language
        labels, zero_shot = sweep.test_set(lang).labels, sweep.zero_shot(lang)[None]
        adapted = figure_data.predictions(group)
        if max(zero_shot.max(), adapted.max()) >= len(labels):
            raise UserError(f'{sweep.workdir} has {len(labels)} labels, but predicts others')
        for shots, predicted in ((0, zero_shot), (group.shots, adapted)):
            table = figure_data.confusion(sweep.gold(lang), predicted, len(labels))
            made[group, shots] = labels, table

    def panel(figure, axes, group, drawn):
        labels, table = drawn
        shares = table / np.maximum(table.sum(1, keepdims=True), 1)
        texts = [[f'{count:.0f}' for count in row] for row in table]
        drawing.heat_map(axes, shares, texts, labels, labels)
        axes.set_aspect('equal')
        if max(map(len, labels)) > 5:
            axes.set_xticks(range(len(labels)), labels, rotation=30, ha='right')

    columns = ('gold', 'predicted', 'examples')
    names, per_row = dict(xlabel='predicted', ylabel='true'), 2 if len(having) == 1 else 4
    more = _draw_panels(stem, made, columns, _square_rows, panel, (2.6, 2.5), names, per_row)
    caption = (
        'test examples by true label (rows) and predicted label (columns), the mean over buckets '
        f'of {having[0].shots}-shot transfer. The colour is the share of the true label.{more}'
    )
    return (caption,)


# ---------------------------------------------------------------------------------------------
# Figure 6: learning curves.


def _figure6(system: System, stem: pathlib.Path) -> tuple[str]:
    made = {}
    for group in figure_data.fewest_shots(system):
        if all(row.curve for row in group.by_bucket):
            every = [row.curve for row in group.by_bucket]
            first = [row.curve for row in group.by_bucket if row.best_epoch == 1]
            made[group, group.shots] = [
                (len(curves), figure_data.mean_curve(curves)) for curves in (every, first)
            ]
    if not made:
        raise UserError('it needs the dev scores of every epoch')

    def rows(group, both):
        for name, (count, curve) in zip(('all', 'best_after_first'), both, strict=True):
            yield from ((name, count, epoch, score) for epoch, score in enumerate(curve, 1))

    def panel(figure, axes, group, both):
        lines = ((drawing.BLUE, 'o', 'all buckets'), (drawing.ORANGE, 's', 'best after epoch 1'))
        for (count, curve), (colour, marker, name) in zip(both, lines, strict=True):
            if count:
                epochs, label = np.arange(1, len(curve) + 1), f'{name} ({count})'
                axes.plot(epochs, curve, color=colour, marker=marker, markersize=3, label=label)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(frameon=False, fontsize='small')
        axes.grid(alpha=0.3)

    columns = ('averaged', 'buckets', 'epoch', 'dev_score')
    names = dict(xlabel='epoch', ylabel=f'dev {system.metric}')
    more = _draw_panels(stem, made, columns, rows, panel, (3.4, 2.6), names)
    caption = (
        'dev score after each epoch, the mean over all buckets and over those whose first epoch is '
        f'the best, up to the last epoch that all of them have.{more}'
    )
    return (caption,)


# The function that draws a figure, and returns its caption and a note; the title of one that is
# left out; the kind of its tasks, if it is not for all.
_FIGURES = (
    (_figure1, 'dev scores by seed and by bucket', ''),
    (_figure2, 'scores by language', ''),
    (_figure3, 'words of buckets and improved words', 'tagging'),
    (_figure4, 'improved words that occur in the bucket', 'tagging'),
    (_figure5, 'true and predicted labels', 'classification'),
    (_figure6, 'learning curves', ''),
)
