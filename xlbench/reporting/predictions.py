"""The texts that systems wrote, from predictions.jsonl and files of that form."""

import contextlib

import msgspec

from xlbench.reporting.results import Result
from xlbench.system import files, untrusted
from xlbench.system.errors import UserError, shortened


class Prediction(msgspec.Struct):
    """A line of predictions.jsonl.

    Attributes:
      prediction: what the system wrote; None where it writes no text.
      id: of the example; without it the number of the line, from 0.
      input: what was to be answered.
      target: the reference.
      references: all references, where there are several.
      scores: automatic scores of this text.
      n_best: all texts of a generator, as JSON.
      suggestions: those of a retriever, likewise.
    """

    prediction: str | None = None
    id: str | int | None = None
    input: str = ''
    target: str = ''
    references: list[str] = []
    scores: dict[str, float | None] = {}
    n_best: msgspec.Raw = msgspec.Raw(b'[]')
    suggestions: msgspec.Raw = msgspec.Raw(b'[]')

    def texts(self, count: int | None) -> list[str]:
        """The first texts of the example, or all, best first; one where there are no others.

        Raises:
          UserError: `n_best` or `suggestions` is not what an evaluation writes.
        """
        try:
            written = [one.prediction for one in msgspec.json.decode(self.n_best, type=list[_Text])]
            shown = msgspec.json.decode(self.suggestions, type=list[_Suggestion])
        except msgspec.MsgspecError as error:
            raise UserError(f'example {shortened(self.id)} has no list of texts: {error}') from None
        return (written or [one.text for one in shown] or [self.prediction or ''])[:count]


class _Text(msgspec.Struct):
    prediction: str


class _Suggestion(msgspec.Struct):
    text: str


def parse(line: str | bytes, place: str, number: int, seen: dict[str, Prediction]) -> None:
    """Adds a line of JSON, with its number from 0, to those that were seen before, by their ids.

    Raises:
      UserError: it is not a prediction, or its id is there already.
    """
    row = files.parse_json(line, Prediction, place)
    key = str(number if row.id is None else row.id)
    if key in seen:
        raise UserError(f'{place}: id {shortened(key)} is there twice')
    seen[key] = row


def of_result(
    result: Result, limit: int | None = None, *, is_strict: bool = True
) -> dict[str, Prediction]:
    """All predictions beside a result, by the ids of their examples; none if the file is missing.

    A line that is no prediction is a UserError, or without `is_strict` left out.
    """
    path = untrusted.file(result.folder, 'predictions.jsonl')
    rows: dict[str, Prediction] = {}
    if path is not None:
        with untrusted.open_regular(path) as file:
            for number, line in enumerate(file):
                with contextlib.nullcontext() if is_strict else contextlib.suppress(UserError):
                    parse(line, f'{path}:{number + 1}', number, rows)
                if len(rows) == limit:
                    break
    for score, values in result.added.items():
        for key in values.keys() & rows.keys():
            rows[key].scores[score] = values[key]
    return rows
