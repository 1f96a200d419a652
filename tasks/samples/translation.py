"""The sample corpus of translation: made-up parallel texts, made from a seed.

  python -m xlbench.tasks.samples.translation --root=data/sample --seed=0

Writes what `tasks/translation.py` reads, `<root>/translation/wmt20/{en-de,en-zh}/SPLIT.tsv`; and
`<root>/sample_translation.model`, a joint BPE vocabulary. The same seed gives the same bytes. The
texts are the summaries of the dialogues in `talks`.
"""

import os
import random
import re
import sys
from collections.abc import Sequence

from xlbench.data import tokenizers
from xlbench.system import errors
from xlbench.tasks.samples import corpus, talks, texts

# Raise it when this code changes any byte: older samples are then written anew, as they are when
# one of the texts has changed.
GENERATOR = 2
TEXTS = ('talks',)
SPLITS = {'train': 6000, 'validation': 200, 'test': 300}  # Pairs.

VOCABULARY = tokenizers.SAMPLE_FILES['sample_translation']
_VOCABULARY_PIECES = 1500
_VOCABULARY_PAIRS = 3000
_SYMBOLS = tuple(f'<{lang}>' for lang in talks.LANGUAGES)


def write(root: str, seed: int = 0) -> bool:
    """Writes the corpus and its vocabulary; False where they are already."""
    about = {'generator': GENERATOR, 'seed': seed, 'texts': texts.digest(*TEXTS)}
    return corpus.write(
        root, 'translation', about, VOCABULARY, lambda folder: _write_corpus(folder, seed), _train
    )


def make_splits(seed: int) -> dict[str, list[dict[str, str]]]:
    """Texts in all languages, by split; no English text occurs twice."""
    seen: set[str] = set()
    splits = {}
    for split, size in SPLITS.items():
        # Seeded by text, which Python hashes the same way on every machine.
        rng = random.Random(f'translation/{split}/{seed}')
        made: list[dict[str, str]] = []
        while len(made) < size:
            talk = rng.choice((talks.chat, talks.interview))(rng)
            if talk['en'] not in seen:
                seen.add(talk['en'])
                made.append({lang: talk[lang] for lang in talks.LANGUAGES})
        splits[split] = made
    return splits


def _write_corpus(folder: str, seed: int) -> None:
    for split, examples in make_splits(seed).items():
        for lang in talks.LANGUAGES[1:]:
            lines = ''.join(f'{example["en"]}\t{example[lang]}\n' for example in examples)
            corpus.write_text(os.path.join(folder, 'wmt20', f'en-{lang}', f'{split}.tsv'), lines)


def _train(folder: str) -> bytes:
    """The vocabulary of all languages.

    Chinese has no spaces, so a piece might hold a name and what follows it: commas stand between.
    """
    names = re.compile('|'.join(name for _, name in talks.NAMES))
    lines: list[str] = []
    for lang in talks.LANGUAGES[1:]:
        path = os.path.join(folder, 'wmt20', f'en-{lang}', 'train.tsv')
        with open(path, encoding='utf-8') as file:
            for _, line in zip(range(_VOCABULARY_PAIRS), file, strict=False):
                english, other = line.rstrip('\n').split('\t')
                lines += [english, names.sub(r'，\g<0>，', other)]
    return tokenizers.train_sentencepiece(
        lines,
        size=_VOCABULARY_PIECES,
        symbols=_SYMBOLS,
        model_type='bpe',
        normalization='identity',
    )


def main(argv: Sequence[str]) -> int:
    """The command line."""
    return corpus.main(argv, 'python -m xlbench.tasks.samples.translation', write)


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
