"""The metrics of a task together: one call scores with all of them, and no name is taken twice.

Command lines, configs and tables name them:

  meteor                    one of `NAMES`
  bertscore=FOLDER@9        with another encoder, and its layer (default: see BertScore.of_encoder)
  bleurt=FOLDER             with another checkpoint
  fitted_rating=FILE        of xlbench.annotate fit
  tasks/FILE.py:FUNCTION    a function of the user's own
"""

import dataclasses
import numbers
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from xlbench.metrics import specs
from xlbench.metrics.bleu import ChrF, ChrFPlusPlus, SacreBleu, Ter
from xlbench.metrics.classification import Classification
from xlbench.metrics.contract import Metric, Scored, Scores, Spec, Targets
from xlbench.metrics.distinct import Distinct
from xlbench.metrics.learned import BertScore, Bleurt
from xlbench.metrics.meteor import Meteor
from xlbench.metrics.mrs import MrsRouge, MrsValidationRouge
from xlbench.metrics.rouge import MeanRouge, MultilingualRouge
from xlbench.metrics.tagging import ChunkF1, TagAccuracy
from xlbench.system import errors
from xlbench.system.files import Json

# A metric that fails on two examples is tried on this many: some need every label, or rare words.
_MORE = 500


@dataclasses.dataclass
class _Member:
    """One metric of a task; its signature is filed under `label`, and messages have its `name`."""

    task: str
    metric: Metric
    spec: Spec  # As the task's manifest has it.
    suffix: str  # Stands behind the names of its scores.
    is_further: bool  # Not of the task's own.

    def __post_init__(self):
        self.source = self.spec['metric']
        self.label = self.source.rpartition(':')[2] + self.suffix
        self.name = f'metric {self.source} of task {self.task}'
        self.is_foreign = specs.is_foreign(self.spec)

    def run(self, targets: Targets, n_best: Sequence[Sequence[str]], rows: bool = True) -> Scored:
        """Scores a corpus; UserError if a metric that is not xlbench's ends with an error."""
        try:
            return score(self.metric, targets, n_best, self.name, rows)
        except errors.UserError:
            raise
        except (Exception, SystemExit) as error:
            if not self.is_foreign:
                raise
            raise errors.UserError(f'{self.name} ended with {errors.located(error)}') from error

    def signature(self, counts: Sequence[int]) -> str:
        """The signature for these numbers of references of the examples."""
        if max(counts) > 1 and hasattr(self.metric, 'signature_of'):
            return self.metric.signature_of(counts)
        signature = getattr(self.metric, 'signature', None)
        if isinstance(signature, str):
            return signature
        kwargs = specs.to_spec(self.metric)['kwargs']
        arguments = [f'{name}:{value}' for name, value in kwargs.items()]
        return '|'.join([self.source, *arguments, specs.fingerprint(self.metric)])


class Suite:
    """The metrics of a task, as evaluators use them.

    Of several metrics of one class or function the first one's scores have their plain names.
    Behind those of each further one stands what tells it from the first: bleu, and bleu_char of
    SacreBleu('char'); mrs_rouge, and mrs_rouge_nbest1 of MrsRouge('en', nbest=1).

    Args:
      task: its name, for messages.
      written: the metrics as the task's manifest has them; with `further`, an attribute, too.
      further: others, whose scores keep their plain names; one that is among `written` is left
        out.

    Attributes:
      metrics: in the order in which they score.
      num_predictions: of an example, the most that a metric takes; 1 or more.

    Raises:
      UserError: a metric cannot be loaded, may not be, or is there twice.
    """

    def __init__(self, task: str, written: Json, further: Sequence[Spec] = ()):
        self._task = task
        if not isinstance(written, list | tuple):
            raise errors.UserError(
                f'task {task}: its manifest has no list of metrics; prepare it again with --force'
            )
        try:
            loaded = [specs.from_spec(spec) for spec in written]
            others = [specs.from_spec(spec) for spec in further]
        except errors.UserError as error:
            raise errors.UserError(f'task {task}: {error}') from None
        own = [specs.to_spec(metric) for metric in loaded]
        rows = [(*row, False) for row in zip(loaded, written, _suffixes(task, own), strict=True)]
        rows += [
            (metric, spec, '', True)
            for metric, spec in zip(others, further, strict=True)
            if specs.to_spec(metric) not in own
        ]
        self._members = [_Member(task, *row) for row in rows]
        self.written = [member.spec for member in self._members]
        self.metrics = [member.metric for member in self._members]
        self.num_predictions = max(map(num_predictions, self.metrics), default=1)
        labels: dict[str, _Member] = {}
        for member in self._members:
            if labels.setdefault(member.label, member) is not member and member.is_further:
                raise errors.UserError(
                    f'task {task}: {member.signature([1])} would give the scores of '
                    f'{labels[member.label].signature([1])}; leave one of them out'
                )

    def facts(self, counts: Sequence[int] = (1,)) -> dict[str, Json]:
        """The entries of metrics.json about the metrics, for these numbers of references."""
        hashes = {'hashes': self.hashes} if self.hashes else {}
        return {'signatures': self.signatures(counts), **hashes, 'metrics': self.written}

    @property
    def hashes(self) -> dict[str, str]:
        """The version of the file that each further metric is defined in, by label."""
        return {m.label: specs.fingerprint(m.metric) for m in self._members if m.is_further}

    def require(self) -> None:
        """Raises UserError if a model or a table of a metric is not here, with what to type."""
        if lines := self.missing():
            raise errors.UserError(f'task {self._task}: {lines[0]}')

    def missing(self) -> list[str]:
        """Lists the missing needs of its metrics, a line each, with the command to type."""
        missing = (getattr(metric, 'missing', None) for metric in self.metrics)
        return [line for ask in missing if callable(ask) for line in ask()]

    def signatures(self, counts: Sequence[int] = (1,)) -> dict[str, str]:
        """The signature of each metric, for these numbers of references of the examples."""
        return {member.label: member.signature(counts) for member in self._members}

    @property
    def of_one_reference(self) -> list[str]:
        """The metrics that compare a prediction with one reference alone.

        The others have the attribute `several_references`, and take lists of texts as targets.
        """
        takes = 'several_references'
        return [m.label for m in self._members if not getattr(m.metric, takes, False)]

    def score(
        self, targets: Targets, n_best: Sequence[Sequence[str]], taken: Iterable[str] = ()
    ) -> Scored:
        """The scores of all metrics, of the corpus and of each example.

        `n_best` has the predictions of each target, best first, and `taken` names of scores that
        there are already. A metric that has one of them, or one of another metric, gets its label
        behind it. UserError if a metric that is not xlbench's ended with an error.
        """
        scores: Scores = {}
        examples: list[Scores] = [{} for _ in targets]
        for _, names, values, rows in self._scored(targets, n_best, taken):
            scores |= {names[name]: value for name, value in values.items()}
            for example, row in zip(examples, rows, strict=True):
                example.update({names[name]: value for name, value in row.items()})
        return scores, examples

    def function(
        self,
        score: str,
        targets: Targets,
        n_best: Sequence[Sequence[str]],
        taken: Iterable[str] = (),
    ) -> Callable[[Targets, Sequence[Sequence[str]]], float] | None:
        """Finds the function of targets and predictions that gives a score; None if nothing does.

        The score has its name from `score`, whose other arguments are those to try the metrics
        with. UserError, also from the function, if one that is not xlbench's ended with an error.
        """
        for member, names, values, _ in self._scored(targets, n_best, taken):
            for name in values:
                if names[name] == score:
                    return lambda t, p: member.run(t, p, rows=False)[0][name]
        return None

    def _scored(
        self, targets: Targets, n_best: Sequence[Sequence[str]], taken: Iterable[str]
    ) -> Iterator[tuple[_Member, dict[str, str], Scores, list[Scores]]]:
        """Each metric, what its scores are called here, and its scores under their own names."""
        used = set(taken)
        for member in self._members:
            values, rows = member.run(targets, n_best)
            names = {}
            for name in dict.fromkeys([*values, *(name for row in rows for name in row)]):
                full = f'{name}{member.suffix}'
                names[name] = f'{full}_{member.label}' if full in used else full
            used |= set(names.values())
            yield member, names, values, rows

    def check(
        self,
        read: Callable[[int], Sequence[str]],
        num_predictions: int,
        taken: Iterable[str] = (),
        any_text: bool = False,
    ) -> None:
        """Scores two examples, so that an error is met before a run and not behind it.

        Args:
          read: number of examples -> references of at most this number.
          num_predictions: how many predictions of an example there will be.
          taken: names of scores that the evaluation itself has.
          any_text: also calls metrics that are not xlbench's with an empty and a meaningless text,
            as an untrained model gives them.

        Raises:
          UserError: a metric ended with an error or lacks something; or two give one score.
        """
        self.require()
        used = dict.fromkeys(taken, 'the evaluation itself')
        for member in self._members:
            for name in self._check(member, read, num_predictions, any_text):
                if (full := f'{name}{member.suffix}') in used:
                    raise errors.UserError(
                        f'{member.name} gives the score {full!r}, and so does {used[full]}; give '
                        'it another name'
                    )
                used[full] = member.source

    def _check(
        self, member: _Member, read: Callable[[int], Sequence[str]], count: int, any_text: bool
    ) -> Scores:
        scores: Scores = {}
        for size in (2, _MORE):
            targets = read(size)
            # A right prediction, then others that are as good as any.
            n_best = [
                [targets[(i + j) % len(targets)] for j in range(count)] for i in range(len(targets))
            ]
            try:
                scores, rows = member.run(targets, n_best)
                if scores or any(rows):
                    break
                if size == _MORE and member.is_foreign:
                    raise errors.UserError(
                        f'{member.name} gives no score; it has to return a dictionary of numbers, '
                        "such as {'length': 12.5}"
                    )
            except errors.UserError as error:
                if size == _MORE:
                    raise errors.UserError(
                        str(error) if member.is_foreign else f'task {self._task}: {error}'
                    ) from error
            except Exception as error:  # A metric of ours, with arguments of the wrong kind.
                kwargs = specs.to_spec(member.metric)['kwargs']
                raise errors.UserError(
                    f'{member.name} cannot score with these arguments, {kwargs}: '
                    f'{errors.located(error)}'
                ) from error
        if any_text and member.is_foreign:
            targets = read(2)
            texts = ['', '?!'][: len(targets)]
            try:
                member.run(targets, [[text] * count for text in texts])
            except errors.UserError as error:
                raise errors.UserError(
                    f'{error}; the predictions were {" and ".join(map(repr, texts))}, and a model '
                    'that has not learnt much may write anything'
                ) from error
        return scores


def num_predictions(metric: Metric) -> int:
    """The number of predictions of an example that a metric takes; 1 by default."""
    return getattr(getattr(metric, 'func', metric), 'num_predictions', 1)


def score(
    metric: Metric,
    targets: Targets,
    n_best: Sequence[Sequence[str]],
    name: str = 'the metric',
    rows: bool = True,
) -> Scored:
    """The scores of a corpus, and of each example.

    The metric's `per_example(targets, predictions)`, a dictionary for each example, is used if it
    is there, and so is `with_examples`, which gives both at once.

    Args:
      metric: any metric.
      targets: references.
      n_best: for each target the predictions, best first. A metric of one prediction gets the
        first, or an empty text where there is none.
      name: of the metric, for messages.
      rows: whether the examples are scored, too; without, they have no scores.
    """
    count = num_predictions(metric)
    if count > 1:
        predictions: list[Any] = [list(texts[:count]) for texts in n_best]
    else:
        predictions = [texts[0] if texts else '' for texts in n_best]
    if rows and hasattr(metric, 'with_examples'):
        scores, of_each = metric.with_examples(targets, predictions)
    else:
        # Copies, which it may sort or empty: others read the texts after it.
        scores = metric(list(targets), list(predictions))
        per_example = getattr(metric, 'per_example', None) if rows else None
        of_each = per_example(targets, predictions) if per_example else [{} for _ in targets]
    if len(of_each) != len(targets):
        raise errors.UserError(f'{name} scores {len(of_each)} of {len(targets)} examples')
    return _numbers(scores, name), [_numbers(row, name) for row in of_each]


def _numbers(values: Mapping[str, Any], name: str) -> Scores:
    """Scores as floats, also those that are arrays of one number or SeqIO's Scalar."""
    if not isinstance(values, Mapping):
        raise errors.UserError(
            f'{name} returns {type(values).__name__}; it has to return a dictionary of numbers, '
            "such as {'length': 12.5}"
        )
    scores = {}
    for key, given in values.items():
        value: Any = getattr(given, 'value', given)
        value = value.item() if getattr(value, 'size', None) == 1 else value
        if not isinstance(key, str):
            raise errors.UserError(
                f'{name} gives a score the name {key!r}; a name is a text, such as {str(key)!r}'
            )
        if not isinstance(value, numbers.Real):
            raise errors.UserError(f'{name} gives {key!r}: {value!r}, which is not a number')
        scores[key] = float(value)
    return scores


def _suffixes(task: str, written: Sequence[Spec]) -> list[str]:
    """Chooses what stands behind the names of each metric's scores; see `Suite`."""
    firsts: dict[str, Mapping[str, Json]] = {}
    suffixes, seen = [], set()
    for spec in written:
        path, kwargs = spec['metric'], spec['kwargs']
        first = firsts.setdefault(path, kwargs)
        names = [name for name in {**first, **kwargs} if first.get(name) != kwargs.get(name)]
        suffix = ''.join(f'_{_word(name, kwargs.get(name))}' for name in names)
        if (path, suffix) in seen:
            raise errors.UserError(
                f'task {task} has the metric {path} twice, with {kwargs}; take one of them out'
            )
        seen.add((path, suffix))
        suffixes.append(suffix)
    return suffixes


def _word(name: str, value: Json) -> str:
    """An argument as a part of a name: 'char' for tokenize='char', nbest1 for nbest=1."""
    if value is True:
        return name
    if value is False or value is None:
        return f'no_{name}'
    text = re.sub(r'\W+', '_', str(value)).strip('_')
    return text if isinstance(value, str) else f'{name}{text}'


# Of texts in a language, and of anything.
_OF_LANGUAGE: dict[str, Callable[[str], Metric]] = {
    'multilingual_rouge': MultilingualRouge,
    'mean_rouge': MeanRouge,
    'sacrebleu': SacreBleu.for_language,
    'distinct': Distinct.for_language,
    'bertscore': BertScore,
    'bertscore_clidsum': BertScore.clidsum,
    'meteor': Meteor.for_language,
    'meteor_exact_stem': Meteor.without_tables,
    'mrs_rouge': MrsRouge,
    'ter': Ter.for_language,
}
_OTHERS: dict[str, Callable[..., Metric]] = {
    'bleurt': Bleurt,
    'chrf': ChrF,
    'chrf++': ChrFPlusPlus,
    'classification': Classification,
    'chunk_f1': ChunkF1,
    'tag_accuracy': TagAccuracy,
    'mrs_validation_rouge': MrsValidationRouge,
}
NAMES = tuple(sorted({*_OF_LANGUAGE, *_OTHERS}))
_WITH_VALUE = ('bertscore', 'bleurt', 'fitted_rating')


def named(name: str, lang: str | None) -> Spec:
    """The metric of a name at the head of this file, as manifests keep it.

    UserError for an unknown name, or where it needs the texts' language (an ISO code) and has none.
    """
    base, value = check_name(name)
    if ':' in base:
        return {'metric': name, 'kwargs': {}}
    if base in _OTHERS:
        return specs.to_spec(_OTHERS[base](*filter(None, [value])))
    if base == 'bertscore' and value:
        model, at, layer = value.rpartition('@')
        known = (model, int(layer)) if at and layer.isdecimal() else (value, -1)
        return specs.to_spec(BertScore.of_encoder(known[0], lang or '', known[1]))
    if not lang:
        raise errors.UserError(f'metric {base} has to know the language of the texts: set --lang')
    if base == 'fitted_rating':  # Its class takes metrics by these names, and so is not here.
        kwargs = {'path': value, 'lang': lang}
        return {'metric': 'xlbench.metrics.fitted_rating:FittedRating', 'kwargs': kwargs}
    return specs.to_spec(_OF_LANGUAGE[base](lang))


def check_name(name: str) -> tuple[str, str]:
    """Splits a name at its =; UserError for one that is not at the head of this file."""
    base, equals, value = name.partition('=')
    if ':' in base:
        return name, ''
    if base not in (*NAMES, 'fitted_rating'):
        raise errors.unknown('metric', base, (*NAMES, 'fitted_rating=FILE'))
    if equals and (not value or base not in _WITH_VALUE):
        raise errors.UserError(f'metric {name}: only {", ".join(_WITH_VALUE)} take a =VALUE')
    if base == 'fitted_rating' and not value:
        raise errors.UserError(
            'metric fitted_rating takes a file of xlbench.annotate fit: fitted_rating=rating.json'
        )
    if base == 'fitted_rating':
        from xlbench.metrics import fitted_rating  # Which itself takes metrics by name.

        fitted_rating.load(value)
    return base, value
