"""Sample corpora of labels: made-up tagged sentences and entailments, made from a seed.

  python -m xlbench.tasks.samples.labels --root=data/sample --seed=0

Writes below `<root>/fewshot`, in four languages, what `tasks/fewshot.py` reads: `udpos`, words with
their parts of speech, and `xnli`, premise and hypothesis with a label, which has a training split
in English alone, as in the benchmark; `buckets`, the few shots of the other languages, which are
drawn from the training sentences of udpos and from the dev set of xnli; and
`<root>/sample_fewshot.model`, a SentencePiece vocabulary of its own. The same seed gives the same
bytes. The words are in `lexicon`; all splits say the same in all languages, line by line.
"""

import os
import random
import re
import sys
from collections.abc import Callable, Sequence

from xlbench import errors
from xlbench.benchmarks import FEWSHOT
from xlbench.data import buckets, conllu, readers, tokenizers
from xlbench.tasks.samples import corpus, lexicon, texts

# Raise it when this code changes any byte: older samples are then written anew, as they are when
# one of the texts has changed.
GENERATOR = 2
TEXTS = ('lexicon', 'labels')

# Examples of each task in each language. The larger dev set of xnli is what its shots come from,
# and half of it is left when they are taken out.
SPLITS = {
    'udpos': {'train': 2000, 'dev': 200, 'test': 300},
    'xnli': {'train': 2000, 'dev': 800, 'test': 300},
}
# The split that shots are drawn from, and the number of buckets of each number of shots.
BUCKETS = {'udpos': ('train', 40), 'xnli': ('dev', 16)}
LABELS = ('entailment', 'neutral', 'contradiction')

VOCABULARY = tokenizers.SAMPLE_FILES['sample_fewshot']
_VOCABULARY_PIECES = 3000
_TAG = re.compile('\t.*\n?')

_BLOCKS = texts.read('labels')
_SLOTS = {*lexicon.SLOTS, 'price', 'did'}
# Words with their parts of speech; slots are filled with phrases of `lexicon.forms`.
SENTENCES = {
    lang: [sentence for (sentence,) in rows]
    for lang, rows in _BLOCKS['sentences'].by_language(lexicon.LANGUAGES, _SLOTS).items()
}
# Words of phrases that are neither of an open class nor the article that a phrase begins with.
_CLOSED = {
    'en': {'on': 'ADP', 'in': 'ADP', 'at': 'ADP'},
    'de': {'am': 'ADP', 'im': 'ADP', 'an': 'ADP'},
    'fr': {'en': 'ADP', 'au': 'ADP', 'à': 'ADP'},
    'es': {'en': 'ADP', 'de': 'ADP', 'el': 'DET'},
}
_FRENCH_BEFORE_NOUNS = ('vieille', 'petit', 'gros', 'longue', 'grand')
_ONE_WORD = {'name': 'PROPN', 'name2': 'PROPN', 'town': 'PROPN', 'number': 'NUM', 'price': 'NUM'}

PREMISES, VERBS = (
    _BLOCKS[name].wordings(lexicon.LANGUAGES, _SLOTS) for name in ('premises', 'verbs')
)
# Of each label, wordings that take it up from the object or from the town.
HYPOTHESES = {label: _BLOCKS[label].wordings(lexicon.LANGUAGES, _SLOTS) for label in LABELS}

Example = dict[str, tuple[str, ...]]  # By language: the words and tags, or the columns of a line.


def tagged(rng: random.Random) -> Example:
    """A sentence in each language: its words and its tags, separated by spaces.

    Example, en: 'A fox slept quietly in the garden .', 'DET NOUN VERB ADV ADP DET NOUN PUNCT'
    """
    meanings = lexicon.sample(rng)
    number, price = rng.randrange(len(SENTENCES['en'])), str(rng.randrange(2, 90))
    sides = {}
    for lang in lexicon.LANGUAGES:
        filled = lexicon.forms(lang, meanings) | {'price': price}
        words: list[conllu.Word] = []
        for part in SENTENCES[lang][number].split():
            if part[0] == '{':
                slot = part.strip('{}')
                words += phrase(lang, slot, filled[slot])
            else:
                word, _, tag = part.rpartition('/')
                words.append((word, tag))
        first = next(i for i, (_, tag) in enumerate(words) if tag != 'PUNCT')
        word, tag = words[first]
        words[first] = word[0].upper() + word[1:], tag
        sides[lang] = tuple(' '.join(side) for side in zip(*words, strict=True))
    return sides


def phrase(lang: str, slot: str, text: str) -> list[conllu.Word]:
    """The words of a phrase that fills a slot, with their tags.

    Example: 'fr', 'the_object', "l'écharpe chaude" -> l'/DET écharpe/NOUN chaude/ADJ
    """
    if slot in _ONE_WORD:
        return [(text, _ONE_WORD[slot])]
    words = re.sub("(?<=')", ' ', text).split()
    closed = _CLOSED[lang]
    if slot == 'time':
        # The months and feasts that are written like names.
        name = 'NOUN' if lang == 'de' else 'PROPN'
        return [(w, closed.get(w, name if w[0].isupper() else 'NOUN')) for w in words]
    tags = [] if slot == 'things' else ['DET']
    rest = words[len(tags) :]
    if lang in ('en', 'de') or rest[0] in _FRENCH_BEFORE_NOUNS:
        tags += ['ADJ'] * (len(rest) - 1) + ['NOUN']
    else:  # A noun, then what says of what kind it is: flûte en bois, vélo bleu.
        nouns = {0, *(i + 1 for i, word in enumerate(rest) if word in closed)}
        if rest[:2] == ['appareil', 'photo']:
            nouns.add(1)
        for i, word in enumerate(rest):
            tags.append('NOUN' if i in nouns else closed.get(word, 'ADJ'))
    return list(zip(words, tags, strict=True))


def entailment(rng: random.Random) -> Example:
    """Premise, hypothesis and label in each language."""
    meanings = lexicon.sample(rng)
    verb, wording = rng.randrange(len(VERBS['en'])), rng.randrange(2)
    label, about = rng.randrange(len(LABELS)), rng.randrange(2)
    sides = {}
    for lang in lexicon.LANGUAGES:
        filled = lexicon.forms(lang, meanings) | {'did': VERBS[lang][verb]}
        templates = PREMISES[lang][wording], HYPOTHESES[LABELS[label]][lang][about]
        pair = (lexicon.sentence(template, filled) for template in templates)
        sides[lang] = (*pair, LABELS[label])
    return sides


TASKS: dict[str, Callable[[random.Random], Example]] = {'udpos': tagged, 'xnli': entailment}


def make_splits(task: str, seed: int) -> dict[str, list[Example]]:
    """The examples of every split; no sentence or premise is in two of them, in any language."""
    seen: dict[tuple[str, str], str] = {}
    splits = {}
    for split, size in SPLITS[task].items():
        # Seeded by text, which Python hashes the same way on every machine.
        rng = random.Random(f'fewshot/{task}/{split}/{seed}')
        examples: list[Example] = []
        while len(examples) < size:
            example = TASKS[task](rng)
            keys = [(lang, columns[0]) for lang, columns in example.items()]
            if all(seen.setdefault(key, split) == split for key in keys):
                examples.append(example)
        splits[split] = examples
    return splits


def write(root: str, seed: int = 0) -> bool:
    """Writes the corpora and their vocabulary; False where they are already."""
    about = {'generator': GENERATOR, 'seed': seed, 'texts': texts.digest(*TEXTS)}
    return corpus.write(
        root, 'fewshot', about, VOCABULARY, lambda folder: _write_corpora(folder, seed), _train
    )


def _write_corpora(folder: str, seed: int) -> None:
    for task in TASKS:
        for split, examples in make_splits(task, seed).items():
            for lang in lexicon.LANGUAGES:
                if (task, split) == ('xnli', 'train') and lang != 'en':
                    continue
                path = os.path.join(folder, task, f'{split}-{lang}.tsv')
                rows = [example[lang] for example in examples]
                if task == 'udpos':
                    records = [{'words': words, 'tags': tags} for words, tags in rows]
                    text = conllu.write_tagged(records)
                else:
                    text = ''.join('\t'.join(row) + '\n' for row in rows)
                corpus.write_text(path, text)
                if split == BUCKETS[task][0] and lang != 'en':
                    if task != 'udpos':  # An example of a bucket says in which row it stands.
                        records = buckets.read_examples(task, lang, [path])
                    _write_buckets(os.path.join(folder, 'buckets'), task, lang, records, seed)


def _write_buckets(
    folder: str, task: str, lang: str, records: Sequence[readers.Record], seed: int
) -> None:
    for shots in FEWSHOT.shots(task):
        for bucket in buckets.sample(task, lang, records, shots, BUCKETS[task][1], seed):
            buckets.write(bucket, folder)


def _train(folder: str) -> bytes:
    """Trained on sentences of both tasks; the words are few, so most become one piece."""
    lines = []
    for lang in lexicon.LANGUAGES:
        path = os.path.join(folder, 'udpos', f'train-{lang}.tsv')
        with open(path, encoding='utf-8') as file:
            lines += [_TAG.sub(' ', sentence).rstrip() for sentence in file.read().split('\n\n')]
        # The training split, where there is one, and another.
        for split in ('train', 'dev'):
            path = os.path.join(folder, 'xnli', f'{split}-{lang}.tsv')
            if os.path.isfile(path):
                with open(path, encoding='utf-8') as file:
                    lines += [text for line in file for text in line.split('\t')[:2]]
    return tokenizers.train_sentencepiece(lines, size=_VOCABULARY_PIECES, model_type='bpe')


def main(argv: Sequence[str]) -> int:
    """The command line."""
    return corpus.main(argv, 'python -m xlbench.tasks.samples.labels', write)


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
