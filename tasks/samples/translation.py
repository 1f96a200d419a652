"""The sample corpus of translation: made-up parallel texts, made from a seed.

Writes what `tasks/translation.py` reads, `<root>/translation/wmt20/{en-de,en-zh}/SPLIT.tsv`. The
texts are the summaries of dialogues like those of clidsum.py.
"""

import os
import random

from xlbench.data import tokenizers
from xlbench.tasks.samples import clidsum, corpus

SPLITS = {'train': 6000, 'validation': 200, 'test': 300}  # Pairs.
_VOCABULARY_PIECES, _VOCABULARY_PAIRS = 1500, 3000


def make_splits(seed: int) -> dict[str, list[dict[str, str]]]:
    """Texts in all languages, by split; no English text occurs twice."""

    def make(rng: random.Random, _: str) -> dict[str, str]:
        talk = rng.choice((clidsum.chat, clidsum.interview))(rng)
        return {lang: talk[key] for key, lang in clidsum.SUMMARIES.items()}

    return corpus.draw_splits('translation', SPLITS, seed, make, lambda made: [made['en']])


def _write_corpus(folder: str, seed: int) -> None:
    for split, examples in make_splits(seed).items():
        for lang in clidsum.LANGUAGES[1:]:
            lines = ''.join(f'{example["en"]}\t{example[lang]}\n' for example in examples)
            corpus.write_text(os.path.join(folder, 'wmt20', f'en-{lang}', f'{split}.tsv'), lines)


def _train(folder: str) -> bytes:
    lines: list[str] = []
    for lang in clidsum.LANGUAGES[1:]:
        for line in corpus.lines(folder, 'wmt20', f'en-{lang}', 'train.tsv')[:_VOCABULARY_PAIRS]:
            english, other = line.split('\t')
            lines += [english, clidsum.names_apart(other)]
    return tokenizers.train_sentencepiece(
        lines,
        size=_VOCABULARY_PIECES,
        symbols=clidsum.SYMBOLS,
        model_type='bpe',
        normalization='identity',
    )


SAMPLE = corpus.Sample(
    name='translation',
    generator=2,
    texts=('talks',),
    vocabulary=tokenizers.SAMPLE_FILES['sample_translation'],
    fill=_write_corpus,
    train=_train,
)
write = SAMPLE.write
