"""Templates of prompts: a YAML file for each task, with a template for each language.

    en:
      instruction: Does the premise entail the hypothesis?
      example: "Premise: $text_a\nHypothesis: $text_b\nAnswer:"
      labels: {entailment: 'yes', neutral: maybe, contradiction: 'no'}

`$inputs` is the whole input, `$text_a` and `$text_b` are the texts of a pair, `$language` is the
name of the target language. `labels` has the model's answer for each label, by default the label
itself. In tagging, an answer is word/TAG word/TAG ...
"""

import pathlib
import string
from collections.abc import Sequence

import msgspec
import numpy as np
import yaml

from xlbench.benchmarks import languages
from xlbench.data import outputs, prepared
from xlbench.data.features import Example
from xlbench.prompt.engines import Request
from xlbench.system import errors
from xlbench.system.errors import UserError

OWN = 'own'  # Stands for the language of the task.
_FOLDER = pathlib.Path(__file__).parent / 'templates'
_PLACES = {'inputs', 'text_a', 'text_b', 'language'}


class Template(msgspec.Struct, forbid_unknown_fields=True):
    """The template of prompts of a task in one language."""

    example: str  # Up to its answer, with places such as $inputs.
    instruction: str = ''  # Before all examples.
    labels: dict[str, str] = {}  # Label -> answer.

    def prompt(self, shots: Sequence[tuple[Example, str]], asked: Example, language: str) -> str:
        """Returns the prompt of an example, behind others with their answers."""
        parts = [self._filled(self.instruction, asked, language)] if self.instruction else []
        parts += [f'{self._filled(self.example, x, language)} {answer}' for x, answer in shots]
        return '\n\n'.join([*parts, self._filled(self.example, asked, language)])

    def answer(self, example: Example, is_tagging: bool = False) -> str:
        """Returns the right answer of an example in one line."""
        target: str = example['targets_pretokenized']
        if is_tagging:
            pairs = zip(example['inputs_pretokenized'].split(' '), target.split(' '), strict=True)
            return ' '.join(f'{word}/{tag}' for word, tag in pairs)
        return ' '.join(self.labels.get(target, target).split())

    def _filled(self, text: str, example: Example, language: str) -> str:
        inputs = example['inputs_pretokenized']
        first, _, second = inputs.partition('\t')
        name = languages.get(language).name.capitalize()
        values = {'inputs': inputs, 'text_a': first, 'text_b': second, 'language': name}
        return string.Template(text).substitute(values)


def load(task: str, language: str, path: str = '') -> Template:
    """Reads the template of a task in a language, from a YAML file, by default of this package.

    One file of the package, such as mrs.yaml, may serve a whole benchmark.

    Raises:
      UserError: there is no usable template.
    """
    if not path:
        known = sorted(file.stem for file in _FOLDER.glob('*.yaml'))
        task = task if task in known else task.partition('_')[0]
        errors.check_known('task with templates', task, known)
    place = pathlib.Path(path or _FOLDER / f'{task}.yaml')
    try:
        text = place.read_text(encoding='utf-8')
        read = msgspec.convert(yaml.safe_load(text), dict[str, Template])
    except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as error:
        said = errors.printable(' '.join(str(error).split()))
        raise UserError(f'{place} is no file of templates: {said}') from None
    errors.check_known(f'language of templates in {place.name}', language, read)
    template = read[language]
    for text in (template.instruction, template.example):
        named = string.Template(text)
        odd = {*named.get_identifiers()} - _PLACES
        if odd or not named.is_valid():
            raise errors.unknown(f'place in {place}', min(odd, default='$'), sorted(_PLACES))
    return template


def requests(
    test: prepared.Prepared,
    train: prepared.Prepared | None,  # To draw from; None without shots.
    template: Template,
    language: str,  # ISO code of the answers.
    *,
    shots: int,
    seed: int,  # Of the draw.
    num_examples: int = 0,  # First ones of the test set; 0: all.
    max_tokens: int = 128,  # Of an answer.
) -> list[Request]:
    """Returns the prompts of a test set, each with the same K = `shots` examples of `train`."""
    before: list[tuple[Example, str]] = []
    if train is not None and shots:
        numbers = np.random.default_rng(seed).choice(len(train), min(shots, len(train)), False)
        drawn = _plain(train, train.read(numbers.tolist()))
        before = [(example, template.answer(example)) for example in drawn]
    examples = _plain(test, test.read(range(min(num_examples or len(test), len(test)))))
    return [Request(template.prompt(before, x, language), (), max_tokens) for x in examples]


def _plain(split: prepared.Prepared, examples: Sequence[Example]) -> list[Example]:
    """Removes the mark of the target language from the inputs of examples."""
    texts = outputs.unmarked(split, [x['inputs_pretokenized'] for x in examples])
    return [x | {'inputs_pretokenized': text} for x, text in zip(examples, texts, strict=True)]
