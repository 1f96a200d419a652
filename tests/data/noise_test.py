"""Noise of dialogues: the official cases, the share of masks, and what decides the draws."""

import collections

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
    taken = collections.Counter()
    for number in range(200):
        first, *others = noise.infill(TALK, known, noise.generator(7, 0, number)).split('\n')
        assert others == TALK.split('\n')[1:]
        assert first.startswith('Anna: ') and noise.MASK in first
        kept = [word for word in first.split()[1:] if word != noise.MASK]
        assert 1 <= 20 - len(kept) <= 3
        taken[20 - len(kept)] += 1
    assert set(taken) == {2, 3}  # As much as fits: of three tokens' room, one is never enough.


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
