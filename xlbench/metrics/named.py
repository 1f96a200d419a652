"""Metrics by the names that a command line gives them."""

from collections.abc import Callable

from xlbench import errors
from xlbench.errors import UserError
from xlbench.metrics.bleu import ChrF, ChrFPlusPlus, SacreBleu, Ter
from xlbench.metrics.classification import Classification
from xlbench.metrics.contract import Metric, Spec
from xlbench.metrics.distinct import Distinct
from xlbench.metrics.learned import BertScore, Bleurt
from xlbench.metrics.meteor import Meteor
from xlbench.metrics.meteor_nltk import MeteorNltk
from xlbench.metrics.mrs import MrsRouge, MrsValidationRouge
from xlbench.metrics.rouge import MeanRouge, MultilingualRouge
from xlbench.metrics.specs import to_spec
from xlbench.metrics.tagging import ChunkF1, TagAccuracy

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
    'meteor_nltk': MeteorNltk,
    'tag_accuracy': TagAccuracy,
    'mrs_validation_rouge': MrsValidationRouge,
}
NAMES = tuple(sorted({*_OF_LANGUAGE, *_OTHERS}))


def spec(name: str, lang: str | None) -> Spec:
    """The metric of a name, as manifests keep it.

    Args:
        name: Of `NAMES`.
        lang: ISO code of the texts, for metrics that cut them into words.

    Raises:
        UserError: An unknown name, or no language where one is needed.
    """
    if name in _OTHERS:
        return to_spec(_OTHERS[name]())
    if name not in _OF_LANGUAGE:
        raise errors.unknown('metric', name, NAMES)
    if not lang:
        raise UserError(f'metric {name} has to know the language of the texts; set --lang=de')
    return to_spec(_OF_LANGUAGE[name](lang))
