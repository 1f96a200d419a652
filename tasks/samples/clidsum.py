"""The sample corpus of ClidSum: made-up dialogues in the official files, made from a seed.

Writes what `tasks/clidsum.py` reads below `<root>/clidsum`: chats as XSAMSum, interviews as
XMediaSum40k, and three times as many interviews with English summaries as MediaSum424k; beside the
dialogues their triples of who does what, and in the first two folders their topics and stages,
train.views.jsonl. The same seed gives the same bytes, but for the views, which come from floats.

Who does what, and who is for something, is decided over several turns, so a summary needs all of
the dialogue. In a chat, two to five people share the work for a plan and agree on a time:

  Anna: Hi all! We still have to plan a film night.       -> Anna and Leo plan a film night. Anna
  Leo: I am in.                                              will order the pizza because Leo has
  Anna: Leo, can you order the pizza?                        to work late. They will meet on Monday.
  Leo: Sorry, I have to work late.
  Anna: Then I will do it. Let's meet on Monday.
  Leo: Fine.

In an interview, a host asks two to eight guests about a topic. Some of them change their minds,
and one says what will be done.
"""

import functools
import itertools
import json
import os
import random
import re
from collections.abc import Mapping, Sequence

from xlbench.benchmarks.clidsum import SUMMARIZE
from xlbench.data import actions, noise, segments, tokenizers
from xlbench.data.readers import Json
from xlbench.system import files
from xlbench.tasks.samples import corpus, texts

LANGUAGES = ('en', 'de', 'zh')
SPLITS = {'train': 6000, 'val': 200, 'test': 300}  # Dialogues of each corpus.
MONOLINGUAL = 'MediaSum424k'
INTERVIEWS = 3 * SPLITS['train']  # Of the monolingual part, beside those of XMediaSum40k.
SUMMARIES = {'summary': 'en', 'summary_de': 'de', 'summary_zh': 'zh'}
SYMBOLS = tuple(f'<{lang}>' for lang in LANGUAGES)
_VOCABULARY_DIALOGUES = 1500  # Of each corpus; the words are few.

_BLOCKS = texts.read('talks')
NAMES = _BLOCKS['names'].table()
_CHINESE_NAME = re.compile('|'.join(name for _, name in NAMES))
# The meanings that fill a slot: rows of (en, de, zh).
TABLES = {
    slot: _BLOCKS[name].table()
    for slot, name in {
        'plan': 'plans', 'job': 'jobs', 'duty': 'duties', 'time': 'times', 'topic': 'topics',
        'measure': 'measures',
    }.items()
}  # fmt: skip
# A piece of a wording, and who does what in it; see the text file.
ACTIONS = _BLOCKS['actions'].table()
# What is said in dialogues, in English, and told in summaries.
SENTENCES = {name: block.wordings() for name, block in _BLOCKS.items() if block.rows[0][0]}
UTTERANCES = {name: by_language['en'] for name, by_language in SENTENCES.items()}

_DONE = ('job', 'duty', 'measure')
_OBJECT = re.compile(r' (?=(?:the|an?|bed)\b)')

# Shares of what may happen.
_REFUSED, _CALLED, _OBJECTED, _TURNED, _CHATTER = 0.5, 0.25, 0.4, 0.25, 0.3

People = list[int]  # Rows of NAMES.


class Talk:
    """A dialogue in the making, and its summaries."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.turns: list[tuple[int, str]] = []  # Who speaks, what they say.
        self.summary: dict[str, list[str]] = {lang: [] for lang in LANGUAGES}  # Sentences.
        # Who does what in the turns, a line each; see xlbench.data.actions.
        self.triples: list[str] = []

    def draw(self, slot: str, count: int) -> list[int]:
        """Draws different rows of a table."""
        return self.rng.sample(range(len(TABLES[slot])), count)

    def say(self, speaker: int, kind: str, name: int | None = None, **meanings: int) -> None:
        """Adds a turn, in one of the wordings of its kind."""
        filled = {slot: TABLES[slot][row][0] for slot, row in meanings.items()}
        if name is not None:
            filled['name'] = NAMES[name][0]
        wording = self.rng.choice(UTTERANCES[kind])
        self.turns.append((speaker, wording.format(**filled)))
        self.triples += _triples(wording, tuple(filled.items()))

    def tell(self, kind: str, people: People, wording: int = 0, **meanings: int) -> None:
        """Adds a sentence to the summaries, about one or several people."""
        for at, lang in enumerate(LANGUAGES):
            names = [NAMES[person][lang == 'zh'] for person in people]
            filled = {slot: TABLES[slot][row][at] for slot, row in meanings.items()}
            filled |= {'name': names[0], 'other': names[-1], 'names': _list(names, lang)}
            self.summary[lang].append(SENTENCES[kind][lang][wording].format(**filled))

    def texts(self, host: int | None = None) -> dict[str, str]:
        """The dialogue, a line a turn, its summaries by their keys in files, and its `triples`."""
        lines = [
            f'{NAMES[who][0].upper()}, HOST: {said}' if who == host else f'{NAMES[who][0]}: {said}'
            for who, said in self.turns
        ]
        summaries = {
            key: ('' if lang == 'zh' else ' ').join(self.summary[lang])
            for key, lang in SUMMARIES.items()
        }
        return {'dialogue': '\n'.join(lines)} | summaries | {'triples': ''.join(self.triples)}


def names_apart(chinese: str) -> str:
    """Puts commas around names, since without spaces a piece might hold one and what follows it."""
    return _CHINESE_NAME.sub(r'，\g<0>，', chinese)


def _list(names: Sequence[str], lang: str) -> str:
    """Names as a list. Example: 'Anna, Leo and Tim'."""
    text = names[0]
    for at, name in enumerate(names[1:], 2):
        text = SENTENCES['lists'][lang][at == len(names)].format(name=text, other=name)
    return text


@functools.cache  # Few different utterances are said again and again.
def _triples(wording: str, slots: tuple[tuple[str, str], ...]) -> list[str]:
    """Lists the triples of an utterance, a line each."""
    filled = dict(slots)
    done = next((filled[slot] for slot in _DONE if slot in filled), '')
    # Example: 'look for the key' -> 'look for', 'the key'; 'work late' has no object.
    does, _, what = _OBJECT.sub('|', done, count=1).partition('|')
    lines = []
    for piece, *phrases in ACTIONS:
        if piece not in wording:
            continue
        names = {**filled, 'does': does, 'what': what}
        subject, relation, target = (phrase.format(**names) for phrase in phrases)
        for number, tokens in enumerate(actions.sentences(wording.format(**filled))):
            at = actions.find(subject, tokens)
            verb = at and actions.find(relation, tokens, at[1])
            if verb:
                behind = actions.find(target, tokens, verb[1]) if target else None
                triple = actions.Triple(at, verb, behind or (0, 0))
                tags = ['_'] * len(tokens)
                lines.append(actions.line(actions.OF_SAMPLE, number, tokens, tags, triple))
    return lines


def chat(rng: random.Random) -> dict[str, str]:
    """One chat; see Talk.texts."""
    talk = Talk(rng)
    people = rng.sample(range(len(NAMES)), rng.choice((2, 2, 3, 3, 4, 5)))
    first, *others = people
    (plan,) = talk.draw('plan', 1)
    talk.say(first, 'greetings', plan=plan)
    for person in others:
        talk.say(person, 'joining')
    talk.tell('planning', people, plan=plan)
    for job in talk.draw('job', rng.choice((1, 2))):
        if rng.random() < _CHATTER:
            talk.say(rng.choice(people), 'chatter')
        _share(talk, people, job)
    time, later = talk.draw('time', 2)
    one, two = rng.sample(people, 2)
    talk.say(one, 'suggesting', time=time)
    if rng.random() < _OBJECTED:
        talk.say(two, 'objecting', time=later)
        one, two, time = two, one, later
    talk.say(two, 'agreeing')
    talk.tell('meeting', people, time=time)
    return talk.texts()


def _share(talk: Talk, people: People, job: int) -> None:
    """Somebody takes a job: the one who is asked, another one instead, or a volunteer."""
    rng = talk.rng
    one, two = rng.sample(people, 2)
    if rng.random() < _CALLED:
        talk.say(one, 'calling', job=job)
        talk.say(two, 'volunteering')
        talk.tell('doing', [two], job=job)
        return
    talk.say(one, 'asking', two, job=job)
    if rng.random() < _REFUSED:
        (duty,) = talk.draw('duty', 1)
        talk.say(two, 'refusing', duty=duty)
        helper = rng.choice([person for person in people if person != two])
        talk.say(helper, 'replacing')
        talk.tell('standing_in', [helper, two], job=job, duty=duty)
    else:
        talk.say(two, 'accepting')
        talk.tell('doing', [two], job=job)


def interview(rng: random.Random) -> dict[str, str]:
    """One interview; see Talk.texts."""
    talk = Talk(rng)
    host, *guests = rng.sample(range(len(NAMES)), rng.choice((3, 3, 4, 4, 5, 6, 7, 8, 9)))
    (topic,) = talk.draw('topic', 1)
    talk.say(host, 'welcomes', topic=topic)
    talk.tell('talking', [host], topic=topic)
    supports = {guest: rng.random() < 0.5 for guest in guests}
    for guest in guests:
        if rng.random() < _CHATTER:
            talk.say(host, 'questions', guest)
        talk.say(guest, 'supporting' if supports[guest] else 'opposing')
    if rng.random() < _TURNED:
        turned = rng.choice(guests[:-1])
        talk.say(turned, 'turning')
        supports[turned] = not supports[turned]
    for side in (True, False):
        group = [guest for guest in guests if supports[guest] == side]
        if group:
            talk.tell('sides', group, (0 if side else 2) + (len(group) > 1))
    (measure,) = talk.draw('measure', 1)
    last = rng.choice(guests)
    talk.say(host, 'ends', last)
    talk.say(last, 'announcing', measure=measure)
    talk.tell('outcome', [last], measure=measure)
    return talk.texts(host)


# ---------------------------------------------------------------------------------------------
# The files.

# Folder -> what makes a dialogue, and what its lines end with, as in the official files.
CORPORA = {'XSAMSum': (chat, '\r\n'), 'XMediaSum40k': (interview, '\n')}


def make_splits(folder: str, seed: int) -> dict[str, list[dict[str, str]]]:
    """The objects of the files of one of CORPORA, each with its `triples`; no dialogue is twice."""
    make, line_end = CORPORA[folder]

    def make_one(rng: random.Random, _: str) -> dict[str, str]:
        made = make(rng)
        return made | {'dialogue': made['dialogue'].replace('\n', line_end)}

    return corpus.draw_splits(
        f'clidsum/{folder}', SPLITS, seed, make_one, lambda made: [made['dialogue']]
    )


def make_interviews(
    splits: Mapping[str, Sequence[Mapping[str, str]]], seed: int
) -> tuple[list[dict[str, Json]], dict[str, list[str]]]:
    """The objects of MediaSum, and by split the ids of those that XMediaSum40k has."""
    rng = random.Random(f'clidsum/{MONOLINGUAL}/{seed}')
    talked = [(split, example) for split, examples in splits.items() for example in examples]
    seen = {example['dialogue'] for _, example in talked}
    while len(seen) < sum(map(len, splits.values())) + INTERVIEWS:
        made = interview(rng)
        if made['dialogue'] not in seen:
            seen.add(made['dialogue'])
            talked.append(('', made))
    # As in the official file, those of all parts stand among each other.
    places = [rng.random() for _ in talked]
    ids: dict[str, list[str]] = {split: [] for split in splits}
    objects: list[dict[str, Json]] = []
    for number, at in enumerate(sorted(range(len(talked)), key=places.__getitem__), 1):
        split, example = talked[at]
        turns = (line.split(': ', 1) for line in example['dialogue'].split('\n'))
        speakers, said = map(list, zip(*turns, strict=True))
        if split:
            ids[split].append(f'TALK-{number}')
        about = {'id': f'TALK-{number}', 'summary': example['summary']}
        spoken = {'utt': said, 'speaker': speakers}
        objects.append(about | spoken | {'triples': example['triples']})
    return objects, ids


def _write_corpus(folder: str, seed: int) -> None:
    for name in CORPORA:
        splits = make_splits(name, seed)
        for split, examples in splits.items():
            _write_dialogues(os.path.join(folder, name, split), examples)
        # Topics and stages, as `xlbench data segment` makes them. Few words and few dialogues
        # suffice to tell the stages of made-up ones apart.
        dialogues = [segments.utterances(x['dialogue']) for part in splits.values() for x in part]
        vectors = iter(segments.word_vectors(dialogues, size=200))
        parts = [list(itertools.islice(vectors, len(examples))) for examples in splits.values()]
        views = segments.views_of(parts, iterations=10, most_fitted=500)
        for split, part in zip(splits, views, strict=True):
            path = os.path.join(folder, name, f'{split}.json')
            segments.write_views(segments.views_path(path), part)
    objects, ids = make_interviews(splits, seed)
    folder = os.path.join(folder, MONOLINGUAL)
    _write_dialogues(os.path.join(folder, 'news_dialogue'), objects)
    path = os.path.join(folder, 'train_val_test_split.40k.json')
    corpus.write_text(path, files.as_json(ids))


def _write_dialogues(path: str, objects: Sequence[Mapping[str, Json]]) -> None:
    """Writes the objects of a file, and their triples beside it; the path has no ending."""
    triples = ''.join(example['triples'] for example in objects)
    # The same sentence has the same triples, which OpenIE would print each time.
    lines = dict.fromkeys(triples.splitlines(keepends=True))
    corpus.write_text(f'{path}.triples.tsv', ''.join(lines))
    others = [{k: v for k, v in example.items() if k != 'triples'} for example in objects]
    corpus.write_text(f'{path}.json', files.as_json(others))


def _train(folder: str) -> bytes:
    """The vocabulary, of the texts in lower case, as the tasks have them."""
    lines: list[str] = []
    for name in CORPORA:
        with open(os.path.join(folder, name, 'train.json'), encoding='utf-8') as file:
            examples = json.load(file)[:_VOCABULARY_DIALOGUES]
        for example in examples:
            lines += example['dialogue'].lower().splitlines()
            lines += [example[key].lower() for key in ('summary', 'summary_de')]
            lines.append(names_apart(example['summary_zh']))
    model = tokenizers.train_sentencepiece(lines, size=2000, symbols=SYMBOLS, model_type='bpe')
    return tokenizers.with_symbols(model, (noise.MASK, SUMMARIZE, segments.MARK.strip()))


SAMPLE = corpus.Sample(
    name='clidsum',
    generator=4,
    texts=('talks',),
    vocabulary=tokenizers.SAMPLE_FILES['sample_clidsum'],
    fill=_write_corpus,
    train=_train,
)
write = SAMPLE.write
