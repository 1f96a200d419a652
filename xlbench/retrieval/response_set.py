"""Response sets: the responses that a retriever may suggest, and the choice among them. No jax.

A file of the official form (arXiv:2106.02017; microsoft/MRS) has a response a line,

  log-likelihood TAB text TAB cluster id          -1.7  Thanks!  c12

and responses of one cluster say the same, so that only one of them is suggested. `display`, from a
file of its own, is what a person is shown in the text's place.

The best set of suggestions is not the set of the best suggestions: the highest-scoring responses
often say the same thing in three wordings, and for a user, and for mrs_rouge, the best of the three
counts. `Consensus` therefore takes the set with the highest expected best score under the
retriever's own distribution over its candidates, the minimum Bayes risk decision (Kumar and Byrne
2004, aclanthology.org/N04-1022) for the best of n.
"""

import collections
import dataclasses
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from xlbench.data import readers
from xlbench.data.prepared import Prepared, Record
from xlbench.data.tokenizers import Tokenizer
from xlbench.metrics import mrs
from xlbench.system import errors, files
from xlbench.system.errors import UserError

if TYPE_CHECKING:  # It loads for half a second, and few runs choose by it.
    import scipy.sparse

_READ_AT_ONCE = 10_000  # Records.
_KEYS = ('text', 'lm_score', 'cluster', 'display')  # Of a line of a copy.


class _Response(msgspec.Struct):
    """A response, as a line of a copy has it."""

    text: str
    lm_score: float
    cluster: str
    display: str


@dataclasses.dataclass(frozen=True)
class ResponseSet:
    """Responses, told apart by their place: the response id.

    Attributes:
      texts: all different.
      lm_scores: [n] float32, log-probability of the text as a reply to anything, nats.
      clusters: responses with the same say the same.
      display: what a person is shown.
      ids: tokens of each text, as the right side of a dual encoder reads them.
    """

    texts: list[str]
    lm_scores: np.ndarray
    clusters: list[str]
    display: list[str]
    ids: list[np.ndarray]

    def __len__(self) -> int:
        return len(self.texts)

    @classmethod
    def of_prepared(cls, prepared: Prepared) -> 'ResponseSet':
        """The different replies of a preparation, in the order of first sight.

        What a record's fields lm_score, cluster and display leave empty becomes the logarithm of
        the relative frequency, the text in lower case (str.casefold), and the text.
        """
        first: dict[str, Record] = {}
        counts: collections.Counter[str] = collections.Counter()
        for start in range(0, len(prepared), _READ_AT_ONCE):
            numbers = range(start, min(start + _READ_AT_ONCE, len(prepared)))
            for record in prepared.read(numbers):
                text = record['targets_pretokenized']
                counts[text] += 1
                first.setdefault(text, record)
        where = f'{prepared.name}/{prepared.split}'
        rows = {}
        for text, record in first.items():
            score = math.log(counts[text] / len(prepared))
            if record.get('lm_score'):
                score = _number(record['lm_score'], f'{where}: response {text!r}')
            cluster = record.get('cluster') or text.casefold()
            rows[text] = _Response(text, score, cluster, record.get('display') or text)
        return cls._of_rows(rows, [record['targets'] for record in first.values()])

    @classmethod
    def _of_rows(cls, rows: Mapping[str, _Response], ids: list[np.ndarray]) -> 'ResponseSet':
        """A set of responses by their texts, and the tokens of each."""
        return cls(
            list(rows),
            np.array([row.lm_score for row in rows.values()], np.float32),
            [row.cluster for row in rows.values()],
            [row.display for row in rows.values()],
            ids,
        )

    @classmethod
    def of_file(cls, path: str | os.PathLike, tokenizer: Tokenizer) -> 'ResponseSet':
        """A response_lm_cluster.txt, or a plain text file with a response a line.

        A line with a TAB has the three columns of the official form; equal lines are one response.
        Plain texts have the log-likelihood 0 and the cluster of their lower case.

        Raises:
          UserError: the file cannot be read, a line is malformed, a text has two scores or
            clusters, or there is no response.
        """
        rows: dict[str, _Response] = {}
        first: dict[str, int] = {}
        for number, line in readers.good(readers.numbered(os.fspath(path))):
            columns = [column.strip() for column in line.split('\t')]
            if len(columns) == 1:
                score, text, cluster = 0.0, columns[0], columns[0].casefold()
            elif len(columns) >= 3:
                text, cluster = columns[1:3]
                score = _number(columns[0], f'{path}:{number}')
            else:
                raise UserError(
                    f'{path}:{number} has 2 columns; a line is a text, or log-likelihood, text '
                    'and cluster id with TABs between them'
                )
            row = _Response(text, score, cluster, text)
            if text and rows.setdefault(text, row) != row:
                raise UserError(
                    f'{path}:{number}: {errors.shortened(text)} has another log-likelihood or '
                    f'cluster on line {first[text]}; responses must differ'
                )
            first.setdefault(text, number)
        if not rows:
            raise UserError(f'{path} has no responses')
        return cls._of_rows(rows, tokenizer.encode_inputs(list(rows)))

    def save(self, path: str | os.PathLike) -> None:
        """Writes a JSON object a line, with text, lm_score, cluster and display; see `of_copy`."""
        rows = zip(self.texts, self.lm_scores.tolist(), self.clusters, self.display, strict=True)
        lines = (json.dumps(dict(zip(_KEYS, row, strict=True)), ensure_ascii=False) for row in rows)
        files.write(path, ''.join(f'{line}\n' for line in lines))

    @classmethod
    def of_copy(cls, path: str | os.PathLike, tokenizer: Tokenizer) -> 'ResponseSet':
        """Reads what `save` has written.

        Raises:
          UserError: the file is no such copy.
        """
        rows: dict[str, _Response] = {}
        for number, line in readers.good(readers.numbered(os.fspath(path))):
            where = f'{path} is not a copy of a response set: line {number}'
            row = files.parse_json(line, _Response, where)
            if not row.text.strip():
                raise UserError(f'{where}: the text is empty')
            if rows.setdefault(row.text, row) is not row:
                raise UserError(f'{where}: {errors.shortened(row.text)} occurs twice')
            _number(row.lm_score, where)
        if not rows:
            raise UserError(f'{path} has no responses')
        return cls._of_rows(rows, tokenizer.encode_inputs(list(rows)))

    def choose(self, ids: Sequence[int], count: int) -> list[int]:
        """The first of each cluster among ids [k], best first, until there are `count`."""
        chosen: dict[str, int] = {}
        for i in ids:
            if len(chosen) == count:
                break
            chosen.setdefault(self.clusters[i], int(i))
        return list(chosen.values())


def _number(text: str | float, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not abs(number) < 1e38:  # Beyond it, it is infinite as float32.
        named = errors.shortened(text)
        raise UserError(f'{where} has the log-likelihood {named}, which is not a number')
    return number


# ------------------------------------------------------------------------ the choice of suggestions

# (response ids [k], their scores [k], how many are wanted) -> the ids that are suggested.
Choose = Callable[[Sequence[int], Sequence[float], int], list[int]]


def chooser(responses: ResponseSet, lang: str | None, temperature: float) -> Choose:
    """Returns how to choose suggestions: together, or at temperature 0 the first of each cluster.

    Without a language, which splits texts into words, it is the latter, too.
    """
    if temperature and lang:
        return Consensus(responses.display, lang, temperature).choose
    return lambda ids, scores, count: responses.choose(ids, count)


class Consensus:
    """Chooses among candidates of one response set.

    Candidate j is the true reply with probability p_j, proportional to exp(score_j / temperature);
    u_ij is the weighted ROUGE of i if j is the reference. Responses are added one by one, each the
    one that raises sum_j p_j max_{i chosen} u_ij most: such a greedy choice reaches at least
    1 - 1/e of the best set's value (Nemhauser et al. 1978, doi:10.1007/BF01588971).

    Args:
      texts: the responses, as a person is shown them.
      lang: ISO code; decides how words are split.
      temperature: in units of the scores. Near 0 the candidate with the highest score is certain;
        the larger, the less the message counts and the more what is said often.
    """

    def __init__(self, texts: Sequence[str], lang: str, temperature: float):
        self._temperature = temperature
        rows = [mrs.reply_ngrams(text, lang) for text in texts]
        self._counts = [_incidence([row[n] for row in rows]) for n in range(len(mrs.WEIGHTS))]

    def choose(self, ids: Sequence[int], scores: Sequence[float], count: int) -> list[int]:
        """Chooses at most `count` of the response ids [k]; returns them in the order of choice."""
        values = np.asarray(scores, np.float64) / self._temperature
        p = np.exp(values - values.max())
        gains = self._similarities(np.asarray(ids))
        chosen: list[int] = []
        covered = np.zeros(len(ids))
        left = np.ones(len(ids), bool)
        for _ in range(min(count, len(ids))):
            values = np.where(left, np.maximum(gains, covered) @ p, -1.0)
            best = int(values.argmax())
            chosen.append(int(ids[best]))
            covered = np.maximum(covered, gains[best])
            left[best] = False
        return chosen

    def _similarities(self, ids: np.ndarray) -> np.ndarray:
        """u [k, k]; symmetric, because F1 is."""
        total = np.zeros((len(ids), len(ids)))
        for weight, counts in zip(mrs.WEIGHTS, self._counts, strict=True):
            part = counts[ids]
            sizes = np.asarray(part.sum(axis=1)).ravel()
            common = (part @ part.T).toarray()
            total += weight * 2.0 * common / np.maximum(sizes[:, None] + sizes, 1.0)
        return total


def _incidence(rows: Sequence[set[tuple[str, ...]]]) -> 'scipy.sparse.csr_matrix':
    """[rows, n-grams], 1 where a row has the n-gram."""
    import scipy.sparse

    numbers: dict[tuple[str, ...], int] = {}
    # Sorted, so that two processes add up in one order.
    columns = [numbers.setdefault(gram, len(numbers)) for row in rows for gram in sorted(row)]
    ends = np.cumsum([0, *map(len, rows)])
    ones = np.ones(len(columns), np.float32)
    return scipy.sparse.csr_matrix((ones, columns, ends), shape=(len(rows), max(1, len(numbers))))
