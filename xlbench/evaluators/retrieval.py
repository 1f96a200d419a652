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
from collections.abc import Sequence
from typing import Annotated, ClassVar, NamedTuple

import flax.linen as nn
import numpy as np
from jax.sharding import Mesh
from msgspec import Meta

from xlbench import metrics
from xlbench.data import features
from xlbench.data.prepared import Prepared
from xlbench.data.tokenizers import Tokenizer
from xlbench.evaluators import base
from xlbench.evaluators.candidates import RetrievalTask, Rows, Suggested, rank
from xlbench.metrics import ranking
from xlbench.metrics.contract import Spec
from xlbench.retrieval import exact_search
from xlbench.retrieval.response_set import Choose, ResponseSet, chooser
from xlbench.retrieval.text_encoder import TextEncoder
from xlbench.system.errors import UserError
from xlbench.system.files import Json, Setting
from xlbench.training.objectives.retrieval import Retrieval
from xlbench.trees import Params

# The evaluation's own, of a task or of an example.
_SCORES = (
    'loss', 'mrr', 'p_at_1', 'recall_10', 'rank', 'set_rank', 'set_mrr', 'set_p_at_1',
    'set_macro_mrr', 'mrr_code', 'p_at_3_code', 'macro_mrr_code', 'mrr_f1_code',
)  # fmt: skip
_VALIDATION = 'mrs_validation_rouge'  # Chooses among `lm_weights`.


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
        """The official score of validation, where it is asked for."""
        del task
        return [metrics.to_spec(metrics.MrsValidationRouge())] if self.validation_rouge else []


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

    Args:
      prepared: the tasks, of one split.
      model: a dual encoder.
      objective: has the `scale` of the scores.
      mesh: where it runs.
      tokenizer: not needed: what is prepared has texts and ids.
      responses: for each task the preparation whose replies are its response set; None: no set.
      **block: see `Options`.
    """

    views: ClassVar[tuple[str, ...]] = ('retrieval',)
    own_scores = ('loss', 'mrr', 'p_at_1', 'recall_10')

    def __init__(
        self,
        prepared: Sequence[Prepared],
        model: nn.Module,
        objective: Retrieval,
        mesh: Mesh,
        tokenizer: Tokenizer | None,
        *,
        responses: Sequence[Prepared] | None = None,
        **block: Setting,
    ):
        del tokenizer
        options = self._options = Options(**block)
        if options.validation_rouge and not responses:
            raise UserError(
                'validation_rouge needs suggestions from a response set, but there is none; set '
                "responses='responses', or validation_rouge to False"
            )
        lengths = options.lengths
        self._mesh, self._scale = mesh, objective.scale
        self._choosers: dict[tuple[str, str | None], Choose] = {}
        tasks = base.tasks_of(prepared, 'retrieval', mesh, options, options.further_metrics)
        candidates, official = options.candidates, lengths if options.official_filter else None
        none: list[Prepared | None] = [None] * len(tasks)
        self.tasks = [
            RetrievalTask(task.prepared, task.batches, task.metrics, of_task, candidates, official)
            for task, of_task in zip(tasks, responses or none, strict=True)
        ]
        for task in self.tasks:
            if task.responses:
                base.check_metrics(task, options.num_suggestions, _SCORES)
        self._left, self._right = (
            TextEncoder(
                model,
                mesh,
                side,
                batch_size=options.batch_size,
                max_length=lengths[name],
                conventions=features.Conventions.of(prepared[0].manifest),
            )
            for side, name in (('left', 'inputs'), ('right', 'targets'))
        )

    @functools.cached_property
    def _sets(self) -> dict[str, ResponseSet]:
        """The response sets by folder: what several tasks share stands here once."""
        prepared = {task.responses.folder: task.responses for task in self.tasks if task.responses}
        return {folder: ResponseSet.of_prepared(task) for folder, task in prepared.items()}

    def _chooser(self, folder: str, lang: str | None) -> Choose:
        """Returns the chooser of a set; it is kept, because it may split all texts into words."""
        key = folder, lang
        if key not in self._choosers:
            self._choosers[key] = chooser(self._sets[folder], lang, self._options.consensus)
        return self._choosers[key]

    def score_names(self, task: str) -> set[str]:
        """Names the scores of metrics, and of ranks among candidates and in the response set."""
        given = super().score_names(task)
        if given and self._sets:
            given |= ranking.textbook([1], [0]).keys()
            given |= ranking.official([0], [[0, 0, 0]], set_size=1).keys()
        return given

    def has_texts(self, task: RetrievalTask) -> bool:
        """Returns whether the task has a response set."""
        return task.responses is not None

    def numbers(self, task: RetrievalTask) -> Sequence[int]:
        """The numbers of the examples that are scored."""
        return task.numbers.tolist()

    def rows(self, task: RetrievalTask, shared: '_Vectors', check: base.Check) -> '_Vectors':
        """The vectors of all tasks, which `begin` has made."""
        check()
        return shared

    def summarise(self, task: RetrievalTask, shared: '_Vectors') -> tuple[base.Result, base.Lines]:
        """Ranks among the candidates and in the response set, and scores of suggestions."""
        name = task.prepared.name
        rows = Rows(task, *rank(task, shared.messages[name], shared.replies[name]))
        facts: dict[str, Json] = {'signatures': {}, 'decoding': {}}
        if task.responses:
            facts = self._suggest(task, task.responses, shared, rows)
        result = {
            'scores': rows.scores,
            **facts,
            'num_examples': len(task.numbers),
            'dropped': task.dropped,
            'trimmed': task.batches.trimmed,
            'candidates': task.pools.shape[1],
        }
        return result, rows.written()

    def begin(self, params: Params, check: base.Check) -> '_Vectors':
        """Every text of all tasks is encoded once, in one call of each side.

        So what several tasks or sets share is shared, batches are full, and the devices are fed
        without a break.
        """
        left, right = _Texts(), _Texts()
        messages = [left.add([record['inputs'] for record in task.records]) for task in self.tasks]
        replies = [right.add(list(task.replies.values())) for task in self.tasks]
        sets = {folder: right.add(responses.ids) for folder, responses in self._sets.items()}
        left_vectors = self._left(params, left.rows, check) * np.float32(self._scale)
        right_vectors = self._right(params, right.rows, check)
        names = [task.prepared.name for task in self.tasks]
        return _Vectors(
            {name: left_vectors[at] for name, at in zip(names, messages, strict=True)},
            {name: right_vectors[at] for name, at in zip(names, replies, strict=True)},
            {
                folder: exact_search.index(right_vectors[at], mesh=self._mesh)
                for folder, at in sets.items()
            },
        )

    def _suggest(
        self, task: RetrievalTask, prepared: Prepared, shared: '_Vectors', rows: Rows
    ) -> dict[str, Json]:
        """Suggests responses to a task's messages, and adds to the rows; facts of the result."""
        messages = shared.messages[task.prepared.name]
        responses, index = self._sets[prepared.folder], shared.sets[prepared.folder]
        tried = [
            self._at_weight(weight, task, prepared.folder, messages, index, rows.targets)
            for weight in self._options.lm_weights or (self._options.lm_weight,)
        ]
        best = tried[0]
        if len(tried) > 1:  # Of equals the first.
            best = max(tried, key=lambda one: one.scores[_VALIDATION])
        rows.suggestions = best.suggestions
        rows.scores = {**best.scores, **rows.scores}  # Metrics first, see Result.main_score.
        rows.add(best.per_example)
        gold = ranking.gold_ids(responses.texts, rows.targets)
        inside = np.flatnonzero(gold >= 0)
        if inside.size:
            ranks = exact_search.ranks(messages[inside], best.responses, gold[inside])
            three = [best.ids[i][:3] for i in inside]
            known = gold[inside].tolist()
            rows.scores |= ranking.textbook(ranks.tolist(), known)
            rows.scores |= ranking.official(known, three, len(responses))
            rows.note('set_rank', ranks, inside)
        return {
            'decoding': self._decoding(best, tried, len(responses)),
            **task.metrics.facts(),
            'responses': {
                'task': prepared.name,
                'split': prepared.split,
                'manifest': prepared.sha256,
                'trimmed': sum(len(ids) > self._right.max_length for ids in responses.ids),
                'gold_inside': len(inside),
            },
        }

    def _at_weight(
        self,
        lm_weight: float,
        task: RetrievalTask,
        folder: str,
        messages: np.ndarray,
        index: exact_search.Index,
        targets: Sequence[str],
    ) -> Suggested:
        """Suggests with a weight of log-likelihoods, and scores the suggestions."""
        choose = self._chooser(folder, task.prepared.manifest['target_lang'])
        responses = self._sets[folder]
        index = exact_search.with_bias(index, lm_weight * responses.lm_scores)
        best = exact_search.top_k(messages, index, min(self._options.top_k, len(responses)))
        ids, suggestions = [], []
        for considered, values in zip(best.ids.tolist(), best.values, strict=True):
            scores = dict(zip(considered, values.tolist(), strict=True))
            ids.append(choose(considered, values, self._options.num_suggestions))
            suggestions.append(
                [{'text': responses.display[i], 'response': i, 'score': scores[i]} for i in ids[-1]]
            )
        n_best = [[suggestion['text'] for suggestion in row] for row in suggestions]
        scores, per_example = task.metrics.score(targets, n_best, _SCORES)
        return Suggested(lm_weight, index, ids, suggestions, scores, per_example)

    def _decoding(self, best: Suggested, tried: Sequence[Suggested], size: int) -> dict[str, Json]:
        """Says in metrics.json how responses of a set were suggested; `best` was chosen."""
        decoding: dict[str, Json] = {
            'method': 'retrieval',
            'responses': size,
            'top_k': self._options.top_k,
            'num_suggestions': self._options.num_suggestions,
            'lm_weight': best.lm_weight,
            'consensus': self._options.consensus,
        }
        if len(tried) > 1:
            decoding['lm_weights'] = {str(one.lm_weight): one.scores[_VALIDATION] for one in tried}
        return decoding


class _Vectors(NamedTuple):
    """The vectors of all texts.

    Attributes:
      messages: of each task, by its name: [n, dim], times scale.
      replies: of each task, by its name: [replies, dim].
      sets: the response sets, by folder.
    """

    messages: dict[str, np.ndarray]
    replies: dict[str, np.ndarray]
    sets: dict[str, exact_search.Index]


class _Texts:
    """Texts as ids, each once: `rows` are the different ones, in the order of first sight."""

    def __init__(self):
        self.rows: list[np.ndarray] = []
        self._places: dict[bytes, int] = {}

    def add(self, texts: Sequence[np.ndarray]) -> np.ndarray:
        """The places [len(texts)] of these texts in `rows`."""
        places = np.empty(len(texts), np.int64)
        for i, ids in enumerate(texts):
            places[i] = self._places.setdefault(ids.tobytes(), len(self.rows))
            if places[i] == len(self.rows):
                self.rows.append(ids)
        return places
