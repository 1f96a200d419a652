"""Prompts for tasks whose answers are texts, with K examples drawn from the training data."""

from collections.abc import Sequence

import numpy as np

from xlbench import benchmarks
from xlbench.data import outputs, prepared
from xlbench.data.features import Example
from xlbench.prompting.engines import Request
from xlbench.prompting.templates import Template


def template_name(task: str) -> tuple[str, str, str]:
    """The name of the templates of a SeqIO task, and its source and target language.

    Example: 'mtg_qg_de_fr' -> ('mtg_qg', 'de', 'fr')
    """
    parsed = benchmarks.parse_task(task)
    return f'{parsed.benchmark}_{parsed.task}', parsed.source, parsed.target


def requests(
    test: prepared.Prepared,
    train: prepared.Prepared | None,
    template: Template,
    language: str,
    *,
    shots: int,
    seed: int,
    num_examples: int = 0,
    max_tokens: int = 128,
) -> list[Request]:
    """The prompt for each example of a test set; all have the same K examples before it.

    Args:
      test: the split that is asked.
      train: the split that examples are drawn from; None without shots.
      template: how they are put.
      language: ISO code of the answers.
      shots: K.
      seed: of the draw.
      num_examples: the first ones of the test set; 0 takes all.
      max_tokens: of an answer.
    """
    drawn: Sequence[Example] = []
    if train is not None and shots:
        numbers = np.random.default_rng(seed).choice(len(train), min(shots, len(train)), False)
        drawn = _plain(train, train.read(numbers.tolist()))
    examples = _plain(test, test.read(range(min(num_examples or len(test), len(test)))))
    before = [(example, template.answer(example)) for example in drawn]
    return [Request(template.prompt(before, x, language), (), max_tokens) for x in examples]


def _plain(split: prepared.Prepared, examples: Sequence[Example]) -> list[Example]:
    """The examples without the mark of their target language, and with one reference as target."""
    texts = outputs.unmarked(split, [x['inputs_pretokenized'] for x in examples])
    return [x | {'inputs_pretokenized': text} for x, text in zip(examples, texts, strict=True)]
