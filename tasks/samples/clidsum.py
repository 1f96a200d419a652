"""The sample corpus of ClidSum: made-up dialogues in the official files, made from a seed.

Writes what `tasks/clidsum.py` reads, `<root>/clidsum/{XSAMSum,XMediaSum40k}/{train,val,test}.json`,
with chats in the first folder and interviews in the second; for the semi-supervised setting three
times as many interviews with English summaries in `<root>/clidsum/MediaSum424k`; beside each file
of dialogues its triples of who does what, train.triples.tsv, and in the first two folders its
topics and stages, train.views.jsonl; and `<root>/sample_clidsum.model`, a
SentencePiece vocabulary of its own. The same seed gives the same bytes, but for the views, which
come from floats. What is said is in `talks`.
"""

import itertools
import json
import os
import random
from collections.abc import Mapping, Sequence

from xlbench.benchmarks.clidsum import SUMMARIZE
from xlbench.data import noise, segments, tokenizers
from xlbench.data.readers import Json
from xlbench.tasks.samples import corpus, talks

# Folder -> what makes a dialogue, and what its lines end with, as in the official files.
CORPORA = {'XSAMSum': (talks.chat, '\r\n'), 'XMediaSum40k': (talks.interview, '\n')}
SPLITS = {'train': 6000, 'val': 200, 'test': 300}  # Dialogues of each corpus.
MONOLINGUAL = 'MediaSum424k'
INTERVIEWS = 3 * SPLITS['train']  # Of the monolingual part, beside those of XMediaSum40k.
SUMMARIES = {'summary': 'en', 'summary_de': 'de', 'summary_zh': 'zh'}

_VOCABULARY_PIECES = 2000
_VOCABULARY_DIALOGUES = 1500  # Of each corpus; the words are few.
_SYMBOLS = tuple(f'<{lang}>' for lang in talks.LANGUAGES)


def make_splits(folder: str, seed: int) -> dict[str, list[dict[str, str]]]:
    """The objects of the files of one of CORPORA, by split; no dialogue occurs twice.

    Beside what the files have, each object has its `triples`.
    """
    make, line_end = CORPORA[folder]

    def make_one(rng: random.Random, split: str) -> dict[str, str]:
        del split
        made = make(rng)
        summaries = {key: made[lang] for key, lang in SUMMARIES.items()}
        dialogue = made['dialogue'].replace('\n', line_end)
        return {'dialogue': dialogue} | summaries | {'triples': made['triples']}

    return corpus.draw_splits(
        f'clidsum/{folder}', SPLITS, seed, make_one, lambda made: [made['dialogue']]
    )


def make_interviews(
    splits: Mapping[str, Sequence[Mapping[str, str]]], seed: int
) -> tuple[list[dict[str, Json]], dict[str, list[str]]]:
    """The objects of MediaSum, and the ids of those that `splits` have, by split.

    Beside what the file has, each object has its `triples`.

    Args:
      splits: those of XMediaSum40k, as `make_splits` gives them.
      seed: of the others.
    """
    rng = random.Random(f'clidsum/{MONOLINGUAL}/{seed}')
    talked = [(split, example) for split, examples in splits.items() for example in examples]
    seen = {example['dialogue'] for _, example in talked}
    while len(seen) < sum(map(len, splits.values())) + INTERVIEWS:
        made = talks.interview(rng)
        if made['dialogue'] not in seen:
            seen.add(made['dialogue'])
            talked.append(('', made | {'summary': made['en']}))
    # As in the official file, those of all parts stand among each other.
    places = [rng.random() for _ in talked]
    ids: dict[str, list[str]] = {split: [] for split in splits}
    objects: list[dict[str, Json]] = []
    for number, at in enumerate(sorted(range(len(talked)), key=places.__getitem__), 1):
        split, example = talked[at]
        turns = [line.split(': ', 1) for line in example['dialogue'].split('\n')]
        name = f'TALK-{number}'
        if split:
            ids[split].append(name)
        objects.append(
            {
                'id': name,
                'summary': example['summary'],
                'utt': [said for _, said in turns],
                'speaker': [speaker for speaker, _ in turns],
                'triples': example['triples'],
            }
        )
    return objects, ids


def _write_corpus(folder: str, seed: int) -> None:
    for name in CORPORA:
        splits = make_splits(name, seed)
        for split, examples in splits.items():
            _write_dialogues(folder, name, split, examples)
        _write_views(folder, name, splits)
    objects, ids = make_interviews(splits, seed)
    _write_dialogues(folder, MONOLINGUAL, 'news_dialogue', objects)
    _write_json(folder, MONOLINGUAL, 'train_val_test_split.40k', ids)


def _write_dialogues(
    folder: str, name: str, file: str, objects: Sequence[Mapping[str, Json]]
) -> None:
    """Writes the objects of a file, and their triples beside it."""
    triples = ''.join(example['triples'] for example in objects)
    # The same sentence has the same triples, which OpenIE would print each time.
    lines = dict.fromkeys(triples.splitlines(keepends=True))
    corpus.write_text(os.path.join(folder, name, f'{file}.triples.tsv'), ''.join(lines))
    others = [{k: v for k, v in example.items() if k != 'triples'} for example in objects]
    _write_json(folder, name, file, others)


def _write_views(
    folder: str, name: str, splits: Mapping[str, Sequence[Mapping[str, str]]]
) -> None:
    """Writes the topics and stages of all splits of a corpus, as `xlbench data segment` makes them.

    Few words and few dialogues suffice to tell the stages of made-up ones apart.
    """
    dialogues = [segments.utterances(x['dialogue']) for part in splits.values() for x in part]
    vectors = iter(segments.word_vectors(dialogues, size=200))
    parts = [list(itertools.islice(vectors, len(examples))) for examples in splits.values()]
    views = segments.views_of(parts, iterations=10, most_fitted=500)
    for split, part in zip(splits, views, strict=True):
        path = os.path.join(folder, name, f'{split}.json')
        segments.write_views(segments.views_path(path), part)


def _write_json(folder: str, name: str, file: str, content: Json) -> None:
    text = json.dumps(content, ensure_ascii=False, indent=1)
    corpus.write_text(os.path.join(folder, name, f'{file}.json'), text + '\n')


def _train(folder: str) -> bytes:
    """The vocabulary, of the texts in lower case, as the tasks have them."""
    lines: list[str] = []
    for name in CORPORA:
        with open(os.path.join(folder, name, 'train.json'), encoding='utf-8') as file:
            examples = json.load(file)[:_VOCABULARY_DIALOGUES]
        for example in examples:
            lines += example['dialogue'].lower().splitlines()
            lines += [example[key].lower() for key in ('summary', 'summary_de')]
            lines.append(talks.names_apart(example['summary_zh']))
    model = tokenizers.train_sentencepiece(
        lines, size=_VOCABULARY_PIECES, symbols=_SYMBOLS, model_type='bpe'
    )
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
