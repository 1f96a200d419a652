"""Evaluates retrieval: the rank of a message's own reply, and the suggested replies.

Two questions, the second where there is a response set:

  candidates  the own reply among some hundred replies of other examples: loss, mrr, p_at_1,
              recall_10
  responses   what is suggested from the set, scored as a generator's n-best texts are; and where
              the own reply is in the set, its rank there: set_mrr, set_p_at_1, set_macro_mrr, and
              mrr_code, p_at_3_code, macro_mrr_code as microsoft/MRS computes them

predictions.jsonl has `suggestions`, too.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple, cast

import numpy as np
from msgspec import Meta

from xlbench import metrics
from xlbench.data import features
from xlbench.data.prepared import Prepared
from xlbench.evaluators import base
from xlbench.metrics import mrs
from xlbench.metrics.contract import Spec
from xlbench.retrieval import exact_search
from xlbench.retrieval.response_set import ResponseSet, chooser
from xlbench.retrieval.text_encoder import TextEncoder
from xlbench.system.errors import UserError
from xlbench.system.files import Json, Setting
from xlbench.system.trees import Params
from xlbench.training.objectives.retrieval import Retrieval

# The evaluation's own, of a task or of an example.
_SCORES = (
    'loss', 'mrr', 'p_at_1', 'recall_10', 'rank', 'set_rank', 'set_mrr', 'set_p_at_1',
    'set_macro_mrr', 'mrr_code', 'p_at_3_code', 'macro_mrr_code', 'mrr_f1_code',
)  # fmt: skip
_VALIDATION = 'mrs_validation_rouge'  # Chooses among `lm_weights`.
# The released code scores whole batches of this size, and leaves the last one out.
OFFICIAL_BATCH = 512
# Examples whose scores or hashes are in memory at once.
_CHUNK = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(base.Options):
    """A block of config.evals for this evaluator.

    Attributes:
      responses: the split whose replies are each task's response set; '' for no set.
      candidates: how many, the own reply included.
      top_k: responses that suggestions are chosen from, one of each cluster.
      num_suggestions: for each message.
      lm_weight: of a response's log-likelihood; a response's score is scale * message . response +
        lm_weight * log-likelihood.
      lm_weights: are tried in place of `lm_weight`, and each task has the scores of the one with
        the highest mrs_validation_rouge. microsoft/MRS tries 0.45, 0.5 and 0.55, and moves them
        after every validation, so that the best is in the middle; here they stay.
      consensus: 0 suggests the best of each cluster. Above 0 it is the temperature at which those
        top_k are chosen that promise most together, see retrieval/response_set.py.
      official_filter: drops what microsoft/MRS does not score: examples longer than `lengths`, and
        of the others the last incomplete batch of 512.
      validation_rouge: adds the score mrs_validation_rouge, by which microsoft/MRS chooses a
        checkpoint; of a response set and three suggestions, with lm_weight=0.5 there.
    """

    responses: str = ''
    candidates: Annotated[int, Meta(ge=2, le=2**20)] = 500
    top_k: Annotated[int, Meta(ge=1, le=2**24)] = 15
    num_suggestions: Annotated[int, Meta(ge=1, le=2**20)] = 3
    lm_weight: float = 0.0
    lm_weights: Sequence[float] = ()
    consensus: Annotated[float, Meta(ge=0)] = 0.0
    official_filter: bool = False
    validation_rouge: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.num_suggestions <= self.top_k:
            raise UserError(
                f'num_suggestions is {self.num_suggestions} and top_k {self.top_k}; suggestions '
                'are chosen from the top_k best, so 1 <= num_suggestions <= top_k is needed'
            )
        if self.validation_rouge and self.num_suggestions != 3:
            raise UserError(
                f'validation_rouge needs three suggestions, but num_suggestions is '
                f'{self.num_suggestions}; set it to 3, or validation_rouge to False'
            )
        if self.lm_weights and not self.validation_rouge:
            raise UserError(
                f'lm_weights are {tuple(self.lm_weights)}, but only validation_rouge chooses one '
                'of them; set validation_rouge to True, or lm_weights to ()'
            )

    def further_metrics(self, task: Prepared) -> list[Spec]:
        del task
        return [metrics.to_spec(metrics.MrsValidationRouge())] if self.validation_rouge else []


@dataclasses.dataclass(frozen=True)
class RetrievalTask(base.Task):
    """A prepared task with what evaluating it needs, read when it is first scored."""

    responses: Prepared | None  # The preparation of its response set, if there is one.
    num_candidates: int  # Of an example, its own reply included.
    # Longer examples are left out, and of the others the last incomplete batch; None scores all.
    official_lengths: Mapping[str, int] | None

    def __post_init__(self):
        if not len(self.numbers):
            raise UserError(
                f'official_filter leaves none of {self.batches.num_examples} examples of '
                f'{self.prepared.name}/{self.prepared.split}: it keeps only full batches of '
                f'{OFFICIAL_BATCH}; set it to False'
            )

    @functools.cached_property
    def numbers(self) -> np.ndarray:
        """[n], the examples that are scored."""
        numbers = np.arange(self.batches.num_examples)
        if not self.official_lengths:
            return numbers
        limits = [self.official_lengths['inputs'], self.official_lengths['targets']]
        kept = np.flatnonzero((self.prepared.lengths()[numbers] <= limits).all(axis=1))
        return kept[: len(kept) // OFFICIAL_BATCH * OFFICIAL_BATCH]

    @functools.cached_property
    def records(self) -> list[dict[str, Json]]:
        """[n], of the examples that are scored."""
        return self.prepared.read(self.numbers)

    @property
    def targets(self) -> list[str]:
        """[n], their own replies."""
        return [record['targets_pretokenized'] for record in self.records]

    @functools.cached_property
    def _drawn_from(self) -> dict[str, np.ndarray]:
        """The different replies that candidates are drawn from: text -> ids."""
        count = np.clip(
            self.batches.num_examples, 2 * self.num_candidates, 20 * self.num_candidates
        )
        records = self.prepared.read(range(min(count, len(self.prepared))))
        return {record['targets_pretokenized']: record['targets'] for record in records}

    @functools.cached_property
    def replies(self) -> dict[str, np.ndarray]:
        """{text: ids} of all candidates: replies that are drawn from, then the other own ones."""
        gold = {record['targets_pretokenized']: record['targets'] for record in self.records}
        return self._drawn_from | gold

    @functools.cached_property
    def pools(self) -> np.ndarray:
        """[n, candidates], places in `replies`: the gold one first, the others sorted."""
        places = {text: i for i, text in enumerate(self.replies)}
        gold = np.array([places[record['targets_pretokenized']] for record in self.records])
        total = len(self._drawn_from)
        count = min(self.num_candidates, total) - 1
        parts = [slice(i, i + _CHUNK) for i in range(0, len(gold), _CHUNK)]
        others = [_draw(self.numbers[part], gold[part], total, count) for part in parts]
        return np.concatenate([gold[:, None], np.concatenate(others)], axis=1)


def _draw(numbers: np.ndarray, gold: np.ndarray, total: int, count: int) -> np.ndarray:
    """[n, count]: replies of 0 .. total - 1 other than gold [n], for examples of these numbers [n].

    They are those with the smallest hashes of example and reply, so that a few replies more or
    fewer change few of them.
    """
    hashes = _mix(_mix(numbers.astype(np.uint64))[:, None] + np.arange(total, dtype=np.uint64))
    known = np.flatnonzero(gold < total)
    hashes[known, gold[known]] = np.iinfo(np.uint64).max
    order = np.argpartition(hashes, min(count, total - 1), axis=1)
    return np.sort(order[:, :count], axis=1)


def _mix(x: np.ndarray) -> np.ndarray:
    """A hash of uint64, one step of SplitMix64 (doi:10.1145/2660193.2660195)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def rank(
    task: RetrievalTask,
    messages: np.ndarray,  # [n, dim], times scale
    replies: np.ndarray,  # [replies, dim]
) -> tuple[np.ndarray, ...]:
    """[n] each: the loss of an example's gold reply in nats, its rank from 1, and the best place.

    The best place is in `RetrievalTask.replies`: of the candidate with the highest score.
    """
    lengths = np.linalg.norm(replies, axis=1)
    best, losses, ranks = [], [], []
    for start in range(0, len(messages), _CHUNK):
        x, pools = messages[start : start + _CHUNK], task.pools[start : start + _CHUNK]
        scores = np.take_along_axis(x @ replies.T, pools, axis=1).astype(np.float64)
        gold = scores[:, :1]
        noise = exact_search.ROUNDING * np.linalg.norm(x, axis=1) * lengths[pools[:, 0]]
        ranks.append(1 + np.sum(scores[:, 1:] >= gold - noise[:, None], axis=1))
        largest = scores.max(axis=1)
        total = np.exp(scores - largest[:, None]).sum(axis=1)
        losses.append(largest + np.log(total) - gold[:, 0])
        best.append(np.take_along_axis(pools, scores.argmax(axis=1)[:, None], axis=1)[:, 0])
    return tuple(map(np.concatenate, (losses, ranks, best)))


class RetrievalEvaluator(base.Evaluator[RetrievalTask, '_Vectors', '_Vectors']):
    """Scores a dual encoder on prepared tasks; every example exactly once.

    An example's candidates are its own reply and `candidates` - 1 different ones, chosen by a hash
    of the example's number among the replies of the first examples: of those that are scored, but
    of at least 2 and at most 20 times `candidates` of them. So they do not depend on batch size and
    devices, and little on num_examples. Where there are fewer replies, all of them are candidates,
    and metrics.json says how many. A candidate that scores as high as the own reply ranks before
    it, so that an encoder that tells no texts apart gets no more than chance; ranks in the response
    set (set_mrr, ...) have the same rule. mrr_code and its like are of the suggestions, where of
    equal scores the response with the lower number comes first, as in microsoft/MRS.

    `responses` are for each task the preparation whose replies are its response set; None: no set.
    """

    views: ClassVar[tuple[str, ...]] = ('retrieval',)
    options_type = Options
    options: Options
    own_scores = ('loss', 'mrr', 'p_at_1', 'recall_10')

    def __init__(self, *parts: Any, responses: Sequence[Prepared] | None = None, **block: Setting):
        super().__init__(*parts, **block)
        options, lengths = self.options, self.options.lengths
        if options.validation_rouge and not responses:
            raise UserError(
                'validation_rouge needs suggestions from a response set, but there is none; set '
                "responses='responses', or validation_rouge to False"
            )
        self._scale = cast(Retrieval, self._objective).scale
        # Choosers are kept, because they may split all texts into words.
        self._chooser = functools.cache(
            lambda folder, lang: chooser(self._sets[folder], lang, options.consensus)
        )
        candidates, official = options.candidates, lengths if options.official_filter else None
        none: list[Prepared | None] = [None] * len(self.tasks)
        self.tasks = [
            RetrievalTask(task.prepared, task.batches, task.metrics, of_task, candidates, official)
            for task, of_task in zip(self.tasks, responses or none, strict=True)
        ]
        for task in self.tasks:
            if task.responses:
                base.check_metrics(task, options.num_suggestions, _SCORES)
        self._left, self._right = (
            TextEncoder(
                self._model,
                self._mesh,
                side,
                batch_size=options.batch_size,
                max_length=lengths[name],
                conventions=features.Conventions.of(self.tasks[0].prepared.manifest),
            )
            for side, name in (('left', 'inputs'), ('right', 'targets'))
        )

    @functools.cached_property
    def _sets(self) -> dict[str, ResponseSet]:
        """The response sets by folder; several tasks may share one."""
        prepared = {task.responses.folder: task.responses for task in self.tasks if task.responses}
        return {folder: ResponseSet.of_prepared(task) for folder, task in prepared.items()}

    def score_names(self, task: str) -> set[str]:
        given = super().score_names(task)
        if given and self._sets:
            given |= mrs.ranks_in_set([1], [0]).keys()
            given |= mrs.suggested_ranks([0], [[0, 0, 0]], set_size=1).keys()
        return given

    def has_texts(self, task: RetrievalTask) -> bool:
        return task.responses is not None

    def rows(self, task: RetrievalTask, shared: '_Vectors', check: base.Check) -> '_Vectors':
        check()
        return shared

    def summarise(self, task: RetrievalTask, rows: '_Vectors') -> tuple[base.Result, base.Lines]:
        name, records = task.prepared.name, task.records
        loss, ranks, best = rank(task, rows.messages[name], rows.replies[name])
        scores = {
            'loss': float(loss.mean()),
            'mrr': 100 * float((1 / ranks).mean()),
            'p_at_1': 100 * float((ranks == 1).mean()),
            'recall_10': 100 * float((ranks <= 10).mean()),
        }
        facts: dict[str, Any] = {'signatures': {}, 'decoding': {}}
        own = zip(loss.tolist(), ranks.tolist(), strict=True)
        per_example: list[dict[str, float]] = [{'loss': nats, 'rank': at} for nats, at in own]
        texts = list(task.replies)  # Without suggestions the best candidate is predicted.
        predicted: list[dict[str, Any]] = [{'prediction': texts[place]} for place in best]
        if task.responses:
            chosen, facts = self._suggest(task, task.responses, rows)
            of_set, set_ranks = self._ranks_in_set(task, task.responses.folder, rows, chosen)
            facts['responses']['gold_inside'] = len(set_ranks)
            scores = {**chosen.scores, **scores, **of_set}  # Metrics first, see Result.main_score.
            rows_of_set = zip(chosen.per_example, chosen.suggestions, strict=True)
            for i, (values, found) in enumerate(rows_of_set):
                per_example[i] |= values
                if i in set_ranks:
                    per_example[i]['set_rank'] = set_ranks[i]
                predicted[i] = {'prediction': found[0]['text'], 'suggestions': found}
        result = {
            'scores': scores,
            **facts,
            'num_examples': len(task.numbers),
            'dropped': task.batches.num_examples - len(task.numbers),
            'trimmed': task.batches.trimmed,
            'candidates': task.pools.shape[1],
        }
        rest = zip(task.numbers.tolist(), records, per_example, predicted, strict=True)
        return result, [
            base.line(number, record, scores=values, **more)
            for number, record, values, more in rest
        ]

    def begin(self, params: Params, check: base.Check) -> '_Vectors':
        """Encodes every text of all tasks once, in one call of each side.

        So batches are full, and the devices are fed without a break.
        """
        names = [task.prepared.name for task in self.tasks]
        messages = [[record['inputs'] for record in task.records] for task in self.tasks]
        replies = [list(task.replies.values()) for task in self.tasks]
        left, places = _each_once(messages)
        left_vectors = self._left(params, left, check) * np.float32(self._scale)
        right, of_replies = _each_once([*replies, *(one.ids for one in self._sets.values())])
        right_vectors = self._right(params, right, check)
        return _Vectors(
            {name: left_vectors[at] for name, at in zip(names, places, strict=True)},
            {name: right_vectors[at] for name, at in zip(names, of_replies, strict=False)},
            {
                folder: exact_search.index(right_vectors[at], mesh=self._mesh)
                for folder, at in zip(self._sets, of_replies[len(names) :], strict=True)
            },
        )

    def _suggest(
        self, task: RetrievalTask, prepared: Prepared, shared: '_Vectors'
    ) -> tuple['_Suggested', dict[str, Any]]:
        """Suggests responses to a task's messages; (at the best weight, facts of the result)."""
        options, responses = self.options, self._sets[prepared.folder]
        weights = options.lm_weights or (options.lm_weight,)
        tried = [self._at_weight(weight, task, prepared.folder, shared) for weight in weights]
        best = tried[0]
        if len(tried) > 1:  # Of equals the first.
            best = max(tried, key=lambda one: one.scores[_VALIDATION])
        decoding: dict[str, Json] = {
            'method': 'retrieval',
            'responses': len(responses),
            'top_k': options.top_k,
            'num_suggestions': options.num_suggestions,
            'lm_weight': best.lm_weight,
            'consensus': options.consensus,
        }
        if len(tried) > 1:
            decoding['lm_weights'] = {str(one.lm_weight): one.scores[_VALIDATION] for one in tried}
        return best, {
            'decoding': decoding,
            **task.metrics.facts(),
            'responses': {
                'task': prepared.name,
                'split': prepared.split,
                'manifest': prepared.sha256,
                'trimmed': sum(len(ids) > self._right.max_length for ids in responses.ids),
            },
        }

    def _at_weight(
        self, lm_weight: float, task: RetrievalTask, folder: str, shared: '_Vectors'
    ) -> '_Suggested':
        """Suggests with a weight of log-likelihoods, and scores the suggestions."""
        choose = self._chooser(folder, task.prepared.manifest['target_lang'])
        responses, messages = self._sets[folder], shared.messages[task.prepared.name]
        index = exact_search.with_bias(shared.sets[folder], lm_weight * responses.lm_scores)
        best = exact_search.top_k(messages, index, min(self.options.top_k, len(responses)))
        ids, suggestions = [], []
        for considered, values in zip(best.ids.tolist(), best.values, strict=True):
            scores = dict(zip(considered, values.tolist(), strict=True))
            ids.append(choose(considered, values, self.options.num_suggestions))
            suggestions.append(
                [{'text': responses.display[i], 'response': i, 'score': scores[i]} for i in ids[-1]]
            )
        n_best = [[suggestion['text'] for suggestion in row] for row in suggestions]
        scores, per_example = task.metrics.score(task.targets, n_best, _SCORES)
        return _Suggested(lm_weight, index, ids, suggestions, scores, per_example)

    def _ranks_in_set(
        self, task: RetrievalTask, folder: str, shared: '_Vectors', chosen: '_Suggested'
    ) -> tuple[dict[str, float], dict[int, int]]:
        """(scores, {place of an example: rank of its own reply}) of those that the set has."""
        responses = self._sets[folder]
        gold = mrs.gold_ids(responses.texts, task.targets)
        inside = np.flatnonzero(gold >= 0)
        if not inside.size:
            return {}, {}
        messages, known = shared.messages[task.prepared.name][inside], gold[inside].tolist()
        ranks = exact_search.ranks(messages, chosen.responses, known).tolist()
        three = [chosen.ids[i][:3] for i in inside]
        scores = mrs.ranks_in_set(ranks, known) | mrs.suggested_ranks(known, three, len(responses))
        return scores, dict(zip(inside.tolist(), ranks, strict=True))


class _Suggested(NamedTuple):
    """Suggestions for n messages at one weight of log-likelihoods."""

    lm_weight: float
    responses: exact_search.Index  # With that weight.
    ids: list[list[int]]  # Of each message, best first.
    suggestions: list[list[dict[str, Json]]]  # Likewise, as predictions.jsonl has them.
    scores: Mapping[str, float]  # Of the task's metrics.
    per_example: Sequence[Mapping[str, float]]  # Likewise, of each message.


class _Vectors(NamedTuple):
    """The vectors of all texts."""

    messages: dict[str, np.ndarray]  # By the task's name: [n, dim], times scale.
    replies: dict[str, np.ndarray]  # By the task's name: [replies, dim].
    sets: dict[str, exact_search.Index]  # The response sets, by folder.


def _each_once(lists: Sequence[Sequence[np.ndarray]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The different texts of lists of ids, in order, and each list's places [n] among them."""
    rows = {ids.tobytes(): ids for texts in lists for ids in texts}
    numbers = {content: number for number, content in enumerate(rows)}
    places = [np.array([numbers[ids.tobytes()] for ids in texts], np.int64) for texts in lists]
    return list(rows.values()), places
