"""An experiment of a page, and what all kinds of workdirs say about themselves."""

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from xlbench.reporting import command_lines, costs, notes
from xlbench.reporting.tables import Table
from xlbench.system import files
from xlbench.system.files import Json


@dataclasses.dataclass(frozen=True)
class Part:
    """The tables of one benchmark and split.

    Attributes:
        title: What they are about.
        headline: The main score, an average where there is one; '' if there is none.
        notes: Sentences that belong beside them.
        tables: With their own notes: the signatures of metrics.
    """

    title: str
    headline: str
    notes: tuple[str, ...]
    tables: tuple[Table, ...]


@dataclasses.dataclass(frozen=True)
class Entry:
    """One experiment.

    Attributes:
        name: Of the config, or else of the first workdir.
        workdir: Last name of the first workdir.
        commands: That made it, for a shell.
        facts: Seeds, hours, hardware, dtype, data and so on, by name.
        parts: Its scores.
        cards: Folder name and text of the model cards of folders that were exported from it.
    """

    name: str
    workdir: str
    commands: tuple[str, ...]
    facts: Mapping[str, str]
    parts: tuple[Part, ...]
    cards: tuple[tuple[str, str], ...] = ()


class _Recorded(msgspec.Struct):
    """The part of a config.json that says how the workdir was made."""

    argv: list[str] = []
    cwd: str = ''


def origin(workdirs: Sequence[pathlib.Path]) -> tuple[str, tuple[str, ...]]:
    """The name of an experiment, and its commands, each once."""
    typed, configs = [], []
    for workdir in workdirs:
        about = files.read_json(workdir / 'config.json', _Recorded)
        for words in costs.commands(workdir) or [about.argv]:
            typed.append(command_lines.command(words, about.cwd))
            configs.append(command_lines.config_of(words, about.cwd))
    named = next(filter(None, configs), '')
    return named or workdirs[0].resolve().name, tuple(dict.fromkeys(filter(None, typed)))


def present(facts: Mapping[str, Json]) -> dict[str, str]:
    """The facts that are known, as text."""
    return {key: notes.plain_fact(fact) for key, fact in facts.items() if _is_known(fact)}


def _is_known(fact: Json) -> bool:
    return fact not in (None, '', {})


def common(values: Iterable[Json]) -> str:
    """Returns the value of all workdirs; where they differ, each value."""
    return '; '.join(dict.fromkeys(notes.plain_fact(fact) for fact in values if _is_known(fact)))


def without_notes(table: Table, notes_above: Sequence[str]) -> Table:
    """A table without the notes that stand above it on the page."""
    own = tuple(note for note in table.notes if note not in notes_above)
    return dataclasses.replace(table, notes=own)
