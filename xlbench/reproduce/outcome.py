"""The outcome of some experiments' commands: their folders, the text of a table, its gaps."""

import dataclasses
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence

from xlbench.benchmarks import RECIPES
from xlbench.benchmarks.paper import PaperTable
from xlbench.benchmarks.recipe import Recipe
from xlbench.reporting import printed, render
from xlbench.reporting.printed import Sheet
from xlbench.reproduce import bundles, showing, steps as steps_lib
from xlbench.reproduce.running import State
from xlbench.reproduce.steps import Settings
from xlbench.system import files
from xlbench.system.command_line import say
from xlbench.system.errors import UserError

# The table in the paper's form, its text in Markdown, and what stands below it.
Written = tuple[Sequence[Sheet], str, Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The results of commands that were run.

    Attributes:
      recipe: of the benchmark.
      experiments: the ones that were asked for.
      settings: that all commands share.
      state: of the steps.
      gaps: step -> why it has no result.
    """

    recipe: Recipe
    experiments: Sequence[str]
    settings: Settings
    state: State
    gaps: Mapping[str, str]

    def written(self, table: PaperTable, metrics: Sequence[str]) -> Written:
        """A table; its files are written, too: Markdown, and LaTeX and CSV of sheets.

        Args:
          table: of the paper.
          metrics: names that the user gives.
        """
        benchmark = self.recipe.benchmark
        sheets: Sequence[Sheet] = ()
        lacking: list[str] = []
        parts = self._head(table)
        chosen = [name for name in table.experiments if name in set(self.experiments)]
        rated = self.settings.rated if table.is_judged else ()
        if not table.experiments or (table.instead and not rated):
            parts.append(f'Not made here: {table.instead}.')
        else:
            made = self.folders(chosen)
            lacking = showing.fill(self.recipe, table, made, metrics, say)
            figures = self.state.folder / 'figures' / benchmark
            shown = showing.shown(self.recipe, table, made, figures, rated)
            sheets = shown.sheets
            parts += [printed.markdown(one) for one in sheets] or map(render.markdown, shown.tables)
            parts += [f'figure: {path}' for path in shown.files]
            parts += [render.items(lacking)] if lacking else []
        parts += (said := self._said(chosen))
        name = f'{benchmark}-{table.name.replace(" ", "-")}'
        text = _write(self.state.folder / 'tables' / name, parts, sheets)
        return sheets, text + '\n', (*lacking, *said)

    def added(
        self, table: PaperTable, names: Sequence[str], metrics: Sequence[str], bundle: str
    ) -> Written:
        """A table with new systems, with cards and the bundle; its files are written, too.

        Args:
          table: of the paper.
          names: of the systems.
          metrics: names that the user gives.
          bundle: the file for others to check; '' for none.
        """
        from xlbench.reproduce import beside  # With metrics, which load for half a second.

        recipe, settings, state = self.recipe, self.settings, self.state
        made = self.folders(self.experiments)
        lacking = showing.fill(recipe, table, made, metrics, say)
        shown = beside.shown(recipe, table, names, made, self._own(table))
        folders = list(dict.fromkeys(folder for of_one in made.values() for folder in of_one))
        place = state.folder / 'added' / f'{table.name} {" ".join(names)}'.replace(' ', '-')
        trained = [step.folder for step in state.steps.values() if step.command.program == 'train']
        every = dict.fromkeys([*folders, *trained])
        carded = [one for one in every if (one / 'config.json').is_file()]
        cards = beside.write_cards(carded, place / 'cards', say)
        took = sum(state.record(step).seconds for step in state.steps.values())
        cost = beside.cost(folders, took)
        said = [*lacking, *shown.notes, cost]
        said += [f'{len(cards)} model card(s): {place / "cards"}.'] if cards else []
        parts = [*self._head(table), *map(printed.markdown, shown.sheets)]
        parts += [*map(render.markdown, shown.tables), render.items(said)]
        text = _write(place / 'table', [*parts, *self._said(self.experiments)], shown.sheets)
        if bundle:
            of_cells = printed.FORMATS['csv'][1](shown.sheets)
            texts = {f'cards/{path.name}': path.read_text() for path in cards}
            experiments = {name: recipe.experiments[name] for name in made}
            about = bundles.Contents(
                format=bundles.FORMAT, benchmark=recipe.benchmark, table=table.number, cost=cost,
                size=settings.size, systems=list(names), code=bundles.code(),
                experiments={
                    name: bundles.ExperimentRuns(
                        dict(one.key), one.mixture, [folder.name for folder in made[name]]
                    )
                    for name, one in experiments.items()
                },
            )  # fmt: skip
            texts |= {'table.md': text, 'table.csv': of_cells}
            bundles.write(bundle, about, carded, texts)
            say(f'wrote {bundle}')
        return shown.sheets, text, ()

    def folders(self, experiments: Iterable[str]) -> dict[str, list[pathlib.Path]]:
        """The folders of the runs of each experiment, of those that are finished."""
        made: dict[str, dict[pathlib.Path, None]] = {}
        for name in experiments:
            for command in self.recipe.experiments[name].commands:
                for step in steps_lib.step_names(self.recipe, command, self.settings):
                    if step not in self.gaps:
                        made.setdefault(name, {})[self.state.steps[step].folder] = None
        return {name: list(of_one) for name, of_one in made.items()}

    def _own(self, table: PaperTable) -> dict[str, list[pathlib.Path]]:
        """The finished runs of a table's other experiments, with the same seeds or their own."""
        recipe = self.recipe
        (of_paper,) = [one for one in RECIPES[recipe.benchmark].tables if one.name == table.name]
        found: dict[str, list[pathlib.Path]] = {}
        for way in (self.settings, dataclasses.replace(self.settings, seeds=())):
            for name in of_paper.experiments:
                if name in found or name not in recipe.experiments:
                    continue
                state = State(way.workdir, steps_lib.steps(recipe, [name], way))
                undone = {step: 'not run' for step in state.steps if not _is_done(state, step)}
                found |= Outcome(recipe, [name], way, state, undone).folders([name])
        return found

    def _head(self, table: PaperTable) -> list[str]:
        """The title, and what has to be known before the numbers are."""
        title = f'# {self.recipe.benchmark}, {table.name}: {table.title}'
        if self.settings.size == 'paper':
            return [title]
        said = 'Embedded sample corpora and small models: scores cannot be compared with the paper.'
        if self.settings.steps != 1:
            share = f'{self.settings.steps:g}'
            said += f' Trained for {share} of the steps: the scores are meaningless.'
        if self.settings.examples:
            said += f' Scored on {self.settings.examples} examples of each task.'
        return [title, said]

    def _said(self, experiments: Sequence[str]) -> list[str]:
        """Gaps with their reasons, and notes on models."""
        recipe, settings = self.recipe, self.settings
        lacking: dict[str, dict[str, None]] = {}  # Reason -> experiments.
        engines: set[str] = set()
        for name in experiments:
            for command in recipe.experiments[name].commands:
                flags = ' '.join(recipe.commands[command].flags)
                engines |= {one for one in recipe.stand_ins if f'{{engine {one} ' in flags}
                for step in steps_lib.step_names(recipe, command, settings):
                    if step in self.gaps:
                        reason = re.sub('^(it needs [^ ]+: )+', '', self.gaps[step])
                        lacking.setdefault(reason, {})[name] = None
        lines = [f'{", ".join(names)}: {reason}' for reason, names in lacking.items()]
        blocks = ['Missing:\n\n' + render.items(lines)] if lines else []
        for one in sorted(engines):
            theirs = recipe.stand_ins[one].rstrip('.')
            blocks.append(f"Stand-in: {one} translates in place of the paper's {theirs}.")
        named = {recipe.experiments[name].model for name in experiments}
        notes = [note for model, note in recipe.notes.items() if model in named]
        return [*blocks, *([render.items(notes)] if notes and settings.size == 'paper' else [])]


def _is_done(state: State, name: str) -> bool:
    try:
        return state.is_done(state.steps[name])
    except UserError:  # Of another config.
        return False


def _write(path: pathlib.Path, parts: Iterable[str], sheets: Sequence[Sheet]) -> str:
    """Writes a table in all formats, those of sheets without what is missing besides."""
    text = '\n\n'.join(filter(None, parts)) + '\n'
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(f'{path}.md', text)
    for suffix, write in printed.FORMATS.values() if sheets else ():
        if suffix != 'md':
            files.write(f'{path}.{suffix}', write(sheets))
    return text
