"""Sample corpora of MTG: made-up text in the benchmark's layout, made from a seed.

Writes `<root>/mtg/<task>/<lang>/<split>.src` and `.trg` for the three tasks, four languages and
four splits. The words of the sentences are in `lexicon`.

Story ending (sg): four sentences, and the fifth is the target. What happened in the first sentence
decides how the story ends; who helped, and where, is said in the third. The second sentence is
about somebody else, the fourth about animals and weather.

  Nora lost a red lantern on Monday. Meanwhile, the judge was carrying a black hat through Mirel.
  Vera had many friends in Torvik. A fox was sleeping in the garden, and it was raining.
  -> Nora and Vera found the red lantern in Torvik.

Question generation (qg): a passage, TAB, an answer from it; the target asks for the answer. The
kind of answer decides the question word. Only the one fact is asked for; the passage also says
what somebody else did, and what animals and weather did.

  Everyone knew that the judge was keeping a black hat in Mirel. In Torvik, Nora bought a red
  lantern on Monday. It was raining, and behind the house a fox was looking for food.<TAB>Nora
  -> Who bought the red lantern in Torvik on Monday?

Title generation (tg): a short news article, its title is the target. What the first sentence
reports decides the form of the title. The article also has a crowd or a price, somebody else, and
animals and weather.

  The baker Nora sold a red lantern in Torvik on Monday. The buyer paid twelve euros. In Mirel, the
  judge only wanted to look at a black hat. A fox ran across the street, and it was raining.
  -> Baker Nora sells red lantern for twelve euros
"""

import itertools
import os
import random
import re
from collections.abc import Callable, Mapping, Sequence

from xlbench.data import tokenizers
from xlbench.tasks.samples import corpus, lexicon, texts

# Examples of each task in each language.
SPLITS = {'rough_train': 6000, 'train': 6000, 'validation': 300, 'test': 300}

# The rough split of MTG was translated by machine: this share of its lines has a slip.
_NOISE_RATE = 0.1
_ARTICLE = re.compile('der|die|das|den|ein|eine|einen|le|la|un|une|el|una')

Example = dict[str, tuple[str, str]]  # By language: source, target.
Wordings = Mapping[str, texts.Cells]  # By language, those of one sentence.

_STORIES, _TITLES, _QUESTIONS = map(texts.read, ('stories', 'titles', 'questions'))
OPENINGS, HELPERS, OTHERS, SCENES = (
    _STORIES[name].wordings() for name in ('openings', 'helpers', 'others', 'scenes')
)
ENDINGS = _STORIES['events'].by_language()  # Rows of (did, ending).
LEADS, PRICES, CROWDS = (_TITLES[name].wordings() for name in ('leads', 'price', 'crowds'))
TITLES = _TITLES['events'].by_language()  # Rows of (did, title).

ROLES = ('who', 'what', 'where', 'when', 'how_many')
FACTS = _QUESTIONS['facts'].wordings()
QUESTIONS = {role: _QUESTIONS[role].wordings() for role in ROLES}
VERBS = _QUESTIONS['verbs'].by_language(*lexicon.LANGUAGES)
ANSWERS = {'who': '{name}', 'what': '{a_object}', 'when': '{time}', 'how_many': '{number}'}
PLACE = _QUESTIONS['place'].wordings()  # The answer to where.


def story(rng: random.Random) -> Example:
    """One story and its ending."""
    return _told(rng, ENDINGS, lambda event: (OPENINGS, OTHERS, HELPERS, SCENES))


def article(rng: random.Random) -> Example:
    """One article and its title; the first event is a sale, which has a price."""
    return _told(rng, TITLES, lambda event: (LEADS, CROWDS if event else PRICES, OTHERS, SCENES))


def _told(
    rng: random.Random,
    events: Mapping[str, Sequence[texts.Cells]],
    sentences: Callable[[int], Sequence[Wordings]],
) -> Example:
    """Four sentences about an event, in each language, and the target that `events` gives it."""
    meanings = lexicon.sample(rng)
    event = rng.randrange(len(events['en']))
    chosen = [(wordings, rng.randrange(3)) for wordings in sentences(event)]
    sides = {}
    for lang in lexicon.LANGUAGES:
        did, target = events[lang][event]
        filled = lexicon.forms(lang, meanings) | {'did': did}
        # The price has one wording.
        templates = (wordings[lang][n % len(wordings[lang])] for wordings, n in chosen)
        source = ' '.join(lexicon.sentence(template, filled) for template in templates)
        sides[lang] = source, lexicon.sentence(target, filled)
    return sides


def _forms(lang: str, meanings: dict[str, int], verb: int, role: str) -> dict[str, str]:
    """The words of the passage and the question in one language."""
    filled = lexicon.forms(lang, meanings)
    verb_forms = VERBS[lang][verb][0].split(', ')
    filled['did'] = verb_forms[0]
    filled['do'] = filled['did_plural'] = verb_forms[-1]
    # The French question repeats its subject after the verb.
    filled['pronoun'] = 'elle' if meanings['name'] < len(lexicon.WOMEN) else 'il'
    things = '{number} {things}'.format_map(filled)
    filled['what'] = things if role == 'how_many' else filled['a_object']
    return filled


def question(rng: random.Random) -> Example:
    """One source (passage, TAB, answer) and its question."""
    meanings = lexicon.sample(rng)
    role = rng.choice(ROLES)
    verb = rng.randrange(len(VERBS['en']))
    fact, other, scene = (rng.randrange(3) for _ in range(3))
    fact_first = rng.random() < 0.5
    sides = {}
    for lang in lexicon.LANGUAGES:
        filled = _forms(lang, meanings, verb, role)
        facts = [FACTS[lang][fact], OTHERS[lang][other]]
        passage = (*(facts if fact_first else facts[::-1]), SCENES[lang][scene])
        answer = PLACE[lang][0] if role == 'where' else ANSWERS[role]
        source = ' '.join(lexicon.sentence(template, filled) for template in passage)
        asked = lexicon.sentence(QUESTIONS[role][lang][0], filled)
        sides[lang] = f'{source}\t{answer.format_map(filled)}', asked
    return sides


TASKS = {'sg': story, 'qg': question, 'tg': article}


def make_splits(task: str, seed: int) -> dict[str, list[Example]]:
    """The examples of every split of one task.

    No source occurs twice, in any language or split; of a QG source the passage alone decides.
    """

    def make(rng: random.Random, split: str) -> Example:
        example = TASKS[task](rng)
        return _roughen(example, rng) if split == 'rough_train' else example

    def keys(example: Example) -> list[tuple[str, str]]:
        return [(lang, source.split('\t')[0]) for lang, (source, _) in example.items()]

    return corpus.draw_splits(f'mtg/{task}', SPLITS, seed, make, keys)


def _roughen(example: Example, rng: random.Random) -> Example:
    """Gives some of the sources that are not English one slip each; targets stay as they are."""
    rough = {}
    for lang, (source, target) in example.items():
        if lang != 'en' and rng.random() < _NOISE_RATE:
            passage, *answer = source.split('\t')
            source = '\t'.join([corpus.slip(passage, rng, _ARTICLE.fullmatch), *answer])
        rough[lang] = source, target
    return rough


def _write_corpora(folder: str, seed: int) -> None:
    for task in TASKS:
        for split, examples in make_splits(task, seed).items():
            for lang in lexicon.LANGUAGES:
                for side, part in (('src', 0), ('trg', 1)):
                    path = os.path.join(folder, task, lang, f'{split}.{side}')
                    lines = (example[lang][part] + '\n' for example in examples)
                    corpus.write_text(path, ''.join(lines))


def _train(folder: str) -> bytes:
    """The vocabulary, of every fourth training line; the words are few, most become one piece."""
    lines = [
        line.replace('\t', ' ')
        for task, lang, side in itertools.product(TASKS, lexicon.LANGUAGES, ('src', 'trg'))
        for line in corpus.lines(folder, task, lang, f'train.{side}')[::4]
    ]
    symbols = ('<en>', '<de>', '<fr>', '<es>', '<zh>', '<answer>')
    return tokenizers.train_sentencepiece(lines, size=4000, symbols=symbols, model_type='bpe')


SAMPLE = corpus.Sample(
    name='mtg',
    generator=2,
    texts=('lexicon', 'stories', 'questions', 'titles'),
    vocabulary=tokenizers.SAMPLE_FILES['sample'],
    fill=_write_corpora,
    train=_train,
)
write = SAMPLE.write
