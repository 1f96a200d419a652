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

from xlbench import buckets, conllu, errors, readers, tokenizers
from xlbench.benchmarks import FEWSHOT
from xlbench.tasks.samples import corpus, lexicon

# Raise it when any text or the vocabulary changes: older samples are then written anew.
GENERATOR = 2

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

# Words with their parts of speech; {slots} are filled with phrases of `lexicon.forms`.
SENTENCES = {
    'en': (
        '{name} lost/VERB {a_object} in/ADP {town} {time} ./PUNCT',
        '{the_job} laughed/VERB because/SCONJ {name} brought/VERB {number} {things} ./PUNCT',
        '{animal} slept/VERB quietly/ADV in/ADP the/DET garden/NOUN ./PUNCT',
        'Did/AUX you/PRON see/VERB {the_object} ,/PUNCT {name} ?/PUNCT',
        'Oh/INTJ ,/PUNCT {name} and/CCONJ {name2} do/AUX not/PART live/VERB in/ADP {town} !/PUNCT',
        'She/PRON can/AUX carry/VERB {number} {things} if/SCONJ {name} helps/VERB her/PRON ./PUNCT',
        '{time} ,/PUNCT {the_job} always/ADV repairs/VERB {a_object} for/ADP {name} ./PUNCT',
        'They/PRON paid/VERB {price} €/SYM for/ADP {a_object} ./PUNCT',
    ),
    'de': (
        '{name} verlor/VERB {time} {a_object} in/ADP {town} ./PUNCT',
        '{the_job} lachte/VERB ,/PUNCT weil/SCONJ {name} {number} {things} brachte/VERB ./PUNCT',
        '{animal} schlief/VERB ruhig/ADV im/ADP Garten/NOUN ./PUNCT',
        'Hast/AUX du/PRON {the_object} gesehen/VERB ,/PUNCT {name} ?/PUNCT',
        'Ach/INTJ ,/PUNCT {name} und/CCONJ {name2} wohnen/VERB nicht/PART in/ADP {town} !/PUNCT',
        'Sie/PRON kann/AUX {number} {things} tragen/VERB ,/PUNCT wenn/SCONJ {name} ihr/PRON '
        'hilft/VERB ./PUNCT',
        '{time} repariert/VERB {the_job} immer/ADV {a_object} für/ADP {name} ./PUNCT',
        'Sie/PRON bezahlten/VERB {price} €/SYM für/ADP {a_object} ./PUNCT',
    ),
    'fr': (
        '{name} a/AUX perdu/VERB {a_object} à/ADP {town} {time} ./PUNCT',
        '{the_job} a/AUX ri/VERB parce/SCONJ que/SCONJ {name} a/AUX apporté/VERB {number} {things} '
        './PUNCT',
        '{animal} dormait/VERB tranquillement/ADV dans/ADP le/DET jardin/NOUN ./PUNCT',
        'Tu/PRON as/AUX vu/VERB {the_object} ,/PUNCT {name} ?/PUNCT',
        "Oh/INTJ ,/PUNCT {name} et/CCONJ {name2} n'/ADV habitent/VERB pas/ADV à/ADP {town} !/PUNCT",
        "Elle/PRON peut/AUX porter/VERB {number} {things} si/SCONJ {name} l'/PRON aide/VERB "
        './PUNCT',
        '{time} ,/PUNCT {the_job} répare/VERB toujours/ADV {a_object} pour/ADP {name} ./PUNCT',
        'Ils/PRON ont/AUX payé/VERB {price} €/SYM pour/ADP {a_object} ./PUNCT',
    ),
    'es': (
        '{name} perdió/VERB {a_object} en/ADP {town} {time} ./PUNCT',
        '{the_job} rio/VERB porque/SCONJ {name} trajo/VERB {number} {things} ./PUNCT',
        '{animal} dormía/VERB tranquilamente/ADV en/ADP el/DET jardín/NOUN ./PUNCT',
        '¿/PUNCT Has/AUX visto/VERB {the_object} ,/PUNCT {name} ?/PUNCT',
        '¡/PUNCT Oh/INTJ ,/PUNCT {name} y/CCONJ {name2} no/ADV viven/VERB en/ADP {town} !/PUNCT',
        'Ella/PRON puede/AUX llevar/VERB {number} {things} si/SCONJ {name} la/PRON ayuda/VERB '
        './PUNCT',
        '{time} ,/PUNCT {the_job} siempre/ADV repara/VERB {a_object} para/ADP {name} ./PUNCT',
        'Pagaron/VERB {price} €/SYM por/ADP {a_object} ./PUNCT',
    ),
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

PREMISES = {
    'en': (
        '{name} {did} {a_object} in {town} {time}.',
        '{time}, {name} {did} {a_object} in {town}.',
    ),
    'de': (
        '{name} {did} {time} {a_object} in {town}.',
        '{time} {did} {name} {a_object} in {town}.',
    ),
    'fr': (
        '{name} a {did} {a_object} à {town} {time}.',
        '{time}, {name} a {did} {a_object} à {town}.',
    ),
    'es': (
        '{name} {did} {a_object} en {town} {time}.',
        '{time}, {name} {did} {a_object} en {town}.',
    ),
}
# In the order of LABELS, wordings that take it up from the object or from the town.
HYPOTHESES = {
    'en': (
        ('{name} {did} {a_object}.', 'This happened in {town}.'),
        ('{name} {did} {a_object}, and {the_job2} laughed.', '{the_job2} lives in {town}.'),
        ('{name} never {did} {a_object}.', 'This did not happen in {town}.'),
    ),
    'de': (
        ('{name} {did} {a_object}.', 'Das geschah in {town}.'),
        ('{name} {did} {a_object}, und {the_job2} lachte.', '{the_job2} wohnt in {town}.'),
        ('{name} {did} nie {a_object}.', 'Das geschah nicht in {town}.'),
    ),
    'fr': (
        ('{name} a {did} {a_object}.', "Cela s'est passé à {town}."),
        ('{name} a {did} {a_object} et {the_job2} a ri.', '{the_job2} habite à {town}.'),
        ("{name} n'a jamais {did} {a_object}.", "Cela ne s'est pas passé à {town}."),
    ),
    'es': (
        ('{name} {did} {a_object}.', 'Esto ocurrió en {town}.'),
        ('{name} {did} {a_object} y {the_job2} rio.', '{the_job2} vive en {town}.'),
        ('{name} nunca {did} {a_object}.', 'Esto no ocurrió en {town}.'),
    ),
}
VERBS = {
    'en': ('lost', 'found', 'sold', 'bought', 'repaired'),
    'de': ('verlor', 'fand', 'verkaufte', 'kaufte', 'reparierte'),
    'fr': ('perdu', 'trouvé', 'vendu', 'acheté', 'réparé'),
    'es': ('perdió', 'encontró', 'vendió', 'compró', 'reparó'),
}

Example = dict[str, tuple[str, ...]]  # By language: the words and tags, or the columns of a line.


def tagged(rng: random.Random) -> Example:
    """A sentence in each language: its words and its tags, separated by spaces.

    Example, en: 'A fox slept quietly in the garden .', 'DET NOUN VERB ADV ADP DET NOUN PUNCT'
    """
    meanings = lexicon.sample(rng)
    number, price = rng.randrange(len(SENTENCES['en'])), str(rng.randrange(2, 90))
    found = {}
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
        found[lang] = tuple(' '.join(side) for side in zip(*words, strict=True))
    return found


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
    found = {}
    for lang in lexicon.LANGUAGES:
        filled = lexicon.forms(lang, meanings) | {'did': VERBS[lang][verb]}
        templates = PREMISES[lang][wording], HYPOTHESES[lang][label][about]
        sides = (lexicon.sentence(template, filled) for template in templates)
        found[lang] = (*sides, LABELS[label])
    return found


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
            keys = [(lang, texts[0]) for lang, texts in example.items()]
            if all(seen.setdefault(key, split) == split for key in keys):
                examples.append(example)
        splits[split] = examples
    return splits


def write(root: str, seed: int = 0) -> bool:
    """Writes the corpora and their vocabulary; False where they are already."""
    about = {'generator': GENERATOR, 'seed': seed}
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
