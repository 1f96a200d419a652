"""The sample corpus of ClidSum: made-up dialogues in the official files, made from a seed.

  python -m xlbench.tasks.samples.clidsum --root=data/sample --seed=0

Writes what `tasks/clidsum.py` reads, `<root>/clidsum/{XSAMSum,XMediaSum40k}/{train,val,test}.json`,
with chats in the first folder and interviews in the second; beside each file its triples of who
does what, {train,val,test}.triples.tsv; and `<root>/sample_clidsum.model`, a SentencePiece
vocabulary of its own. The same seed gives the same bytes. What is said is in `talks`.
"""

import json
import os
import random
import re
import sys
from collections.abc import Sequence

from xlbench import errors
from xlbench.benchmarks.clidsum import SUMMARIZE
from xlbench.data import noise, tokenizers
from xlbench.tasks.samples import corpus, talks, texts

# Raise it when this code changes any byte: older samples are then written anew, as they are when
# one of the texts has changed.
GENERATOR = 2
TEXTS = ('talks',)

# Folder -> what makes a dialogue, and what its lines end with, as in the official files.
CORPORA = {'XSAMSum': (talks.chat, '\r\n'), 'XMediaSum40k': (talks.interview, '\n')}
SPLITS = {'train': 6000, 'val': 200, 'test': 300}  # Dialogues of each corpus.
SUMMARIES = {'summary': 'en', 'summary_de': 'de', 'summary_zh': 'zh'}

VOCABULARY = tokenizers.SAMPLE_FILES['sample_clidsum']
_VOCABULARY_PIECES = 2000
_VOCABULARY_DIALOGUES = 1500  # Of each corpus; the words are few.
_SYMBOLS = tuple(f'<{lang}>' for lang in talks.LANGUAGES)


def write(root: str, seed: int = 0) -> bool:
    """Writes the corpus and its vocabulary; False where they are already."""
    about = {'generator': GENERATOR, 'seed': seed, 'texts': texts.digest(*TEXTS)}
    return corpus.write(
        root, 'clidsum', about, VOCABULARY, lambda folder: _write_corpus(folder, seed), _train
    )


def make_splits(folder: str, seed: int) -> dict[str, list[dict[str, str]]]:
    """The objects of the files of one of CORPORA, by split; no dialogue occurs twice.

    Beside what the files have, each object has its `triples`.
    """
    make, line_end = CORPORA[folder]
    seen: set[str] = set()
    splits = {}
    for split, size in SPLITS.items():
        # Seeded by text, which Python hashes the same way on every machine.
        rng = random.Random(f'clidsum/{folder}/{split}/{seed}')
        examples: list[dict[str, str]] = []
        while len(examples) < size:
            made = make(rng)
            dialogue = made['dialogue'].replace('\n', line_end)
            if dialogue not in seen:
                seen.add(dialogue)
                summaries = {key: made[lang] for key, lang in SUMMARIES.items()}
                triples = {'triples': made['triples']}
                examples.append({'dialogue': dialogue} | summaries | triples)
        splits[split] = examples
    return splits


def _write_corpus(folder: str, seed: int) -> None:
    for name in CORPORA:
        for split, examples in make_splits(name, seed).items():
            triples = [example.pop('triples') for example in examples]
            # The same sentence has the same triples, which OpenIE would print each time.
            lines = dict.fromkeys(''.join(triples).splitlines(keepends=True))
            corpus.write_text(os.path.join(folder, name, f'{split}.triples.tsv'), ''.join(lines))
            text = json.dumps(examples, ensure_ascii=False, indent=1)
            corpus.write_text(os.path.join(folder, name, f'{split}.json'), text + '\n')


def _train(folder: str) -> bytes:
    """The vocabulary, of the texts in lower case, as the tasks have them.

    Chinese has no spaces, so a piece might hold a name and what follows it: commas stand between.
    """
    names = re.compile('|'.join(name for _, name in talks.NAMES))
    lines: list[str] = []
    for name in CORPORA:
        with open(os.path.join(folder, name, 'train.json'), encoding='utf-8') as file:
            examples = json.load(file)[:_VOCABULARY_DIALOGUES]
        for example in examples:
            lines += example['dialogue'].lower().splitlines()
            lines += [example[key].lower() for key in ('summary', 'summary_de')]
            lines.append(names.sub(r'，\g<0>，', example['summary_zh']))
    model = tokenizers.train_sentencepiece(
        lines, size=_VOCABULARY_PIECES, symbols=_SYMBOLS, model_type='bpe'
    )
    return tokenizers.with_symbols(model, (noise.MASK, SUMMARIZE))


def main(argv: Sequence[str]) -> int:
    """The command line."""
    return corpus.main(argv, 'python -m xlbench.tasks.samples.clidsum', write)


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
