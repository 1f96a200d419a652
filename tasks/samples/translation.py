"""The sample corpus of translation: made-up parallel texts, made from a seed.

Writes what `tasks/translation.py` reads, `<root>/translation/wmt20/{en-de,en-zh}/SPLIT.tsv`; and
`<root>/sample_translation.model`, a joint BPE vocabulary. The same seed gives the same bytes. The
texts are the summaries of the dialogues in `talks`.
"""

import os
import random

from xlbench.data import tokenizers
from xlbench.tasks.samples import corpus, talks

SPLITS = {'train': 6000, 'validation': 200, 'test': 300}  # Pairs.

_VOCABULARY_PIECES = 1500
_VOCABULARY_PAIRS = 3000
_SYMBOLS = tuple(f'<{lang}>' for lang in talks.LANGUAGES)


def make_splits(seed: int) -> dict[str, list[dict[str, str]]]:
    """Texts in all languages, by split; no English text occurs twice."""

    def make(rng: random.Random, split: str) -> dict[str, str]:
        del split
        talk = rng.choice((talks.chat, talks.interview))(rng)
        return {lang: talk[lang] for lang in talks.LANGUAGES}

    return corpus.draw_splits('translation', SPLITS, seed, make, lambda made: [made['en']])


def _write_corpus(folder: str, seed: int) -> None:
    for split, examples in make_splits(seed).items():
        for lang in talks.LANGUAGES[1:]:
            lines = ''.join(f'{example["en"]}\t{example[lang]}\n' for example in examples)
            corpus.write_text(os.path.join(folder, 'wmt20', f'en-{lang}', f'{split}.tsv'), lines)


def _train(folder: str) -> bytes:
    lines: list[str] = []
    for lang in talks.LANGUAGES[1:]:
        path = os.path.join(folder, 'wmt20', f'en-{lang}', 'train.tsv')
        with open(path, encoding='utf-8') as file:
            for _, line in zip(range(_VOCABULARY_PAIRS), file, strict=False):
                english, other = line.rstrip('\n').split('\t')
                lines += [english, talks.names_apart(other)]
    return tokenizers.train_sentencepiece(
        lines,
        size=_VOCABULARY_PIECES,
        symbols=_SYMBOLS,
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
