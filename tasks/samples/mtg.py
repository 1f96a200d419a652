"""Sample corpora of MTG: made-up text in the benchmark's layout, made from a seed.

  python -m tasks.samples.mtg --root=data/sample --seed=0

Writes `<root>/mtg/<task>/<lang>/<split>.src` and `.trg` for the three tasks, four languages and
four splits, a small SentencePiece vocabulary `<root>/sample.model`, and last `<root>/SAMPLE.json`:
a folder with that file is complete, and nothing in it is real data. The same seed gives the same
bytes. The sentences are in `stories`, `questions` and `titles`, their words in `lexicon`.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Sequence

from tasks.samples import lexicon, questions, stories, titles
from xlbench import errors, tokenizers

# Raise it when any text or the vocabulary changes: older samples are then written anew.
GENERATOR = 2
NOTE = 'Made-up text from the grammars of xlbench; not the MTG benchmark and no real data.'

TASKS = {'sg': stories.example, 'qg': questions.example, 'tg': titles.example}
# Examples of each task in each language.
SPLITS = {'rough_train': 6000, 'train': 6000, 'validation': 300, 'test': 300}

VOCABULARY = 'sample.model'
_VOCABULARY_PIECES = 4000
_SYMBOLS = ('<en>', '<de>', '<fr>', '<es>', '<zh>', '<answer>')
_MARK = '.sample'  # In <root>/mtg: a sample, even a half-written one, that may be replaced.

# The rough split of MTG was translated by machine: so many of its lines have a slip.
_NOISE_RATE = 0.1
_ARTICLES = (
    'der',
    'die',
    'das',
    'den',
    'ein',
    'eine',
    'einen',
    'le',
    'la',
    'un',
    'une',
    'el',
    'una',
)

Example = dict[str, tuple[str, str]]  # By language: source, target.


def write(root: str, seed: int = 0) -> None:
    """Writes corpora, vocabulary and SAMPLE.json; nothing where they are already.

    Args:
        root: The data root, made if missing. Official files in it are never replaced.
        seed: Another seed draws other examples from the same words.
    """
    description = {'generator': GENERATOR, 'note': NOTE, 'seed': seed}
    description_path = os.path.join(root, 'SAMPLE.json')
    if _read_json(description_path) == description:
        return
    folder = os.path.join(root, 'mtg')
    if os.path.exists(folder) and not os.path.exists(os.path.join(folder, _MARK)):
        raise errors.UserError(
            f'{folder} holds files that are no sample; they are kept. Choose another root for the '
            'sample corpora, for example data/sample'
        )
    os.makedirs(root, exist_ok=True)
    # From here until the end the root is incomplete, and says so by lacking the file.
    if os.path.exists(description_path):
        os.remove(description_path)
    with tempfile.TemporaryDirectory(prefix='.mtg.', dir=root) as temporary:
        new = os.path.join(temporary, 'new')
        for task in TASKS:
            _write_task(new, task, seed)
        _write_text(os.path.join(new, _MARK), '')
        if os.path.exists(folder):
            os.rename(folder, os.path.join(temporary, 'old'))
        os.rename(new, folder)
    write_vocabulary(root)
    _write_text(description_path, json.dumps(description, indent=1, sort_keys=True) + '\n')


def write_vocabulary(root: str) -> None:
    """Trains the sample vocabulary on the training split of all tasks and languages.

    The words are few, so most become one piece; bytes spell everything else, in any script.
    """
    model = tokenizers.train_sentencepiece(
        _vocabulary_lines(root), size=_VOCABULARY_PIECES, symbols=_SYMBOLS, model_type='bpe'
    )
    _write_bytes(os.path.join(root, VOCABULARY), model)


def _vocabulary_lines(root: str) -> list[str]:
    """Every fourth training line, sources and targets, in a fixed order."""
    lines = []
    for task in TASKS:
        for lang in lexicon.LANGUAGES:
            for side in ('src', 'trg'):
                path = os.path.join(root, 'mtg', task, lang, f'train.{side}')
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
    articles = [i for i, word in enumerate(words) if word in _ARTICLES]
    if kind == 'drop' and articles:
        del words[rng.choice(articles)]
    elif kind == 'double':
        words.insert(at, words[at])
    else:
        words[at], words[at - 1] = words[at - 1], words[at]
    return ' '.join(words)


def _write_task(folder: str, task: str, seed: int) -> None:
    for split, examples in make_splits(task, seed).items():
        for lang in lexicon.LANGUAGES:
            os.makedirs(os.path.join(folder, task, lang), exist_ok=True)
            for side, part in (('src', 0), ('trg', 1)):
                path = os.path.join(folder, task, lang, f'{split}.{side}')
                _write_text(path, ''.join(example[lang][part] + '\n' for example in examples))


def _write_text(path: str, text: str) -> None:
    _write_bytes(path, text.encode('utf-8'))


def _write_bytes(path: str, data: bytes) -> None:
    """Writes a file whole or not at all."""
    temporary = f'{path}.{os.getpid()}.tmp'
    with open(temporary, 'wb') as file:
        file.write(data)
    os.replace(temporary, path)


def _read_json(path: str) -> object:
    """What a JSON file holds; None if it is missing or broken."""
    try:
        with open(path, encoding='utf-8') as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def main(argv: Sequence[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog='python -m tasks.samples.mtg')
    parser.add_argument('--root', default='data/sample', help='the data root to write')
    parser.add_argument('--seed', type=int, default=0)
    options = parser.parse_args(argv[1:])
    write(options.root, options.seed)
    print(f'sample corpora (made-up text, seed {options.seed}) are in {options.root}')
    return 0


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
