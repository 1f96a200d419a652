"""Tables and figures of ratings by judges, of what is fitted to them, and of built data."""

import os
import statistics
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from xlbench.benchmarks import SCENARIO_TITLES, PaperTable, parse_task
from xlbench.reporting.notes import SAMPLE_DATA
from xlbench.reporting.paper_tables import material as material_lib, scores
from xlbench.reporting.paper_tables.material import Material, RatedText, compared
from xlbench.reporting.results import Result, task_name
from xlbench.reporting.statistics import coefficient
from xlbench.reporting.tables import Cell, Column, Figure, Row, Table
from xlbench.system import errors, files, untrusted

_ABOUT = 'rough_train.about.json'  # What tasks/mtg_build says of rough data.
ASPECTS = ('Grammar', 'Fluency', 'Relevance')  # Of arXiv:2108.07140, appendix B.
_DECIMALS = 2
_PREFERRED = 'preferred'


class _Built(msgspec.Struct):
    """The part of a build's notes that table 6 is made of: threshold -> examples that stay."""

    kept: dict[str, Annotated[int, msgspec.Meta(ge=0)]] = {}


def ratings(material: Material, paper_table: PaperTable) -> Table:
    """Mean ratings by setting and model, averaged over languages: tables 5, 8, 9 and 10."""
    (task,) = paper_table.values('task')
    groups, unknown = _by_key(material, task)
    is_sample = any(text.data == 'sample' for text in material.rated)
    is_official = material.is_official and not is_sample
    rows, gaps = [], []
    for scenario in paper_table.values('scenario'):
        for model in dict.fromkeys((*material.models(), *(m for _, m in groups))):
            name = f'{SCENARIO_TITLES.get(scenario, scenario)} {model}'
            texts = groups.get((scenario, model), [])
            key = {'scenario': scenario, 'model': model, 'task': task}
            places = ((key, aspect.lower()) for aspect in ASPECTS if is_official)
            ours = [_mean(texts, aspect) for aspect in ASPECTS]
            rows += compared((name,), ours, material.printed(paper_table, places), scenario)
            gaps += [name] * all(cell.is_missing for cell in ours)
    if not groups:
        return Table(paper_table.short, missing=f'no text of {task} was rated by --ratings')
    said = [SAMPLE_DATA] if is_sample else []
    said += [f'Ratings from 1 to 5, each language with the same weight; {_counts(groups)}.']
    said += [f'Nothing was rated of {", ".join(gaps)}.'] if gaps else []
    said += [f'Systems without a run or a setting: {", ".join(unknown)}.'] if unknown else []
    said += ['Rows marked paper: its judges, its texts.'] if is_official else []
    columns, head = Column.named(ASPECTS), 'setting, model'
    return Table(paper_table.heading, columns, tuple(rows), head, tuple(said))


def regressors(material: Material, paper_table: PaperTable) -> Table:
    """Correlations of each regressor with ratings it has not seen: table 3."""
    fits = material.fits
    names = list(next(iter(fits.regressors.values())))
    rows = []
    for target, of_target in fits.regressors.items():
        best = max((r for r in of_target.values() if r == r), default=None)
        cells = [coefficient(of_target[name], best) for name in names]
        places = (({'target': target}, name) for name in names)
        rows += compared((target,), cells, material.printed(paper_table, places))
    said = (
        'Pearson correlation with the ratings that choose a regressor; scikit-learn with its '
        'defaults.'
    )
    columns, notes = Column.named(names), (*fits.notes, said)
    return Table(paper_table.heading, columns, tuple(rows), 'target', notes)


def correlations(material: Material, paper_table: PaperTable) -> Figure:
    """Bars of how each score correlates with ratings: figures 2 and 7."""
    fits, by_target = material.fits, material.fits.scores.values()
    known = list(next(iter(by_target)))
    rows = tuple(
        Row(name, 'run', tuple(coefficient(of_target[name].pearson) for of_target in by_target))
        for name in paper_table.scores or known
        if name in known
    )
    lacking = [score for score in paper_table.scores if score not in known]
    said = ['Pearson correlation with ratings, on texts that nothing was fitted on.']
    said += [f'Texts have no {", ".join(lacking)}; --metrics names more.'] if lacking else []
    columns, notes = Column.named(fits.scores), (*fits.notes, *said)
    table = Table(paper_table.heading, columns, rows, 'score', notes)
    panel = scores.Bars('', [*fits.scores], {row.name: scores.numbers(row.cells) for row in rows})
    return scores.bars(paper_table, table, [panel], ('rating', 'Pearson correlation'), 1)


def thresholds(material: Material, paper_table: PaperTable) -> Table:
    """Counts the examples that each threshold of the overlap leaves: table 6.

    It is made of data that `python -m xlbench.data mtg_build` has built.

    Raises:
      UserError: there is no such data.
    """
    root, name = material.rough, material.benchmark.name
    if not root and not material.is_official:
        return Table(paper_table.short, missing='it is made of --rough=DATA')
    tasks = paper_table.scores
    kept: dict[str, dict[str, int]] = {}
    for task in tasks if root else ():  # Threshold -> examples that stay, where it was built.
        path = untrusted.file(root, os.path.join(name, task, _ABOUT))
        kept[task] = files.read_json(path, _Built).kept if path else {}
    if root and not any(kept.values()):
        raise errors.UserError(
            f'{root}/{name} has no TASK/{_ABOUT}; build rough data with python -m '
            'xlbench.data mtg_build'
        )
    rows = []
    for threshold in paper_table.values('threshold'):
        ours = [Cell(text=str(of_task.get(threshold, '-'))) for of_task in kept.values()]
        places = (({'threshold': threshold}, task) for task in tasks)
        both = compared((threshold,), ours, material.printed(paper_table, places))
        rows += both if ours else both[1:]
    said = []
    if root:
        said.append('An example stays if no text of it, in no language, has a smaller overlap.')
    if material.is_official:
        said.append(
            'Rows marked paper: of translations by Google, with an overlap that it does not define.'
        )
    columns = Column.named(tasks)
    return Table(paper_table.heading, columns, tuple(rows), 'threshold', tuple(said))


def _by_key(
    material: Material, task: str
) -> tuple[dict[material_lib.Key, list[RatedText]], list[str]]:
    """The rated texts of a task by setting and model, and the systems that have none of these."""
    keys = {
        pick.run.workdir.resolve().name: key
        for key, system in material.systems.items()
        for pick in system.picks
        if key[0]
    }
    titles = {title: name for name, title in SCENARIO_TITLES.items()}
    groups: dict[material_lib.Key, list[RatedText]] = {}
    unknown = []
    for text in material.rated:
        if task_name(text.task)[:2] != (material.benchmark.name, task):
            continue
        scenario, _, model = text.system.partition(' ')  # Maybe called after both: mono mT5
        named = titles.get(scenario, scenario), model
        is_named = named[0] in material.benchmark.scenario_names and model
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
            lang = text.lang or parse_task(text.task).target
            by_lang.setdefault(lang, []).append(text.ratings[aspect])
    if not by_lang:
        return Cell()
    return Cell(statistics.fmean(map(statistics.fmean, by_lang.values())), None, _DECIMALS)


def _counts(groups: Mapping[material_lib.Key, Sequence[RatedText]]) -> str:
    numbers = sorted({len(texts) for texts in groups.values()})
    langs = sorted({text.lang for texts in groups.values() for text in texts})
    span = '-'.join(str(n) for n in dict.fromkeys((numbers[0], numbers[-1])))
    return f'{span} texts of each system, in {", ".join(langs)}'


def preference(material: Material, paper_table: PaperTable) -> Figure | Table:
    """Bars of a generator and a retriever in English (arXiv:2106.02017, figure 2).

    Scores differ in size, so that each has its panel. Rated are sets of replies: 1 for the best, -1
    for the worst, and the mean over judges. Their systems are named after the folders of runs.
    """
    benchmark, names = material.benchmark, (*paper_table.scores, _PREFERRED)
    chosen = {
        task: _english(material, benchmark.task_name(task, benchmark.pivot))
        for task in paper_table.values('task')
    }
    if not any(chosen.values()):
        return Table(paper_table.short, missing='no run was scored in English')
    rows = []
    for task, one in chosen.items():
        if one is None:
            rows.append(Row(f'{task} (no run)', 'run', (Cell(),) * len(names)))
            continue
        folder, result = one
        judged = (text for text in material.rated if text.system == folder)
        points = [statistics.fmean(text.ratings.values()) for text in judged]
        preferred = 50 * (1 + statistics.fmean(points)) if points else None
        values = (*map(result.scores.get, paper_table.scores), preferred)
        cells = tuple(Cell(value, None, _DECIMALS) for value in values)
        rows.append(Row(f'{task} ({folder})', 'run', cells))
    said = [f'{_PREFERRED} is the share of judgements in %, where two sets of replies are shown.']
    if not material.rated:
        said = ['What people prefer is made of --ratings=FILE, see xlbench.annotate --sets.']
    if any(section.data == 'sample' for section in material.sections):
        said.insert(0, SAMPLE_DATA)
    table = Table(paper_table.heading, Column.named(names), tuple(rows), 'model', tuple(said))
    panels = [
        scores.Bars(name, [''], {row.name: scores.numbers([row.cells[place]]) for row in rows})
        for place, name in enumerate(names)
    ]
    return scores.bars(paper_table, table, panels, ('', ''), len(panels))


def _english(material: Material, name: str) -> tuple[str, Result] | None:
    """The first run that was scored on a task in English, as its config says: its folder."""
    for section in material.sections:
        for pick in section.picks:
            if not pick.variant and name in pick.results:
                return pick.run.workdir.resolve().name, pick.results[name]
    return None
