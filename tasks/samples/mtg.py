"""Sample corpora of MTG: made-up text in the benchmark's layout, made from a seed.

  python -m xlbench.tasks.samples.mtg --root=data/sample --seed=0

Writes `<root>/mtg/<task>/<lang>/<split>.src` and `.trg` for the three tasks, four languages and
four splits, and a small SentencePiece vocabulary `<root>/sample.model`. The same seed gives the
same bytes. The sentences are in `stories`, `questions` and `titles`, their words in `lexicon`.
"""

import os
import random
import re
import sys
from collections.abc import Sequence

from xlbench.data import tokenizers
from xlbench.system import errors
from xlbench.tasks.samples import corpus, lexicon, questions, stories, texts, titles

# Raise it when this code changes any byte: older samples are then written anew, as they are when
# one of the texts has changed.
GENERATOR = 2
TEXTS = ('lexicon', 'stories', 'questions', 'titles')

TASKS = {'sg': stories.example, 'qg': questions.example, 'tg': titles.example}
# Examples of each task in each language.
SPLITS = {'rough_train': 6000, 'train': 6000, 'validation': 300, 'test': 300}

VOCABULARY = tokenizers.SAMPLE_FILES['sample']
_VOCABULARY_PIECES = 4000
_SYMBOLS = ('<en>', '<de>', '<fr>', '<es>', '<zh>', '<answer>')

# The rough split of MTG was translated by machine: this share of its lines has a slip.
_NOISE_RATE = 0.1
_ARTICLE = re.compile('der|die|das|den|ein|eine|einen|le|la|un|une|el|una')

Example = dict[str, tuple[str, str]]  # By language: source, target.


def write(root: str, seed: int = 0) -> bool:
    """Writes the corpora and their vocabulary; False where they are already."""
    about = {'generator': GENERATOR, 'seed': seed, 'texts': texts.digest(*TEXTS)}
    return corpus.write(
        root, 'mtg', about, VOCABULARY, lambda folder: _write_corpora(folder, seed), _train
    )


def _train(folder: str) -> bytes:
    """The vocabulary, of the training split of all tasks and languages.

    The words are few, so most become one piece; bytes spell everything else, in any script.
    """
    return tokenizers.train_sentencepiece(
        _vocabulary_lines(folder), size=_VOCABULARY_PIECES, symbols=_SYMBOLS, model_type='bpe'
    )


def _vocabulary_lines(folder: str) -> list[str]:
    """Every fourth training line, sources and targets, in a fixed order."""
    lines = []
    for task in TASKS:
        for lang in lexicon.LANGUAGES:
            for side in ('src', 'trg'):
                path = os.path.join(folder, task, lang, f'train.{side}')
                with open(path, encoding='utf-8') as file:
                    lines += [line.rstrip('\n').replace('\t', ' ') for line in file][::4]
    return lines


def make_splits(task: str, seed: int) -> dict[str, list[Example]]:
    """The examples of every split of one task.

    No source occurs twice, in any language or split; of a QG source the passage alone decides.
    """
    seen: dict[str, set[str]] = {lang: set() for lang in lexicon.LANGUAGES}
    splits = {}
    for split, size in SPLITS.items():
        # Seeded by text, which Python hashes the same way on every machine.
        rng = random.Random(f'mtg/{task}/{split}/{seed}')
        examples: list[Example] = []
        while len(examples) < size:
            example = TASKS[task](rng)
            if split == 'rough_train':
                example = _roughen(example, rng)
            keys = {lang: source.split('\t')[0] for lang, (source, _) in example.items()}
            if any(key in seen[lang] for lang, key in keys.items()):
                continue
            for lang, key in keys.items():
                seen[lang].add(key)
            examples.append(example)
        splits[split] = examples
    return splits


def _roughen(example: Example, rng: random.Random) -> Example:
    """Gives some of the sources that are not English one slip each; targets stay as they are."""
    rough = {}
    for lang, (source, target) in example.items():
        if lang != 'en' and rng.random() < _NOISE_RATE:
            passage, *answer = source.split('\t')
            source = '\t'.join([_slip(passage, rng), *answer])
        rough[lang] = source, target
    return rough


def _slip(text: str, rng: random.Random) -> str:
    """A slip of a translating machine: words swapped, an article missing, or a word doubled.

    Example: 'Nora verlor am Montag einen Hut.' -> 'Nora verlor am Montag Hut.'
    """
    words = text.split(' ')
    kind = rng.choice(('swap', 'drop', 'double'))
    at = rng.randrange(1, len(words) - 1)
    articles = [i for i, word in enumerate(words) if _ARTICLE.fullmatch(word)]
    if kind == 'drop' and articles:
        del words[rng.choice(articles)]
    elif kind == 'double':
        words.insert(at, words[at])
    else:
        words[at], words[at - 1] = words[at - 1], words[at]
    return ' '.join(words)


def _write_corpora(folder: str, seed: int) -> None:
    for task in TASKS:
        for split, examples in make_splits(task, seed).items():
            for lang in lexicon.LANGUAGES:
                for side, part in (('src', 0), ('trg', 1)):
                    path = os.path.join(folder, task, lang, f'{split}.{side}')
                    lines = (example[lang][part] + '\n' for example in examples)
                    corpus.write_text(path, ''.join(lines))


def main(argv: Sequence[str]) -> int:
    """The command line."""
    return corpus.main(argv, 'python -m xlbench.tasks.samples.mtg', write)


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
