"""Sample corpora of labels: made-up texts and tagged sentences for six tasks, made from a seed.

Writes below `<root>/fewshot`, in four languages, what `tasks/fewshot.py` reads: `udpos` and `panx`,
words with their parts of speech and entities; `xnli`, premise and hypothesis, and `pawsx`, two
sentences that mean the same or not, both with a training split in English alone; `mldoc`, news of
four topics; `marc`, reviews with one to five stars; `buckets`, the few shots of the other
languages. The words are in `lexicon`; all splits say the same in all languages, line by line.
"""

import functools
import json
import os
import random
import re
from collections.abc import Callable, Mapping, Sequence

from xlbench.benchmarks import FEWSHOT
from xlbench.data import buckets, conllu, labelled, readers, tokenizers
from xlbench.tasks.samples import corpus, lexicon, texts

# Examples of each task in each language. The larger dev sets of xnli and pawsx are what their shots
# come from, and half of each is left when they are taken out.
SPLITS = {
    'udpos': {'train': 2000, 'dev': 200, 'test': 300},
    'xnli': {'train': 2000, 'dev': 800, 'test': 300},
    'pawsx': {'train': 2000, 'dev': 600, 'test': 300},
    'mldoc': {'train': 1000, 'dev': 200, 'test': 300},
    'marc': {'train': 1000, 'dev': 200, 'test': 300},
    'panx': {'train': 1000, 'dev': 200, 'test': 300},
}
# The split that shots are drawn from, and the number of buckets of each number of shots.
BUCKETS = {
    'udpos': ('train', 40), 'xnli': ('dev', 16), 'pawsx': ('dev', 16), 'mldoc': ('train', 16),
    'marc': ('train', 16), 'panx': ('train', 16),
}  # fmt: skip
LABELS = ('entailment', 'neutral', 'contradiction')

_TAG = re.compile('\t.*\n?')

_BLOCKS = texts.read('labels')
# Words with their tags; slots are filled with `lexicon.phrases`.
SENTENCES, ENTITIES, REORDERINGS, REVIEWS = (
    _BLOCKS[name].by_language() for name in ('sentences', 'entities', 'reorderings', 'reviews')
)
_NAMED = {'name': 'B-PER', 'name2': 'B-PER', 'town': 'B-LOC'}

PREMISES, VERBS = (_BLOCKS[name].wordings() for name in ('premises', 'verbs'))
# Of each label, wordings that take it up from the object or from the town.
HYPOTHESES = {label: _BLOCKS[label].wordings() for label in LABELS}
TOPICS = {topic: _BLOCKS[topic].wordings() for topic in labelled.LABELS['mldoc']}
_CATEGORIES = ('home', 'toy', 'garden')

Example = dict[str, tuple[str, ...]]  # By language: the words and tags, or the columns of a line.


def tagged(
    rng: random.Random, sentences: Mapping[str, Sequence[texts.Cells]] = SENTENCES
) -> Example:
    """A sentence in each language, with parts of speech or entities: words and tags.

    Example, en: 'A fox slept quietly in the garden .', 'DET NOUN VERB ADV ADP DET NOUN PUNCT'
    """
    meanings = lexicon.sample(rng)
    number, price = rng.randrange(len(sentences['en'])), str(rng.randrange(2, 90))
    sides = {}
    for lang in lexicon.LANGUAGES:
        filled = lexicon.phrases(lang, meanings) | {'price': f'{price}/NUM'}
        words: list[conllu.Word] = []
        for part in sentences[lang][number][0].split():
            word, _, tag = part.partition('/')
            slot = word.strip('{}')
            if word == slot:
                words.append((word, tag or 'O'))
                continue
            phrase = [tuple(one.split('/')) for one in filled[slot].split()]
            if sentences is not SENTENCES:  # An entity, or none: all its words have one tag.
                phrase = [(word, tag or _NAMED.get(slot, 'O')) for word, _ in phrase]
            words += phrase
        first = next(i for i, (_, tag) in enumerate(words) if tag != 'PUNCT')
        word, tag = words[first]
        words[first] = word[0].upper() + word[1:], tag
        sides[lang] = tuple(' '.join(side) for side in zip(*words, strict=True))
    return sides


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


def paraphrase(rng: random.Random) -> Example:
    """Two sentences in each language, and '1' if they mean the same, '0' if two roles change."""
    meanings = lexicon.sample(rng)
    number, same = rng.randrange(len(REORDERINGS['en'])), rng.randrange(2)
    sides = {}
    for lang in lexicon.LANGUAGES:
        first, second = REORDERINGS[lang][number]
        filled = lexicon.forms(lang, meanings)
        other = 'town' if '{town2}' in first else 'name'
        changed = {other: filled[f'{other}2'], f'{other}2': filled[other]}
        again = lexicon.sentence(second, filled if same else filled | changed)
        sides[lang] = lexicon.sentence(first, filled), again, str(same)
    return sides


def news(rng: random.Random) -> Example:
    """A text of three sentences in each language, two of them on its topic, and the topic."""
    meanings = lexicon.sample(rng)
    topic = rng.choice(labelled.LABELS['mldoc'])
    verb, wording, left_out = rng.randrange(len(VERBS['en'])), rng.randrange(2), rng.randrange(3)
    sides = {}
    for lang in lexicon.LANGUAGES:
        filled = lexicon.forms(lang, meanings) | {'did': VERBS[lang][verb]}
        first, last = (cell for i, cell in enumerate(TOPICS[topic][lang]) if i != left_out)
        templates = first, PREMISES[lang][wording], last
        text = ' '.join(lexicon.sentence(template, filled) for template in templates)
        sides[lang] = text, topic
    return sides


def review(rng: random.Random) -> Example:
    """Text, title, category and stars of a review in each language.

    One title of four, and one text of four, is that of a star more or less, so that models err.
    """
    meanings = lexicon.sample(rng)
    stars, category = rng.randrange(5), rng.choice(_CATEGORIES)
    about = [min(max(stars + rng.choice((-1, *[0] * 6, 1)), 0), 4) for _ in range(2)]
    sides = {}
    for lang in lexicon.LANGUAGES:
        title, template = (REVIEWS[lang][row][i] for i, row in enumerate(about))
        body = lexicon.sentence(template, lexicon.forms(lang, meanings))
        sides[lang] = (body, title, category, str(stars + 1))
    return sides


TASKS: dict[str, Callable[[random.Random], Example]] = {
    'udpos': tagged, 'xnli': entailment, 'pawsx': paraphrase, 'mldoc': news, 'marc': review,
    'panx': functools.partial(tagged, sentences=ENTITIES),
}  # fmt: skip


def make_splits(task: str, seed: int) -> dict[str, list[Example]]:
    """The examples of every split; no sentence or premise is in two of them, in any language."""
    return corpus.draw_splits(
        f'fewshot/{task}',
        SPLITS[task],
        seed,
        lambda rng, _: TASKS[task](rng),
        lambda example: ((lang, columns[0]) for lang, columns in example.items()),
        repeated=True,
    )


def _write_corpora(folder: str, seed: int) -> None:
    for task in SPLITS:
        for split, examples in make_splits(task, seed).items():
            for lang in lexicon.LANGUAGES:
                if split == 'train' and lang not in FEWSHOT.train_languages(task):
                    continue
                name = _FILES.get(task, '{split}-{lang}.tsv').format(lang=lang, split=split)
                path = os.path.join(folder, task, name + _ENDS.get((task, split), ''))
                corpus.write_text(path, _text(task, [example[lang] for example in examples]))
                if split == BUCKETS[task][0] and lang != 'en':
                    # An example of a bucket says in which row it stands.
                    records = buckets.read_examples(task, lang, [path])
                    _write_buckets(os.path.join(folder, 'buckets'), task, lang, records, seed)


_FILES = {'mldoc': '{lang}/{lang}.{split}', 'marc': '{split}/dataset_{lang}_{split}.json'}
_ENDS = {('mldoc', 'train'): '.10000'}  # Part of the official name; here are fewer.


def _text(task: str, rows: Sequence[tuple[str, ...]]) -> str:
    """The official form of a file."""
    if task in FEWSHOT.tagging:
        return conllu.write_tagged([{'words': words, 'tags': tags} for words, tags in rows])
    if task == 'marc':
        names = ('review_body', 'review_title', 'product_category', 'stars')
        reviews = (dict(zip(names, row, strict=True)) | {'stars': int(row[-1])} for row in rows)
        return ''.join(json.dumps(one, ensure_ascii=False) + '\n' for one in reviews)
    if task == 'mldoc':
        rows = [(label, text) for text, label in rows]
    return ''.join('\t'.join(row) + '\n' for row in rows)


def _write_buckets(
    folder: str, task: str, lang: str, records: Sequence[readers.Record], seed: int
) -> None:
    for shots in FEWSHOT.shots(task):
        for bucket in buckets.sample(task, lang, records, shots, BUCKETS[task][1], seed):
            path, data = buckets.encode(bucket)
            corpus.write_text(os.path.join(folder, path), data.decode())


def _train(folder: str) -> bytes:
    """Trained on sentences of udpos and xnli; the words are few, so most become one piece."""
    lines = []
    for lang in lexicon.LANGUAGES:
        tagged = '\n'.join(corpus.lines(folder, 'udpos', f'train-{lang}.tsv')).split('\n\n')
        lines += [_TAG.sub(' ', sentence).rstrip() for sentence in tagged]
        # The training split, which English alone has, and another.
        for split in ('train', 'dev') if lang == 'en' else ('dev',):
            pairs = corpus.lines(folder, 'xnli', f'{split}-{lang}.tsv')
            lines += [text for line in pairs for text in line.split('\t')[:2]]
    return tokenizers.train_sentencepiece(lines, size=3000, model_type='bpe')


SAMPLE = corpus.Sample(
    name='fewshot',
    generator=4,
    texts=('lexicon', 'labels'),
    vocabulary=tokenizers.SAMPLE_FILES['sample_fewshot'],
    fill=_write_corpora,
    train=_train,
)
write = SAMPLE.write
