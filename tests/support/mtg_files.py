"""Small corpora in MTG's layout, and a vocabulary for them, for tests of what reads such files."""

import pathlib
import random

import sentencepiece
from put_files import put

from xlbench.benchmarks import MTG, XQUAD

_WORDS = """
en the old bridge stands over a quiet river and people walk home in light rain
de die alte Brücke steht über dem stillen Fluss und Leute gehen im Regen heim
fr le vieux pont domine une rivière calme et les gens rentrent sous la pluie
es el viejo puente cruza un río tranquilo y la gente vuelve bajo la lluvia
zh 老桥 横跨 安静 的 河流 人们 在 小雨 中 回家
"""
WORDS = {line.split()[0]: line.split()[1:] for line in _WORDS.strip().splitlines()}


def sentence(lang: str, seed: int, words: int) -> str:
    """A line of text that `seed` decides."""
    rng = random.Random(f'{lang} {seed}')
    known = WORDS.get(lang, WORDS['en'])  # Of a language without words here: other sentences.
    return ' '.join(rng.choice(known) for _ in range(words))


def write_mtg(root, sizes=None, tasks=MTG.tasks, words=12) -> None:
    """Writes <root>/mtg/{task}/{lang}/{split}.{src,trg}; sizes: {split: lines}."""
    for split, lines in (sizes or {'train': 7, 'validation': 5}).items():
        for task in tasks:
            for lang in MTG.languages:
                source = [sentence(lang, i, words) for i in range(lines)]
                if task == 'qg':
                    source = [f'{text}\t{text.split()[0]}' for text in source]
                target = [sentence(lang, -i - 1, 4) for i in range(lines)]
                place = f'mtg/{task}/{lang}/{split}'
                put(root, f'{place}.src', '\n'.join(source) + '\n')
                put(root, f'{place}.trg', '\n'.join(target) + '\n')


def write_vocabulary(root, name='sample.model', vocab_size=420) -> pathlib.Path:
    """Trains a small SentencePiece model with T5's special ids."""
    path = pathlib.Path(root) / name
    lines = [sentence(lang, i, 12) for lang in WORDS for i in range(60)]
    with path.open('wb') as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=file,
            vocab_size=vocab_size,
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            byte_fallback=True,
            user_defined_symbols=['<en>', '<de>', '<fr>', '<es>', '<zh>', '<answer>'],
            hard_vocab_limit=False,
            minloglevel=2,
        )
    return path


def write_xquad(root, langs=XQUAD.languages, articles=20) -> None:
    """Writes <root>/xquad/xquad.<lang>.json: articles of two paragraphs of two questions."""
    for lang in langs:
        data = []
        for article in range(articles):
            paragraphs = []
            for paragraph in range(2):
                context = sentence(lang, 10 * article + paragraph, 9)
                answer = context.split()[3]
                questions = [
                    {'id': f'q{article}-{paragraph}-{number}',
                     'question': sentence(lang, 1000 + 10 * article + number, 5),
                     'answers': [{'text': answer, 'answer_start': context.index(answer)}]}
                    for number in range(2)
                ]  # fmt: skip
                paragraphs.append({'context': context, 'qas': questions})
            data.append({'title': f'A{article}', 'paragraphs': paragraphs})
        put(root, f'xquad/xquad.{lang}.json', {'version': '1.1', 'data': data})
