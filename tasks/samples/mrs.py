"""Sample corpora of MRS: made-up messages and replies in the benchmark's layout, made from a seed.

  python -m xlbench.tasks.samples.mrs --root=data/sample --seed=0

Writes below `<root>/mrs`, for ten languages, what `tasks/mrs.py` reads: pairs, response sets, and
for two languages what is shown for a response; and `<root>/sample_mrs.model`, a SentencePiece
vocabulary of its own, so that no other corpus changes with these. The same seed gives the same
bytes. What is said is in `replies`.

The splits say the same in all languages, line by line. `mt_train` says what the first English
training pairs say, with the slips of a translating machine, and `mt_valid` what the English
validation pairs say.
"""

import collections
import itertools
import math
import os
import random
import sys
from collections.abc import Sequence

from xlbench.data import tokenizers
from xlbench.system import errors
from xlbench.tasks.samples import corpus, replies

# Pairs of each split in each language.
SPLITS = {'train': 1800, 'valid': 120, 'test': 150}
MT_PAIRS = 600
# Files of the training split, of these languages; of the others there is one.
_PARTS = {'en': 3, 'ja': 2}
# A response occurs so often in the training split (20 times in the 1.4 to 49 million of the paper).
_MIN_COUNT = 2
_MAPPED = ('en', 'de')  # The languages whose exclamations are shown with a face.

_VOCABULARY_PIECES = 4000
_SYMBOLS = tuple(f'<{lang}>' for lang in replies.LANGUAGES)

# How many of the translated pairs have a slip: sentences left in English, messages, replies.
_UNTRANSLATED, _MESSAGE_SLIPS, _REPLY_SLIPS = 0.1, 0.2, 0.1

Pair = tuple[str, str]  # Message, reply.


def make_splits(seed: int) -> dict[str, list[replies.Meaning]]:
    """Draws every split's pairs; no message occurs twice, in any language or split."""
    return corpus.draw_splits(
        'mrs',
        SPLITS,
        seed,
        lambda rng, _: replies.sample(rng),
        lambda meaning: ((lang, replies.message(meaning, lang)) for lang in replies.LANGUAGES),
    )


def translated(
    meanings: Sequence[replies.Meaning], lang: str, seed: int, split: str = 'mt_train'
) -> list[Pair]:
    """English pairs as a machine would translate them, for `mt_train` or `mt_valid`."""
    rng = random.Random(f'mrs/{split}/{lang}/{seed}')
    pairs = []
    for meaning in meanings:
        beside = 'en' if rng.random() < _UNTRANSLATED else lang
        message, reply = replies.message(meaning, lang, beside), replies.reply(meaning, lang)[0]
        message = _slip(message, lang, rng) if rng.random() < _MESSAGE_SLIPS else message
        reply = _slip(reply, lang, rng) if rng.random() < _REPLY_SLIPS else reply
        pairs.append((message, reply))
    return pairs


def _slip(text: str, lang: str, rng: random.Random) -> str:
    """Words swapped or doubled, or a short one missing; in Japanese, a particle is missing.

    Example: 'Ich bin um drei da.' -> 'Ich um bin drei da.'
    """
    if lang == 'ja':
        places = [i for i, character in enumerate(text) if character in 'はがをにで']
        at = rng.choice(places) if places else len(text)
        return text[:at] + text[at + 1 :]
    return corpus.slip(text, rng, lambda word: len(word) <= 3 and word.isalpha())


def response_set(pairs: Sequence[tuple[str, tuple]]) -> list[tuple[float, str, str]]:
    """The frequent replies, most frequent first.

    Args:
        pairs: Reply and what it says, of every training pair.

    Returns:
        Logarithm of the relative frequency, text and cluster; one cluster says one thing.
    """
    counts = collections.Counter(text for text, _ in pairs)
    says = dict(pairs)
    clusters: dict[tuple, str] = {}
    rows = []
    for text, count in counts.most_common():
        if count >= _MIN_COUNT:
            cluster = clusters.setdefault(says[text], f'c{len(clusters)}')
            rows.append((round(math.log(count / len(pairs)), 4), text, cluster))
    return rows


def _write_corpora(folder: str, seed: int) -> None:
    splits = make_splits(seed)
    for lang in replies.LANGUAGES:
        said = {
            split: [(replies.message(m, lang), *replies.reply(m, lang)) for m in meanings]
            for split, meanings in splits.items()
        }
        pairs = {split: [row[:2] for row in rows] for split, rows in said.items()}
        responses = response_set([row[1:] for row in said['train']])
        known = {text for _, text, _ in responses}
        pairs['gmr_valid'] = [pair for pair in pairs['valid'] if pair[1] in known]
        if lang != 'en':
            pairs['mt_train'] = translated(splits['train'][:MT_PAIRS], lang, seed)
            pairs['mt_valid'] = translated(splits['valid'], lang, seed, 'mt_valid')
        for split, rows in pairs.items():
            parts = _PARTS.get(lang, 1) if split == 'train' else 1
            ends = [len(rows) * part // parts for part in range(parts + 1)]
            for part, (start, end) in enumerate(itertools.pairwise(ends)):
                # The last two columns are in the official files, and nobody reads them.
                lines = [(*row, '0', '0') for row in rows[start:end]]
                _write_rows(folder, split, lang, f'{part:03}.tsv', lines)
        _write_rows(folder, 'rsp_set', lang, 'response_lm_cluster.txt', responses)
        if lang in _MAPPED:
            shown = [(text, f'{text} 🙂' if text[-1] == '!' else text) for _, text, _ in responses]
            _write_rows(folder, 'rsp_map', lang, 'response.mapping.txt', shown)


def _write_rows(folder: str, kind: str, lang: str, name: str, rows: Sequence[Sequence]) -> None:
    text = ''.join('\t'.join(map(str, row)) + '\n' for row in rows)
    corpus.write_text(os.path.join(folder, kind, lang, name), text)


def _train(folder: str) -> bytes:
    """Trained on the training pairs; the words are few, so most become one piece."""
    lines = []
    for lang in replies.LANGUAGES:
        place = os.path.join(folder, 'train', lang)
        for name in sorted(os.listdir(place)):
            with open(os.path.join(place, name), encoding='utf-8') as file:
                lines += [text for line in file for text in line.split('\t')[:2]]
    return tokenizers.train_sentencepiece(
        lines, size=_VOCABULARY_PIECES, symbols=_SYMBOLS, model_type='bpe'
    )


SAMPLE = corpus.Sample(
    name='mrs',
    module='mrs',
    generator=2,
    texts=('frames', 'phrases'),
    vocabulary=tokenizers.SAMPLE_FILES['sample_mrs'],
    fill=_write_corpora,
    train=_train,
)
write = SAMPLE.write

if __name__ == '__main__':
    sys.exit(errors.run_main(SAMPLE.main, sys.argv))
