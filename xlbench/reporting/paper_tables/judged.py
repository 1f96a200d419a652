"""Tables and figures of ratings by judges, of what is fitted to them, and of built data."""

import dataclasses
import hashlib
import os
import statistics
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from xlbench.benchmarks import SCENARIO_TITLES, Benchmark, PaperTable, parse_task
from xlbench.benchmarks.paper import Key
from xlbench.data import readers
from xlbench.reporting.notes import SAMPLE_DATA
from xlbench.reporting.paper_tables import board as board_lib, form, scores
from xlbench.reporting.paper_tables.board import Board, Compared
from xlbench.reporting.results import Result, Run, task_name
from xlbench.reporting.sections import Section
from xlbench.reporting.statistics import coefficient
from xlbench.reporting.tables import Cell, Column, Figure, Row, Table
from xlbench.system import errors, files, untrusted

_ABOUT = 'rough_train.about.json'  # What tasks/mtg_build says of rough data.
ASPECTS = ('Grammar', 'Fluency', 'Relevance')  # Of arXiv:2108.07140, appendix B.
_DECIMALS = 2
_PREFERRED = 'preferred'
MEAN = 'mean'  # Of all aspects.


class RatedText(msgspec.Struct):
    """A line of ratings.jsonl, as `python -m xlbench.annotate score` writes it.

    The ratings are the mean of the judges by aspect. The study is known by its title and hash; data
    is 'sample' where the example is made up.
    """

    task: str
    id: str
    prediction: str
    references: Annotated[list[str], msgspec.Meta(min_length=1)]
    ratings: Annotated[dict[str, float], msgspec.Meta(min_length=1)]
    lang: str = ''
    study: str = ''
    data: str = 'files'
    system: str = ''


def read_texts(paths: Sequence[str], lang: str = '') -> tuple[list[RatedText], str]:
    """Reads files of rated texts; `lang` is the language of those that do not say theirs.

    Returns:
      The texts, and the SHA-256 of their lines.

    Raises:
      UserError: a line is no rated text, or lines differ in their aspects.
    """
    texts: list[RatedText] = []
    digest = hashlib.sha256()
    for path in paths:
        for number, line in readers.good(readers.numbered(path)):
            text = files.parse_json(line, RatedText, f'{path}:{number}')
            if texts and text.ratings.keys() != texts[0].ratings.keys():
                raise errors.UserError(f'{path}:{number}: it has other aspects than the first text')
            text.lang = text.lang or lang
            if not text.lang:
                raise errors.UserError(f'{path}:{number}: nothing says its language; set --lang=de')
            texts.append(text)
            digest.update(f'{line}\n'.encode())
    if not texts:
        raise errors.UserError(f'{paths[0]} has no rated texts')
    return texts, digest.hexdigest()


@dataclasses.dataclass(frozen=True)
class Fits:
    """Pearson correlations of regressors and scores with ratings, by target: an aspect, or 'mean'.

    Attributes:
      regressors: target -> regressor -> correlation on the texts that choose one.
      scores: target -> score -> correlation on the texts that test; fitted_rating is that of the
        regressor that was chosen for the target.
      notes: what they were fitted on.
    """

    regressors: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    scores: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()


class _Built(msgspec.Struct):
    """The part of a build's notes that table 6 is made of: threshold -> examples that stay."""

    kept: dict[str, Annotated[int, msgspec.Meta(ge=0)]] = {}


def ratings(board: Board, paper_table: PaperTable, rated: Sequence[RatedText]) -> Table:
    """Mean ratings by setting and model, averaged over languages: tables 5, 8, 9 and 10."""
    (task,) = paper_table.values('task')
    groups, unknown = _by_key(board, rated, task)
    is_official = board.is_official and all(text.data != 'sample' for text in rated)
    rows, gaps = [], []
    for scenario in paper_table.values('scenario'):
        for model in dict.fromkeys((*board.models(), *(m for _, m in groups))):
            name = f'{SCENARIO_TITLES.get(scenario, scenario)} {model}'
            texts = groups.get((scenario, model), [])
            key = {'scenario': scenario, 'model': model, 'task': task}
            places = ((key, aspect.lower()) for aspect in ASPECTS if is_official)
            ours = [_mean(texts, aspect) for aspect in ASPECTS]
            rows += Compared((name,), ours, board.printed(paper_table, places), scenario).rows
            gaps += [name] * all(cell.is_missing for cell in ours)
    if not groups:
        return Table(paper_table.short, missing=f'no text of {task} was rated by --ratings')
    said = [f'Ratings from 1 to 5, each language with the same weight; {_counts(groups)}.']
    said += [f'Nothing was rated of {", ".join(gaps)}.'] if gaps else []
    said += [f'Systems without a run or a setting: {", ".join(unknown)}.'] if unknown else []
    said += ['Rows marked paper: its judges, its texts.'] if is_official else []
    sample = [SAMPLE_DATA] if any(text.data == 'sample' for text in rated) else []
    columns, notes = Column.named(ASPECTS), (*sample, *said)
    return Table(paper_table.heading, columns, tuple(rows), 'setting, model', notes)


def means(
    benchmark: Benchmark, paper_table: PaperTable, runs: Sequence[Run], rated: Sequence[RatedText]
) -> Table:
    """The mean of what judges say, by system; a system has the name of an experiment or a run.

    Best-worst scores are means: 1 for the best text, -1 for the worst (arXiv:2202.05599, 6.3). An
    aspect is known by the beginning of its name: Gram., or grammar.
    """
    names: dict[str, set[str]] = {}
    for run in runs:
        names.setdefault(run.place['model'], set()).update((run.place['name'], run.workdir.name))

    def value(key: Key, score: str) -> str | None:
        texts = [text for text in rated if text.system in names.get(key['model'], ())]
        aspects = texts[0].ratings if texts else ()
        known = [a for a in aspects if score.startswith(a.lower().rstrip('.'))]
        if not known:
            return None
        mean = statistics.fmean(text.ratings[known[0]] for text in texts)
        return f'{mean:.{paper_table.decimals(score)}f}'

    known = set().union(*names.values())
    unknown = dict.fromkeys(text.system for text in rated if text.system not in known)
    said = [f'{len(rated)} judged texts.']
    said += [f'Systems that the table does not have: {", ".join(unknown)}.'] if unknown else []
    said += [SAMPLE_DATA] if any(text.data == 'sample' for text in rated) else []
    without_notes = dataclasses.replace(paper_table, notes=())  # They are on the paper's judges.
    return form.fill(benchmark, without_notes, value, 'our judges', said)


def regressors(board: Board, paper_table: PaperTable, fits: Fits) -> Table:
    """Correlations of each regressor with ratings it has not seen: table 3."""
    names = list(next(iter(fits.regressors.values())))
    rows = []
    for target, of_target in fits.regressors.items():
        best = max((r for r in of_target.values() if r == r), default=None)
        cells = [coefficient(of_target[name], best) for name in names]
        printed = board.printed(paper_table, (({'target': target}, name) for name in names))
        rows += Compared((target,), cells, printed).rows
    said = [
        'Pearson correlation with the ratings that choose a regressor; scikit-learn with its '
        'defaults.'
    ]
    columns, notes = Column.named(names), (*fits.notes, *said)
    return Table(paper_table.heading, columns, tuple(rows), 'target', notes)


def correlations(paper_table: PaperTable, fits: Fits) -> Table:
    """Correlations of each score with ratings: the numbers of figures 2 and 7."""
    targets = list(fits.scores)
    known = list(fits.scores[targets[0]])
    names = [score for score in paper_table.scores or known if score in known]
    rows = []
    for name in names:
        cells = (coefficient(fits.scores[target][name]) for target in targets)
        rows.append(Row(name, 'run', tuple(cells)))
    lacking = [score for score in paper_table.scores if score not in known]
    said = ['Pearson correlation with ratings, on texts that nothing was fitted on.']
    said += [f'Texts have no {", ".join(lacking)}; --metrics names more.'] if lacking else []
    columns, notes = Column.named(targets), (*fits.notes, *said)
    return Table(paper_table.heading, columns, tuple(rows), 'score', notes)


def thresholds(board: Board, paper_table: PaperTable, root: str) -> Table:
    """Counts the examples that each threshold of the overlap leaves: table 6.

    The root is that of data which `python -m xlbench.data mtg_build` has built; '' for none.

    Raises:
      UserError: there is no such data.
    """
    if not root and not board.is_official:
        return Table(paper_table.short, missing='it is made of --rough=DATA')
    tasks = paper_table.scores
    kept: dict[str, dict[str, int]] = {}
    for task in tasks if root else ():  # Threshold -> examples that stay, where it was built.
        path = untrusted.file(root, os.path.join(board.benchmark.name, task, _ABOUT))
        kept[task] = files.read_json(path, _Built).kept if path else {}
    if root and not any(kept.values()):
        raise errors.UserError(
            f'{root}/{board.benchmark.name} has no TASK/{_ABOUT}; build rough data with python -m '
            'xlbench.data mtg_build'
        )
    rows = []
    for threshold in paper_table.values('threshold'):
        ours = [Cell(text=str(of_task.get(threshold, '-'))) for of_task in kept.values()]
        printed = board.printed(paper_table, (({'threshold': threshold}, task) for task in tasks))
        both = Compared((threshold,), ours, printed).rows
        rows += both if ours else both[1:]
    said = ['An example stays if no text of it, in no language, has a smaller overlap.'] * bool(
        root
    )
    if board.is_official:
        said.append(
            'Rows marked paper: of translations by Google, with an overlap that it does not define.'
        )
    columns = Column.named(tasks)
    return Table(paper_table.heading, columns, tuple(rows), 'threshold', tuple(said))


def _by_key(
    board: Board, rated: Sequence[RatedText], task: str
) -> tuple[dict[board_lib.Key, list[RatedText]], list[str]]:
    """The rated texts of a task by setting and model, and the systems that have none of these."""
    keys = {}
    for (scenario, model), system in board.systems.items():
        for pick in system.picks:
            keys[pick.run.workdir.resolve().name] = scenario, model
    titles = {title: name for name, title in SCENARIO_TITLES.items()}
    groups: dict[board_lib.Key, list[RatedText]] = {}
    unknown = []
    for text in rated:
        if task_name(text.task)[:2] != (board.benchmark.name, task):
            continue
        scenario, _, model = text.system.partition(' ')  # Maybe called after both: mono mT5
        named = titles.get(scenario, scenario), model
        is_named = named[0] in board.benchmark.scenario_names and model
        key = keys.get(text.system) or (named if is_named else None)
        if key is None:
            unknown.append(text.system)
        else:
            groups.setdefault(key, []).append(text)
    return groups, list(dict.fromkeys(unknown))


def _mean(texts: Sequence[RatedText], aspect: str) -> Cell:
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


def preference(
    benchmark: Benchmark, sections: Sequence[Section], table: PaperTable, rated: Sequence[RatedText]
) -> Figure | Table:
    """Bars of a generator and a retriever in English (arXiv:2106.02017, figure 2).

    Rated are sets of replies: 1 for the best, -1 for the worst, and the mean over judges. Their
    systems are named after the folders of runs.
    """
    chosen = {
        task: _english(sections, benchmark.task_name(task, benchmark.pivot))
        for task in table.values('task')
    }
    if not any(chosen.values()):
        return Table(table.short, missing='no run was scored in English')
    rows = []
    for task, one in chosen.items():
        if one is None:
            rows.append(Row(f'{task} (no run)', 'run', (Cell(),) * (len(table.scores) + 1)))
            continue
        folder, result = one
        points = [statistics.fmean(t.ratings.values()) for t in rated if t.system == folder]
        preferred = 50 * (1 + statistics.fmean(points)) if points else None
        values = (*map(result.scores.get, table.scores), preferred)
        cells = tuple(Cell(value, None, _DECIMALS) for value in values)
        rows.append(Row(f'{task} ({folder})', 'run', cells))
    columns = Column.named((*table.scores, _PREFERRED))
    said = [f'{_PREFERRED} is the share of judgements in %, where two sets of replies are shown.']
    if not rated:
        said = ['What people prefer is made of --ratings=FILE, see xlbench.annotate --sets.']
    if any(section.data == 'sample' for section in sections):
        said.insert(0, SAMPLE_DATA)
    numbers = Table(table.heading, columns, tuple(rows), 'model', tuple(said))
    return scores.side_by_side(table, numbers)


def _english(sections: Sequence[Section], name: str) -> tuple[str, Result] | None:
    """The first run that was scored on a task in English, as its config says: its folder."""
    for section in sections:
        for pick in section.picks:
            if not pick.variant and name in pick.results:
                return pick.run.workdir.resolve().name, pick.results[name]
    return None
