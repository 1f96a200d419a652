"""Noise of dialogues: the official cases, the share of masks, and what decides the draws."""

import collections
import random

import numpy as np
import pytest

from xlbench.data import noise

WORDS = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten']
TALK = f'Anna: {" ".join(WORDS * 2)}.\nBen: {" ".join(WORDS)}!\nAnna: Ok.'


def actions(sentence, *phrases):
    names = ('subject', 'relation', 'object')
    return noise.actions_of([dict(zip(names, phrases, strict=True)) | {'sentence': sentence}])


def test_the_golden_cases(golden):
    for case in golden('clidsum/infill_one_span') + golden('clidsum/infill_neighbouring'):
        given = case['inputs']
        masked = noise.mask_spans(given['utterance'], map(tuple, given['spans_token_start_end']))
        assert masked == case['expected']['input']
    (case,) = golden('clidsum/infill_budget')
    counts = [
        noise.budget(n, case['inputs']['rate']) for n in case['inputs']['tokens_in_utterance']
    ]
    assert counts == case['expected']['budget_round_half_even']
    (case,) = golden('clidsum/pretraining_task_strings')
    given, expected = case['inputs'], case['expected']
    spans = given['masked_spans_per_utterance_in_tokens_after_the_speaker']
    lines = zip(given['dialogue'].split('\n'), spans, strict=True)
    masked = [noise.mask_spans(line, map(tuple, chosen)) for line, chosen in lines]
    assert '\n'.join(masked) == expected['action_infilling']['input']
    shuffled = noise.reorder(given['dialogue'], given['permutation'])
    assert shuffled == expected['utterance_permutation']['input']


def test_phrases_are_found_whatever_the_tokenizer_wrote():
    words = ['Well,', 'I', "don't", 'know.', "She'll", 'bring', 'him', 'the', 'Old', 'Key!']
    found = noise.action_spans(words, actions("Well , I do n't know .", 'I', "do n't know", ''))
    assert found == {(1, 2), (2, 4)}
    known = actions("She 'll bring him the old key !", 'She', "'ll bring", 'the old key')
    assert noise.action_spans(words, known) == {(7, 10)}  # "She'll" is one word.
    assert noise.action_spans(words, actions('Another sentence', 'I', 'know', 'him')) == set()
    assert noise.action_spans([], known) == set()


def test_infilling_keeps_speakers_and_the_share():
    sentence = ' '.join(WORDS * 2)
    known = actions(sentence, 'two three', 'five', 'seven eight nine')
    spans, taken = noise.dialogue_spans(TALK, known), collections.Counter()
    for number in range(200):
        masked = noise.infill_spans(TALK, spans, noise.generator(7, 0, number))
        first, *others = masked.split('\n')
        assert others == TALK.split('\n')[1:]
        assert first.startswith('Anna: ') and noise.MASK in first
        kept = [word for word in first.split()[1:] if word != noise.MASK]
        taken[20 - len(kept)] += 1
    assert set(taken) == {noise.budget(31)}  # Also those of the others, which have no action.


def test_the_order_always_changes_and_line_ends_stay():
    text = 'A: 1\r\nB: 2\nC: 3'
    orders = collections.Counter(
        noise.permute(text, noise.generator(0, epoch, 5)) for epoch in range(1000)
    )
    assert len(orders) == 5 and text not in orders and min(orders.values()) > 150
    assert all(order[4:6] == '\r\n' and order[10] == '\n' for order in orders)
    assert noise.permute('A: 1', noise.generator(0, 0, 0)) == 'A: 1'


@pytest.mark.parametrize('change', [(1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_seed_epoch_and_number_decide_alone(change):
    text = '\n'.join(f'A: {i}' for i in range(30))
    same = [noise.permute(text, noise.generator(0, 0, 0)) for _ in range(2)]
    assert same[0] == same[1] != noise.permute(text, noise.generator(*change))


def test_about_15_percent_of_the_tokens_are_masked_and_each_as_often():
    """Where all tokens are of actions; an utterance of fewer than four has no room for a mask."""
    shares, places = [], collections.Counter()
    for length in range(4, 64):
        words = [f'w{"x" * n}' for n in range(length)]
        spans = [(at, at + 1) for at in range(length)]
        for number in range(40):
            text = noise.infill_spans(
                f'Anna: {" ".join(words)}', [spans], noise.generator(3, number, length)
            )
            masked = [at for at, word in enumerate(text.split()[1:]) if word == noise.MASK]
            assert len(masked) == noise.budget(length)
            shares.append(len(masked) / length)
            if length == 40:
                places.update(masked)
    assert sum(shares) / len(shares) == pytest.approx(noise.SHARE, abs=0.01)
    assert places.total() == 40 * 6 and len(places) > 30 and max(places.values()) < 16


def interview(numbers: random.Random, pieces: int) -> tuple[str, noise.Actions]:
    """An interview of MediaSum's length (1,554 words, arXiv:2103.06410, table 1): 30 long turns.

    OpenIE finds something in three of four sentences, and nothing in short turns.
    """
    lines, triples = [], []
    for turn in range(30):
        sentences = []
        for _ in range(numbers.randint(1, 8)):
            words = [f'w{numbers.randint(0, pieces)}' for _ in range(numbers.randint(2, 22))]
            sentences.append(' '.join(words) + '.')
            if numbers.random() < 0.75 and len(words) > 4:
                cuts = sorted(numbers.sample(range(1, len(words)), 2))
                parts = words[: cuts[0]], words[cuts[0] : cuts[1]], words[cuts[1] :]
                names = 'subject', 'relation', 'object'
                phrases = dict(zip(names, map(' '.join, parts), strict=True))
                triples.append({'sentence': sentences[-1], **phrases})
        lines.append(f'speaker {turn}: {" ".join(sentences)}')
    return '\n'.join(lines), noise.actions_of(triples)


def test_interviews_lose_15_percent_and_nothing_is_restored_that_was_not_read():
    shares, kept = [], []
    for number in range(40):
        draw = random.Random(number)
        whole, known = interview(draw, 400)
        encode = lambda texts: [text.replace('w', 'w ').split() for text in texts]  # noqa: E731
        text = noise.cut(whole, 1016, encode)
        assert whole.startswith(text) and len(encode([text])[0]) <= 1016
        kept.append(len(encode([text])[0]))
        shuffled = noise.permute(text, noise.generator(0, 0, number))
        assert sorted(shuffled.split()) == sorted(text.split())
        assert len(encode([shuffled])[0]) <= 1016
        spans = noise.dialogue_spans(text, known)
        masked = noise.infill_spans(text, spans, noise.generator(0, 0, number))
        words = [len(line.partition(': ')[2].split()) for line in text.split('\n')]
        rest = [
            sum(word != noise.MASK for word in line.partition(': ')[2].split())
            for line in masked.split('\n')
        ]
        shares.append(1 - sum(rest) / sum(words))
        for before, after in zip(words, rest, strict=True):
            assert before - after <= max(before // 2, noise.budget(before))
    assert min(kept) > 1000
    assert np.mean(shares) == pytest.approx(0.15, abs=0.01) and min(shares) > 0.12


def test_one_long_utterance_is_cut_behind_a_word():
    encode = lambda texts: [text.split() for text in texts]  # noqa: E731
    assert noise.cut('a: b c d e f\r\ng: h', 4, encode) == 'a: b c d'
    assert noise.cut('a: b\r\nc: d e f', 4, encode) == 'a: b\r\nc: d'
    assert noise.cut('a: b\nc: d', 4, encode) == 'a: b\nc: d'
    assert noise.cut('ab', 0, encode) == ''
