"""Metrics by the names that a command line, a config or a table gives them.

  meteor                    one of `NAMES`
  bertscore=FOLDER@9        with another encoder, and its layer (default: see BertScore.of_encoder)
  bleurt=FOLDER             with another checkpoint
  fitted_rating=FILE        of xlbench.annotate fit
  tasks/FILE.py:FUNCTION    a function of the user's own
"""

from collections.abc import Callable, Iterable

from xlbench.metrics.bleu import ChrF, ChrFPlusPlus, SacreBleu, Ter
from xlbench.metrics.classification import Classification
from xlbench.metrics.contract import Metric, Spec
from xlbench.metrics.distinct import Distinct
from xlbench.metrics.learned import BertScore, Bleurt
from xlbench.metrics.meteor import Meteor
from xlbench.metrics.mrs import MrsRouge, MrsValidationRouge
from xlbench.metrics.rouge import MeanRouge, MultilingualRouge
from xlbench.metrics.specs import to_spec
from xlbench.metrics.tagging import ChunkF1, TagAccuracy
from xlbench.system import errors
from xlbench.system.errors import UserError

# Of texts in a language, and of anything.
_OF_LANGUAGE: dict[str, Callable[[str], Metric]] = {
    'multilingual_rouge': MultilingualRouge,
    'mean_rouge': MeanRouge,
    'sacrebleu': SacreBleu.for_language,
    'distinct': Distinct.for_language,
    'bertscore': BertScore,
    'bertscore_clidsum': BertScore.clidsum,
    'meteor': Meteor,
    'meteor_exact_stem': Meteor.without_tables,
    'mrs_rouge': MrsRouge,
    'ter': Ter.for_language,
}
_OTHERS: dict[str, Callable[[], Metric]] = {
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


def spec(name: str, lang: str | None) -> Spec:
    """Returns the metric of a name, as manifests keep it.

    Args:
        name: See the module's docstring.
        lang: ISO code of the texts, for metrics that cut them into words.

    Raises:
        UserError: An unknown name, or no language where one is needed.
    """
    base, _, value = check(name)
    if ':' in base:
        return {'metric': name, 'kwargs': {}}
    if base == 'bleurt' and value:
        return to_spec(Bleurt(value))
    if base in _OTHERS:
        return to_spec(_OTHERS[base]())
    if base == 'bertscore' and value:
        model, at, layer = value.rpartition('@')
        known = (model, int(layer)) if at and layer.isdecimal() else (value, -1)
        return to_spec(BertScore.of_encoder(known[0], lang or '', known[1]))
    if not lang:
        raise UserError(f'metric {base} has to know the language of the texts; set --lang=de')
    if base == 'fitted_rating':  # Its class takes metrics by these names, and so is not here.
        kwargs = {'path': value, 'lang': lang}
        return {'metric': 'xlbench.metrics.fitted_rating:FittedRating', 'kwargs': kwargs}
    return to_spec(_OF_LANGUAGE[base](lang))


def check(name: str) -> tuple[str, str, str]:
    """Splits a name at its =, or raises UserError for one that is not in the docstring above."""
    base, equals, value = name.partition('=')
    if ':' in base:
        return name, '', ''
    if base not in (*NAMES, 'fitted_rating'):
        raise errors.unknown('metric', base, (*NAMES, 'fitted_rating=FILE'))
    if equals and (not value or base not in _WITH_VALUE):
        raise UserError(f'metric {name}: only {", ".join(_WITH_VALUE)} take a =VALUE')
    if base == 'fitted_rating' and not value:
        raise UserError(
            'metric fitted_rating takes a file of xlbench.annotate fit: fitted_rating=rating.json'
        )
    if base == 'fitted_rating':
        from xlbench.metrics import fitted_rating  # Which itself takes metrics by name.

        fitted_rating.load(value)
    return base, equals, value


def specs(names: Iterable[str], lang: str | None) -> list[Spec]:
    """Returns the metrics of several names; see `spec`."""
    return [spec(name, lang) for name in names]
