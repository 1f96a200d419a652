"""BERTScore (arXiv:1904.09675), equal to the package bert-score 0.3.13 with transformers 4.

Each token of a text is compared with the most similar one of the other text, by the cosine of their
vectors in some layer of an encoder. The vectors come from our own encoders.
"""

import collections
import csv
import dataclasses
import functools
import importlib.util
import math
import pathlib
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import xlbench
from xlbench.metrics import contract
from xlbench.metrics.contract import Scored, Targets
from xlbench.metrics.learned import weights
from xlbench.system import errors, files

if TYPE_CHECKING:
    from xlbench.metrics.learned.token_vectors import TokenEncoder

# bert_score/utils.py, lang2model; every other language has the multilingual one.
_MODELS = {
    'en': 'roberta-large',
    'zh': 'bert-base-chinese',
    'tr': 'dbmdz/bert-base-turkish-cased',
    'en-sci': 'allenai/scibert_scivocab_uncased',
}
_MULTILINGUAL = 'bert-base-multilingual-cased'
# bert_score/utils.py, model2layers: of the models that are one of our encoders.
_LAYERS = {
    'bert-base-uncased': 9, 'bert-large-uncased': 18, 'bert-base-cased': 9, 'bert-large-cased': 18,
    'bert-base-cased-finetuned-mrpc': 9, 'bert-base-multilingual-cased': 9, 'bert-base-chinese': 8,
    'roberta-base': 10, 'roberta-large': 17, 'roberta-large-mnli': 19,
    'xlm-roberta-base': 9, 'xlm-roberta-large': 17, 'distilroberta-base': 5,
    'allenai/scibert_scivocab_uncased': 8, 'dbmdz/bert-base-turkish-cased': 10,
}  # fmt: skip
# krystalan/ClidSum: evaluation, `--num_layers 8`.
_CLIDSUM = {'zh': 'hfl/chinese-bert-wwm-ext', 'de': 'dbmdz/bert-base-german-uncased'}
_SIZES = {'roberta-large': '1.4 GB', _MULTILINGUAL: '0.7 GB'}
_PACKAGE = 'bert_score'
# The package's version, which its hash has wrong, and the transformers whose numbers are ours.
_VERSIONS = 'version=0.3.12(hug_trans=none)', 'equals:bert-score-0.3.13+transformers-4.46.3'


class Prf(NamedTuple):
    """Precision, recall and F1, [texts] each, as the package returns them."""

    precision: np.ndarray
    recall: np.ndarray
    f1: np.ndarray


@dataclasses.dataclass(frozen=True)
class BertScore(contract.OfTexts):
    """BERTScore, 0 to 100 where it is not rescaled: precision, recall and F1, means over texts.

    A target may be several references; the best precision, recall and F1 count, each for itself.
    """

    lang: str = ''  # ISO code of the texts, or en-sci; it decides the model and the baseline.
    model: str = ''  # A folder, or a name of the hub; '' is the package's for the language.
    layer: int = -1  # Of the vectors; 0 are the embeddings, -1 the package's for the model.
    idf: bool = False  # Rare tokens of the references weigh more.
    rescale: bool = False  # The baseline, by default one of the package, becomes 0.
    baseline: str = ''  # A table with a row a layer: layer, precision, recall, F1.
    lowercase: bool = False  # As ClidSum has texts.
    # The package's, which decides a few scores: in a batch it pads with similarities of 0, so that
    # a token that is unlike all others counts as 0 and not below, but for those beside the longest
    # text. 1 compares each pair for itself. How texts are really encoded does not depend on it.
    batch_size: int = 64

    def __post_init__(self):
        if not self.lang and not self.model:
            raise errors.UserError('BERTScore takes a lang, such as de, or a model')
        if self.layer < -1:
            raise errors.UserError(f'layer={self.layer}; 0 or more is allowed, or -1')
        if self.layer == -1 and self._model not in _LAYERS:
            raise errors.UserError(
                f'BERTScore has no usual layer of {self._model}; say which, such as layer=8'
            )
        if self.batch_size < 1:
            raise errors.UserError(f'batch_size={self.batch_size}; 1 or more is allowed')
        if self.rescale and not self.baseline and not self.lang:
            raise errors.UserError('the baselines of BERTScore are of a language; set lang, too')

    @classmethod
    def clidsum(cls, lang: str) -> 'BertScore':
        """Builds ClidSum's form: its models for Chinese and German, layer 8, lower case."""
        errors.check_known('language of ClidSum', lang, _CLIDSUM)
        return cls(lang, model=_CLIDSUM[lang], layer=8, lowercase=True)

    @classmethod
    def of_encoder(cls, model: str, lang: str = '', layer: int = -1) -> 'BertScore':
        """BERTScore by any encoder, whether or not the package knows it.

        Layer -1 is the package's for the model, or else three quarters of its layers, as 9 of 12;
        UserError if it has to be found for a model that is not here.
        """
        if layer == -1 and model not in _LAYERS:
            config = files.read_json(weights.folder(model) / 'config.json', dict)
            number = config.get('num_hidden_layers')
            if not isinstance(number, int):
                raise errors.UserError(f'{model} does not say its num_hidden_layers; give a layer')
            layer = 3 * number // 4
        return cls(lang, model, layer)

    @property
    def signature(self) -> str:
        """Gives bert_score's hash, the versions it equals, and the changes made to texts."""
        path = pathlib.Path(self._model).expanduser()
        name = path.name if path.is_dir() else self._model
        version, equals = _VERSIONS
        parts = f'{name}_L{self._layer}_{"idf" if self.idf else "no-idf"}_{version}'
        if self.rescale or self.baseline:
            parts += '-custom-rescaled' if self.baseline else '-rescaled'
        case = 'lc' if self.lowercase else 'mixed'
        return f'{parts}|case:{case}|batch:{self.batch_size}|{equals}|xlbench-{xlbench.__version__}'

    def missing(self) -> list[str]:
        lines = weights.missing('BERTScore', self._model, _SIZES.get(self._model, '0.4 GB'))
        if (self.rescale or self.baseline) and not self._baseline_file.is_file():
            if self.baseline:
                lines.append(f'BERTScore: there is no baseline file {self.baseline}')
            elif importlib.util.find_spec(_PACKAGE) is None:
                lines.append(
                    'BERTScore needs the table of baselines of bert-score: pip install --no-deps '
                    'bert-score==0.3.13; or name one with baseline'
                )
            else:
                lines.append(
                    f'bert-score has no baseline of {self._model} for {self.lang}; name a file '
                    'with baseline, or leave rescale out'
                )
        return lines

    def with_examples(self, targets: Targets, predictions: Sequence[str]) -> Scored:
        """Means over the texts and those of each; no F1 is computed from other means."""
        values = self.values(targets, predictions)
        rows = [
            {'bertscore': 100 * f1, 'bertscore_precision': 100 * p, 'bertscore_recall': 100 * r}
            for p, r, f1 in zip(*(column.tolist() for column in values), strict=True)
        ]
        return contract.mean(rows), rows

    def values(self, targets: Targets, predictions: Sequence[str]) -> Prf:
        """Precision, recall and F1 of each text, as the package returns them."""
        rows = self.references(targets, predictions)
        encoder = _encoder(str(weights.folder(self._model)), self._layer)
        owners = [i for i, row in enumerate(rows) for _ in row]
        given = [text for row in rows for text in row]
        if self.lowercase:
            given, predictions = ([t.lower() for t in texts] for texts in (given, predictions))
        references, candidates = encoder.ids(given), encoder.ids(predictions)
        scale = _weights(references if self.idf else None, encoder.special)
        found = np.full((3, len(rows)), -math.inf)
        padded = self._padded([candidates[i] for i in owners]), self._padded(references)
        jobs = [(candidates[i], reference) for i, reference in zip(owners, references, strict=True)]
        for place, vectors, other_vectors in encoder.pairs(jobs):
            candidate, reference = jobs[place]
            floors = [0.0 if side[place] else -1.0 for side in padded]
            one = _match(vectors, other_vectors, scale(candidate), scale(reference), floors)
            best = found[:, owners[place]]
            np.fmax(best, one, out=best, where=~np.isnan(one))
            if np.isnan(one).any():
                best[np.isnan(one) & np.isinf(best)] = math.nan
        if np.isnan(found).any():
            warnings.warn(
                'BERTScore is undefined for some texts: with idf, no token of theirs weighs '
                'anything, as where there is one reference in all',
                stacklevel=2,
            )
        if self.rescale or self.baseline:
            base = self._read_baseline()[:, None]
            found = (found - base) / (1 - base)
        return Prf(*found)

    def _padded(self, texts: Sequence[np.ndarray]) -> list[bool]:
        """Returns whether each text is shorter than the longest of its batch in the package."""
        size, lengths = self.batch_size, [len(text) for text in texts]
        longest = [max(lengths[i : i + size]) for i in range(0, len(lengths), size)]
        return [length < longest[i // size] for i, length in enumerate(lengths)]

    @property
    def _model(self) -> str:
        return self.model or _MODELS.get(self.lang, _MULTILINGUAL)

    @property
    def _layer(self) -> int:
        return _LAYERS[self._model] if self.layer == -1 else self.layer

    @property
    def _baseline_file(self) -> pathlib.Path:
        if self.baseline:
            return pathlib.Path(self.baseline).expanduser()
        spec = importlib.util.find_spec(_PACKAGE)
        [folder] = (spec.submodule_search_locations if spec else None) or ['']
        return pathlib.Path(folder) / 'rescale_baseline' / self.lang / f'{self._model}.tsv'

    def _read_baseline(self) -> np.ndarray:
        """[3]: the row of the layer."""
        path = self._baseline_file
        try:
            with open(path, encoding='utf-8', newline='') as file:
                _, *rows = csv.reader(file, delimiter='\t' if path.suffix == '.tsv' else ',')
                if rows and len(rows[0]) == 1:  # The package's tables have commas, too.
                    rows = [row[0].split(',') for row in rows]
            table = {int(float(row[0])): np.array([*map(float, row[1:4])]) for row in rows}
            base = table[self._layer]
        except (OSError, ValueError, KeyError, IndexError, csv.Error) as error:
            raise errors.UserError(
                f'{path} has no baseline of layer {self._layer}: a header, then a line a layer '
                f'with layer, precision, recall and F1 ({error})'
            ) from None
        if base.shape != (3,) or not np.isfinite(base).all() or (base >= 1).any():
            raise errors.UserError(f'{path}: the baseline of layer {self._layer} is not below 1')
        return base


def _weights(
    references: Sequence[np.ndarray] | None, special: Sequence[int | None]
) -> Callable[[np.ndarray], np.ndarray]:
    """Ids of a text [length] -> the weights of its tokens [length]: 1, or idf in `references`.

    The ids of `special` weigh nothing; with idf they are in every reference, or count as others.
    """
    if references is None:
        return lambda ids: (~np.isin(ids, np.array(special))).astype(np.float32)
    count = len(references)
    seen = collections.Counter(i for ids in references for i in set(ids.tolist()))
    idf = {i: math.log((count + 1) / (n + 1)) for i, n in seen.items()}
    unseen = math.log(count + 1)
    return lambda ids: np.array([idf.get(i, unseen) for i in ids.tolist()], np.float32)


def _match(
    candidate: np.ndarray,
    reference: np.ndarray,
    weights: np.ndarray,
    other_weights: np.ndarray,
    floors: Sequence[float],  # Least similarity of recall and precision: 0 beside padding, else -1.
) -> np.ndarray:
    """[precision, recall, F1] of two texts, whose vectors [length, dim] have norm 1."""
    if len(candidate) == 2 or len(reference) == 2:  # Nothing but special tokens.
        return np.zeros(3)
    similarity = candidate @ reference.T
    floor, other_floor = floors
    with np.errstate(invalid='ignore', divide='ignore'):
        precision = np.maximum(similarity.max(1), other_floor) @ weights / weights.sum()
        recall = np.maximum(similarity.max(0), floor) @ other_weights / other_weights.sum()
        f1 = 2 * precision * recall / (precision + recall)
    return np.array([precision, recall, 0.0 if np.isnan(f1) else f1])


@functools.lru_cache(maxsize=2)
def _encoder(folder: str, layer: int) -> 'TokenEncoder':
    from xlbench.metrics.learned.token_vectors import TokenEncoder

    return TokenEncoder(pathlib.Path(folder), layer)
