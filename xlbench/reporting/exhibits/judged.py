"""Tables of what judges said, of what is fitted to it, and of the sizes of built data."""

import csv
import dataclasses
import statistics
from collections.abc import Mapping, Sequence

from xlbench import errors
from xlbench.benchmarks import SCENARIO_TITLES, Exhibit, paper, parse_task
from xlbench.reporting.exhibits import board as board_lib
from xlbench.reporting.exhibits.board import Board
from xlbench.reporting.exhibits.ratings import RatedText
from xlbench.reporting.notes import SAMPLE_DATA
from xlbench.reporting.tables import Cell, Column, Row, Table

ASPECTS = ('Grammar', 'Fluency', 'Relevance')  # Of arXiv:2108.07140, appendix B.
_DECIMALS = 2


@dataclasses.dataclass(frozen=True)
class Fits:
    """How regressors and scores correlate with ratings (Pearson), by target: an aspect, or 'mean'.

    Attributes:
        regressors: Target -> regressor -> correlation on the texts that choose one.
        scores: Target -> score -> correlation on the texts that test; fitted_rating is that of the
            regressor that was chosen for the target.
        notes: What they were fitted on.
    """

    regressors: Mapping[str, Mapping[str, float]]
    scores: Mapping[str, Mapping[str, float]]
    notes: tuple[str, ...] = ()


def ratings(board: Board, exhibit: Exhibit, rated: Sequence[RatedText]) -> Table:
    """Mean ratings by setting and model, averaged over languages: tables 5, 8, 9 and 10."""
    heading = f'{exhibit.name}: {exhibit.title}'
    (task,) = exhibit.tasks
    groups, unknown = _by_key(board, rated, task)
    printed = {
        (r['scenario'], r['model']): r
        for r in paper.printed_rows(exhibit.printed)
        if r['task'] == task
    }
    is_official = board.is_official and all(text.data != 'sample' for text in rated)
    rows, gaps = [], []
    for scenario in exhibit.scenarios:
        for model in dict.fromkeys((*board.models(), *(m for _, m in groups))):
            name = f'{SCENARIO_TITLES.get(scenario, scenario)} {model}'
            texts = groups.get((scenario, model), [])
            rows.append(Row(name, scenario, tuple(_mean(board, texts, a) for a in ASPECTS)))
            if rows[-1].is_missing:
                gaps.append(name)
            if is_official and (scenario, model) in printed:
                row = printed[scenario, model]
                cells = (Cell(text=row[aspect.lower()]) for aspect in ASPECTS)
                rows.append(Row(f'{name} (paper)', 'paper', tuple(cells)))
    if not groups:
        return Table(exhibit.name, missing=f'no text of {task} was rated by --ratings')
    said = [f'Ratings from 1 to 5, each language with the same weight; {_counts(groups)}.']
    said += [f'Nothing was rated of {", ".join(gaps)}.'] if gaps else []
    said += [f'Systems without a run or a setting: {", ".join(unknown)}.'] if unknown else []
    said += ['Rows marked paper: its judges, its texts.'] if is_official else []
    sample = [SAMPLE_DATA] if any(text.data == 'sample' for text in rated) else []
    columns = tuple(Column('', aspect) for aspect in ASPECTS)
    return Table(heading, columns, tuple(rows), 'setting, model', (*sample, *said))


def regressors(board: Board, exhibit: Exhibit, fits: Fits) -> Table:
    """How each regressor correlates with ratings it has not seen: table 3."""
    printed = {row['target']: row for row in paper.printed_rows(exhibit.printed)}
    names = list(next(iter(fits.regressors.values())))
    rows = []
    for target, of_target in fits.regressors.items():
        best = max((r for r in of_target.values() if r == r), default=None)
        cells = (_correlation(of_target[name], best) for name in names)
        rows.append(Row(target, 'run', tuple(cells)))
        if board.is_official and target in printed:
            cells = (Cell(text=printed[target].get(name) or '-') for name in names)
            rows.append(Row(f'{target} (paper)', 'paper', tuple(cells)))
    said = [
        'Pearson correlation with the ratings that choose a regressor; scikit-learn with its '
        'defaults.'
    ]
    columns = tuple(Column('', name) for name in names)
    return Table(
        f'{exhibit.name}: {exhibit.title}', columns, tuple(rows), 'target', (*fits.notes, *said)
    )


def correlations(exhibit: Exhibit, fits: Fits) -> Table:
    """How each score correlates with ratings: the numbers of figures 2 and 7."""
    targets = list(fits.scores)
    known = list(fits.scores[targets[0]])
    names = [score for score in exhibit.scores or known if score in known]
    rows = []
    for name in names:
        cells = (_correlation(fits.scores[target][name]) for target in targets)
        rows.append(Row(name, 'run', tuple(cells)))
    lacking = [score for score in exhibit.scores if score not in known]
    said = ['Pearson correlation with ratings, on texts that nothing was fitted on.']
    said += [f'Texts have no {", ".join(lacking)}; --metrics names more.'] if lacking else []
    columns = tuple(Column('', target) for target in targets)
    return Table(
        f'{exhibit.name}: {exhibit.title}', columns, tuple(rows), 'score', (*fits.notes, *said)
    )


def thresholds(board: Board, exhibit: Exhibit, path: str) -> Table:
    """How many examples each threshold of the overlap leaves: table 6.

    Args:
        board: Of runs on the data.
        exhibit: What is asked for.
        path: CSV with a line for each threshold and a column for each task; '' for none.
    """
    if not path and not board.is_official:
        return Table(exhibit.name, missing='it is made of --thresholds=FILE')
    printed = {row['threshold']: row for row in paper.printed_rows(exhibit.printed)}
    counted = _counted(path, exhibit.tasks) if path else {}
    rows = []
    for threshold in sorted({*counted, *printed}, key=float):
        for table, kind in ((counted, 'run'), (printed, 'paper')):
            if threshold in table:
                name = threshold + ' (paper)' * (kind == 'paper')
                cells = (Cell(text=table[threshold].get(task) or '-') for task in exhibit.tasks)
                rows.append(Row(name, kind, tuple(cells)))
    said = [
        'Rows marked paper are of its own translations by Google; an overlap may be counted in '
        'another way there.'
    ]
    columns = tuple(Column('', task) for task in exhibit.tasks)
    return Table(f'{exhibit.name}: {exhibit.title}', columns, tuple(rows), 'threshold', tuple(said))


def _counted(path: str, tasks: Sequence[str]) -> dict[str, dict[str, str]]:
    """The counts of a CSV, by threshold and task."""
    try:
        with open(path, encoding='utf-8', newline='') as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise errors.UserError(f'{path} cannot be read as CSV: {error}') from None
    table = {}
    for number, row in enumerate(rows, 2):
        threshold = row.get('threshold') or ''
        counts = {task: row[task] for task in tasks if row.get(task)}
        if not _is_share(threshold) or not all(c.isdecimal() for c in counts.values()):
            raise errors.UserError(
                f'{path}:{number}: it needs a column threshold, from 0 to 1, and a column of '
                f'counts for each of {", ".join(tasks)}'
            )
        table[threshold] = counts
    return table


def _is_share(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False


def _by_key(
    board: Board, rated: Sequence[RatedText], task: str
) -> tuple[dict[board_lib.Key, list[RatedText]], list[str]]:
    """The rated texts of a task by setting and model, and the systems that have none of these."""
    keys = {}
    for (scenario, model), system in board.systems.items():
        for pick in system.picks:
            keys[pick.run.workdir.resolve().name] = scenario, model
    groups: dict[board_lib.Key, list[RatedText]] = {}
    unknown = []
    for text in rated:
        if _task_of(text.task, board) != task:
            continue
        key = keys.get(text.system) or _named(board, text.system)
        if key is None:
            unknown.append(text.system)
        else:
            groups.setdefault(key, []).append(text)
    return groups, list(dict.fromkeys(unknown))


def _named(board: Board, system: str) -> board_lib.Key | None:
    """The setting and model of a system that is called after them. Example: mono mT5"""
    scenario, _, model = system.partition(' ')
    titles = {title: name for name, title in SCENARIO_TITLES.items()}
    scenario = titles.get(scenario, scenario)
    return (scenario, model) if scenario in board.benchmark.scenario_names and model else None


def _task_of(name: str, board: Board) -> str:
    """The benchmark's task of a SeqIO task; '' for one of another benchmark."""
    try:
        parsed = parse_task(name)
    except errors.UserError:
        return ''
    return parsed.task if parsed.benchmark == board.benchmark.name else ''


def _mean(board: Board, texts: Sequence[RatedText], aspect: str) -> Cell:
    """The mean over languages of the mean over texts."""
    by_lang: dict[str, list[float]] = {}
    for text in texts:
        if aspect in text.ratings:
            by_lang.setdefault(text.lang or parse_task(text.task).target, []).append(
                text.ratings[aspect]
            )
    if not by_lang:
        return Cell()
    return Cell(statistics.fmean(map(statistics.fmean, by_lang.values())), None, _DECIMALS)


def _counts(groups: Mapping[board_lib.Key, Sequence[RatedText]]) -> str:
    numbers = sorted({len(texts) for texts in groups.values()})
    langs = sorted({text.lang for texts in groups.values() for text in texts})
    span = '-'.join(str(n) for n in dict.fromkeys((numbers[0], numbers[-1])))
    return f'{span} texts of each system, in {", ".join(langs)}'


def _correlation(value: float, best: float | None = None) -> Cell:
    return Cell(text='undefined') if value != value else Cell(value, None, 3, best=value == best)
