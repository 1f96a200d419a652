"""Features: hand-worked rows, and packing that equals its examples alone."""

import dataclasses
import itertools
import timeit
import types

import numpy as np
import pytest

from xlbench.data import features, tokenizers
from xlbench.system.errors import UserError

IDS = features.Conventions(pad_id=0, eos_id=1, decoder_start_id=0, vocab_size=100)


def example(inputs, targets) -> dict:
    return {'inputs': np.array(inputs, np.int32), 'targets': np.array(targets, np.int32)}


def generation(rows, inputs: int, targets: int, conventions=IDS, **kwargs) -> dict:
    lengths = {'inputs': inputs, 'targets': targets}
    return features.generation(rows, features.Layout(lengths, conventions, **kwargs))


def assert_features(batch, expected) -> None:
    assert batch.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(batch[name], value, name)
        assert batch[name].dtype == (np.float32 if name.endswith('weights') else np.int32)


def test_a_packed_row_by_hand():
    start = features.Conventions(pad_id=9, eos_id=1, decoder_start_id=2, vocab_size=100)
    two = [example([5, 1], [8, 1]), example([6, 7, 1], [1])]
    batch = generation([two, example([4, 1], [3, 4, 1]), []], 6, 4, start)
    expected = {
        'encoder_input_tokens': [[5, 1, 6, 7, 1, 9], [4, 1, 9, 9, 9, 9], [9] * 6],
        'encoder_segment_ids': [[1, 1, 2, 2, 2, 0], [1, 1, 0, 0, 0, 0], [0] * 6],
        'encoder_positions': [[0, 1, 0, 1, 2, 0], [0, 1, 0, 0, 0, 0], [0] * 6],
        'decoder_input_tokens': [[2, 8, 2, 9], [2, 3, 4, 9], [9] * 4],
        'decoder_target_tokens': [[8, 1, 1, 9], [3, 4, 1, 9], [9] * 4],
        'decoder_segment_ids': [[1, 1, 2, 0], [1, 1, 1, 0], [0] * 4],
        'decoder_positions': [[0, 1, 0, 0], [0, 1, 2, 0], [0] * 4],
        'decoder_loss_weights': [[1, 1, 1, 0], [1, 1, 1, 0], [0] * 4],
    }
    assert_features(batch, expected)


def test_the_language_of_targets_is_the_first_input_alone():
    """Targets [8, X, 1]: a decoder is fed 8 X and writes X 1; a trimmed row keeps the end."""
    rows = [[example([5, 1], [8, 6, 1]), example([7, 1], [9, 1])], example([5, 1], [8, 2, 3, 4, 1])]
    layout = features.Layout({'inputs': 4, 'targets': 4}, IDS)
    batch = features.language_start(rows, layout)
    np.testing.assert_array_equal(batch['decoder_input_tokens'], [[8, 6, 9, 0], [8, 2, 3, 0]])
    np.testing.assert_array_equal(batch['decoder_target_tokens'], [[6, 1, 1, 0], [2, 3, 1, 0]])
    np.testing.assert_array_equal(batch['decoder_loss_weights'], [[1, 1, 1, 0], [1, 1, 1, 0]])
    plain = features.generation(rows, features.Layout({'inputs': 4, 'targets': 5}, IDS))
    np.testing.assert_array_equal(batch['encoder_input_tokens'], plain['encoder_input_tokens'])
    languages = np.array([8, 9])
    assert IDS.begin(languages, 'generation') == (0, languages)
    assert IDS.begin(languages, 'language_start') == (languages, None)
    assert IDS.begin(None, 'language_start') == (0, None)


def test_two_views_of_a_text_by_hand():
    marked = dataclasses.replace(IDS, segment_marks=(40, 41))
    both, one = example([40, 5, 1, 40, 5, 41, 6, 1], [7, 1]), example([40, 5, 1], [8, 9, 1])

    def made(rows, inputs, **kwargs):
        lengths = {'inputs': inputs, 'targets': 3}
        return features.multi_view(rows, features.Layout(lengths, marked, **kwargs))

    batch = made([[both], one, []], 10)
    expected = {
        'encoder_input_tokens': [[40, 5, 1, 40, 5, 41, 6, 1, 0, 0], [40, 5, 1] + [0] * 7, [0] * 10],
        'encoder_segment_ids': [[1, 1, 1, 2, 2, 2, 2, 2, 0, 0], [1, 1, 1] + [0] * 7, [0] * 10],
        'encoder_positions': [[0, 1, 2, 0, 1, 2, 3, 4, 0, 0], [0, 1, 2] + [0] * 7, [0] * 10],
        'encoder_marks': [[1, 0, 0, 1, 0, 1] + [0] * 4, [1] + [0] * 9, [0] * 10],
        'decoder_target_tokens': [[7, 1, 0], [8, 9, 1], [0] * 3],
        'decoder_segment_ids': [[1, 1, 0], [1, 1, 1], [0] * 3],
    }
    for name, value in expected.items():
        np.testing.assert_array_equal(batch[name], value, name)
    # Each view is cut to half of the limit, whatever the width of the batch.
    batch = made([[both]], 8, limits={'inputs': 6, 'targets': 3})
    np.testing.assert_array_equal(batch['encoder_input_tokens'], [[40, 5, 1, 40, 5, 1, 0, 0]])
    with pytest.raises(ValueError, match='a row of 2 examples'):
        made([[both, one]], 16)


def test_a_model_of_two_views_reads_tasks_of_views_one_a_row():
    manifest = {'view': 'generation', 'segment_marks': [40]}
    task = types.SimpleNamespace(name='chats_views', manifest=manifest)
    assert features.check_view('multi_view', [task]) is features.VIEWS['multi_view']
    with pytest.raises(UserError, match='packing puts several examples into a row'):
        features.check_view('multi_view', [task], packing=True)
    del manifest['segment_marks']
    with pytest.raises(UserError, match='chats_views has inputs of one view, or a vocabulary'):
        features.check_view('multi_view', [task])


@pytest.mark.parametrize(
    ('inputs', 'targets', 'sizes', 'limits', 'expected'),
    [
        ([7, 8, 9, 1], [5, 6, 1], (3, 2), None, ([7, 8, 1], [5, 1], [0, 5])),
        # Language tokens stand first, so that the text between them and the end gets shorter.
        ([90, 7, 8, 1], [91, 5, 6, 1], (3, 2), None, ([90, 7, 1], [91, 1], [0, 91])),
        # Limits trim more than the width.
        ([7, 8, 9, 1], [5, 1], (4, 3), (2, 3), ([7, 1, 0, 0], [5, 1, 0], [0, 5, 0])),
    ],
)
def test_trimming_keeps_the_end_and_the_beginning(inputs, targets, sizes, limits, expected):
    kwargs = {'limits': dict(zip(('inputs', 'targets'), limits, strict=True))} if limits else {}
    batch = generation([example(inputs, targets)], *sizes, **kwargs)
    names = 'encoder_input_tokens', 'decoder_target_tokens', 'decoder_input_tokens'
    for name, tokens in zip(names, expected, strict=True):
        np.testing.assert_array_equal(batch[name], [tokens], name)
    ids = np.array(inputs, np.int32)
    assert features.trim(ids, 4, 1) is ids and ids.tolist() == inputs


def test_the_passage_is_cut_and_the_answer_stays():
    def cut(ids, length, mark=(40, 41)):
        return features.trim_passage(np.array(ids, np.int32), length, 1, mark).tolist()

    whole = [90, 7, 8, 9, 10, 40, 41, 5, 6, 1]
    assert cut(whole, 10) == whole
    assert cut(whole, 8) == [90, 7, 8, 40, 41, 5, 6, 1]
    # The last mark counts; half a mark is none, nor is one that the vocabulary cannot spell.
    assert cut([90, 40, 41, 7, 8, 9, 40, 41, 5, 1], 6) == [90, 40, 40, 41, 5, 1]
    assert cut([90, 7, 8, 9, 40, 5, 1], 4) == [90, 7, 8, 1]
    assert cut(whole, 4, ()) == [90, 7, 8, 1]
    # An answer that is too long by itself; what stands before a text stays.
    assert cut(whole, 5) == [90, 7, 40, 41, 1]
    assert cut([40, 41, 5, 6, 7, 1], 4) == [40, 41, 5, 1]

    marked = dataclasses.replace(IDS, answer_mark=(40, 41))
    rows = [[example(whole, [5, 40, 41, 6, 1]), example([40, 41, 3, 1], [2, 1])]]
    lengths, limits = {'inputs': 12, 'targets': 6}, {'inputs': 8, 'targets': 3}
    packed = features.generation(rows, features.Layout(lengths, marked, limits))
    expected = [90, 7, 8, 40, 41, 5, 6, 1, 40, 41, 3, 1]
    np.testing.assert_array_equal(packed['encoder_input_tokens'], [expected])
    np.testing.assert_array_equal(packed['decoder_target_tokens'], [[5, 40, 1, 2, 1, 0]])


def test_padding_and_end_inside_a_text_are_text():
    """A text may hold the ids of padding and end: lengths tell where it stops, not ids."""
    batch = generation([[example([5, 0, 1, 6, 1], [8, 1, 1]), example([7, 1], [1])]], 8, 5)
    np.testing.assert_array_equal(batch['encoder_segment_ids'], [[1, 1, 1, 1, 1, 2, 2, 0]])
    np.testing.assert_array_equal(batch['decoder_loss_weights'], [[1, 1, 1, 1, 0]])


def test_rows_that_cannot_be_and_empty_ones():
    both = [example([5, 1], [1]), example([6, 1], [1])]
    for make, rows, inputs, error, words in (
        (generation, [both], 3, ValueError, 'does not fit'),
        (generation, [example([100, 1], [1])], 3, UserError, 'vocabulary of 100'),
        (generation, [example([-1, 1], [1])], 3, UserError, 'vocabulary of 100'),
        (retrieval, [both], 9, ValueError, 'a row of 2 examples'),
        (retrieval, [example([5, 1], [100, 1])], 9, UserError, 'a batch holds id 100'),
    ):
        with pytest.raises(error, match=words):
            make(rows, inputs, 4)
    batch = generation([[], []], 3, 2)
    assert batch['encoder_input_tokens'].shape == (2, 3)
    assert not any(value.any() for value in batch.values())
    assert retrieval([[], []], 3, 3)['row_weights'].tolist() == [0, 0]


def test_each_packed_example_equals_itself_alone():
    rng = np.random.default_rng(0)

    def sample():
        return example(rng.integers(2, 100, rng.integers(1, 9)), rng.integers(2, 100, 3))

    rows = [[sample() for _ in range(rng.integers(0, 5))] for _ in range(20)]
    batch = generation(rows, 40, 20)
    for index, row in enumerate(rows):
        for number, one in enumerate(row, start=1):
            alone = generation([one], 8, 3)
            for name, value in alone.items():
                side = name.split('_')[0]
                here = batch[f'{side}_segment_ids'][index] == number
                kept = alone[f'{side}_segment_ids'][0] == 1
                expected = value[0][kept] * (number if name.endswith('segment_ids') else 1)
                np.testing.assert_array_equal(batch[name][index][here], expected, name)


def test_conventions_come_from_the_manifest():
    vocabulary = {'pad_id': 0, 'eos_id': 1, 'decoder_start_id': 0, 'size': 100, 'sha256': ''}
    assert features.Conventions.of({'vocabulary': vocabulary}) == IDS
    marked = features.Conventions.of({'vocabulary': vocabulary, 'answer_mark': [40, 41]})
    assert marked.answer_mark == (40, 41)


def test_a_large_batch_is_built_in_milliseconds():
    rng = np.random.default_rng(0)
    row = [example(rng.integers(2, 100, 120), rng.integers(2, 100, 30)) for _ in range(4)]
    seconds = timeit.repeat(lambda: generation([row] * 64, 512, 128), number=1, repeat=9)
    assert min(seconds) < 0.02  # About 0.001 on an idle core.


# ------------------------------------------------------------------------------- two texts a row


def retrieval(rows, inputs: int, targets: int, **kwargs) -> dict:
    lengths = {'inputs': inputs, 'targets': targets}
    return features.retrieval(rows, features.Layout(lengths, IDS, **kwargs))


def test_pairs_by_hand():
    pairs = [example([5, 6, 1], [8, 1]), [], [example([4, 1], [9, 1])], example([7, 1], [8, 1])]
    batch = retrieval(pairs, 4, 3)
    expected = {
        'left_encoder_input_tokens': [[5, 6, 1, 0], [0] * 4, [4, 1, 0, 0], [7, 1, 0, 0]],
        'left_encoder_segment_ids': [[1, 1, 1, 0], [0] * 4, [1, 1, 0, 0], [1, 1, 0, 0]],
        'right_encoder_input_tokens': [[8, 1, 0], [0] * 3, [9, 1, 0], [8, 1, 0]],
        'right_encoder_segment_ids': [[1, 1, 0], [0] * 3, [1, 1, 0], [1, 1, 0]],
        'row_weights': [1, 0, 1, 1],
    }
    keys = batch.pop('reply_key')
    assert_features(batch, expected)
    assert keys.dtype == np.int32 and keys[1] == -1
    assert keys[0] == keys[3] != keys[2] and (keys[[0, 2, 3]] >= 0).all()


def test_a_reply_s_key_is_of_what_the_model_sees():
    """The same in every release and process: batches of two processes share no state."""
    long = example([2, 1], [5, 6, 7, 1])
    keys = retrieval([long, example([3, 1], [5, 6, 1]), example([3, 1], [5, 1])], 4, 3)['reply_key']
    assert keys[0] == keys[1] != keys[2]
    assert retrieval([long], 4, 4)['reply_key'].tolist() == [1269194207]
    wide = retrieval([long], 9, 9, limits={'inputs': 4, 'targets': 3})
    assert wide['right_encoder_input_tokens'].tolist() == [[5, 6, 1, 0, 0, 0, 0, 0, 0]]
    assert wide['reply_key'].tolist() == keys[:1].tolist()


# -------------------------------------------------------------------------------- labels of a row


def labelled(inputs, targets, piece_counts) -> dict:
    return example(inputs, targets) | {'piece_counts': np.array(piece_counts, np.int32)}


def label_features(view: str, rows, inputs: int, **kwargs) -> dict:
    return features.VIEWS[view](rows, features.Layout({'inputs': inputs}, IDS, **kwargs))


def test_classified_texts_by_hand():
    rows = [labelled([2, 5, 6, 1], [3], [2]), [], [labelled([2, 7, 8, 9, 1], [4], [3])]]
    expected = {
        'encoder_input_tokens': [[2, 5, 6, 1], [0] * 4, [2, 7, 8, 1]],
        'encoder_segment_ids': [[1] * 4, [0] * 4, [1] * 4],
        'encoder_type_ids': [[0] * 4] * 3,
        'labels': [3, 0, 4],
        'row_weights': [1, 0, 1],
    }
    assert_features(label_features('classification', rows, 4), expected)


@pytest.mark.parametrize(
    ('ids', 'counts', 'length', 'expected'),
    [
        ('2 a b c d e 1 x y 1', (5, 2), 8, '2 a b c 1 x y 1'),
        ('2 a b 1 v w x y z 1', (2, 5), 7, '2 a b 1 v w 1'),
        ('2 a b c d 1 w x y z 1', (4, 4), 8, '2 a b c 1 w x 1'),
        ('2 a b c 1 1 x y z 1', (3, 3), 8, '2 a b 1 1 x y 1'),  # XLM-R.
        ('a b c 1 x y 1', (3, 2), 6, 'a b 1 x y 1'),  # T5.
        ('a b c 1 x y 1', (3, 2), 7, 'a b c 1 x y 1'),
        ('2 a b 1 x y 1', (2, 2), 3, '2 1 1'),
        ('2 a b c 1', (3,), 4, '2 a b 1'),
    ],
)
def test_of_a_pair_the_longer_text_is_cut(ids, counts, length, expected):
    ids, expected = (
        np.array([int(x) if x.isdigit() else ord(x) for x in text.split()])
        for text in (ids, expected)
    )
    found, _ = features.arrays.trim_pair(ids, counts, length, 1)
    np.testing.assert_array_equal(found, expected)


def test_the_second_text_of_a_pair_has_another_type():
    rows = [
        labelled([2, 5, 6, 7, 1, 8, 9, 1], [0], [3, 2]),
        labelled([2, 5, 1, 6, 7, 8, 9, 1], [0], [1, 4]),
        [],
        labelled([2, 5, 1, 1, 6, 1], [0], [1, 1]),  # XLM-R, whose tokenizer knows no types.
        labelled([5, 1, 6, 1], [0], [1, 1]),  # T5.
        labelled([2, 5, 6, 7, 1], [0], [3]),
    ]
    batch = label_features('classification', rows, 8)
    expected = ['00000111', '00011111', '00000000', '00000000', '00110000', '00000000']
    assert batch['encoder_type_ids'].tolist() == [[int(x) for x in row] for row in expected]
    batch = label_features('classification', rows, 8, limits={'inputs': 6})
    expected = ['00001100', '00011100', '00000000', '00000000', '00110000', '00000000']
    assert batch['encoder_type_ids'].tolist() == [[int(x) for x in row] for row in expected]


def test_pairs_are_cut_and_typed_as_transformers_does(tmp_path):
    """encode_plus of the Python tokenisers, with which arXiv:2012.15682 encoded its pairs."""
    import tokenizer_files
    import transformers

    folder = tokenizer_files.write(tmp_path, 'bert-cased')
    reference = transformers.BertTokenizer.from_pretrained(folder)
    ours = tokenizers.load(folder, '')
    end = [ours.eos_id]
    texts = [' '.join(['ab de', *'c' * n]) for n in range(8)]
    for first, second in itertools.product(texts, texts):
        pieces = [ours.encode(text) for text in (first, second)]
        counts = [len(ids) for ids in pieces]
        ids = np.concatenate([[ours.bos_id], pieces[0], end, pieces[1], end])
        whole = reference(first, second)
        for length in range(5, len(ids) + 2):
            # The fast ones leave the second text a piece more where both are cut and it is odd.
            kept = transformers.PythonBackend.truncate_sequences(
                types.SimpleNamespace(truncation_side='right'),
                *(ids.tolist() for ids in pieces), len(ids) - length, 'longest_first',
            )  # fmt: skip
            found, kinds = features.arrays.trim_pair(ids, counts, length, ours.eos_id)
            assert found.tolist() == [ours.bos_id, *kept[0], *end, *kept[1], *end]
            assert kinds.tolist() == [0] * (len(kept[0]) + 2) + [1] * (len(kept[1]) + 1)
        assert kinds.tolist() == whole['token_type_ids'] and ids.tolist() == whole['input_ids']


def test_a_tag_stands_at_the_last_piece_of_its_word():
    rows = [labelled([2, 5, 6, 7, 1], [3, 4], [1, 2]), [], labelled([8, 9, 1], [5], [2])]
    expected = {
        'encoder_input_tokens': [[2, 5, 6, 7, 1, 0], [0] * 6, [8, 9, 1, 0, 0, 0]],
        'encoder_segment_ids': [[1, 1, 1, 1, 1, 0], [0] * 6, [1, 1, 1, 0, 0, 0]],
        'labels': [[0, 3, 0, 4, 0, 0], [0] * 6, [0, 5, 0, 0, 0, 0]],
        'label_weights': [[0, 1, 0, 1, 0, 0], [0] * 6, [0, 1, 0, 0, 0, 0]],
    }
    assert_features(label_features('tagging', rows, 6), expected)


def test_a_word_that_loses_its_last_piece_has_no_tag():
    row = labelled([2, 5, 6, 7, 8, 1], [3, 4, 6], [1, 2, 1])
    for length, words in ((6, 3), (5, 2), (4, 1), (3, 1), (2, 0)):
        batch = label_features('tagging', [row], length)
        assert batch['label_weights'].sum() == len(features.tag_places(row, length)) == words
        assert batch['encoder_input_tokens'][0, -1] == 1
        wide = label_features('tagging', [row], 9, limits={'inputs': length})
        np.testing.assert_array_equal(wide['labels'][:, :length], batch['labels'])
        assert wide['label_weights'].sum() == words


@pytest.mark.parametrize(
    ('piece', 'weights'),
    [
        ('first', [0, 1, 1, 0, 0, 1, 0, 0]),
        ('first_letter', [0, 1, 0, 1, 0, 0, 1, 0]),  # The last word has no letter at all.
        ('mean', [0, 1, 1 / 3, 1 / 3, 1 / 3, 0.5, 0.5, 0]),
    ],
)
def test_pieces_that_speak_for_their_word(monkeypatch, piece, weights):
    """Words [5], [6 7 8] and [9 6], of which 7 and 8 have letters."""
    letters = np.isin(np.arange(10), (7, 8))
    monkeypatch.setattr(features.arrays, 'with_letters', lambda sha256: letters)
    row = labelled([2, 5, 6, 7, 8, 9, 6, 1], [3, 4, 6], [1, 3, 2])
    batch = label_features(f'tagging_{piece}', [row, []], 10)
    tails = [0, 1, 3, 2, 1, 2, 1, 0, 0, 0]
    np.testing.assert_array_equal(batch['encoder_word_tails'], [tails, [0] * 10])
    shares = [[*weights, 0, 0], [0] * 10]
    np.testing.assert_allclose(batch['encoder_word_weights'], shares, rtol=1e-6)
    plain = label_features('tagging', [row, []], 10)
    for name, array in plain.items():  # A tag stands at the last piece all the same.
        np.testing.assert_array_equal(batch[name], array)
    cut = label_features(f'tagging_{piece}', [row], 6)  # The last word loses a piece.
    np.testing.assert_array_equal(cut['encoder_word_tails'], [[0, 1, 3, 2, 1, 0]])


@pytest.mark.parametrize('view', ['classification', 'tagging', 'tagging_mean'])
def test_labels_of_empty_batches_and_of_full_rows(view):
    assert not any(value.any() for value in label_features(view, [[], []], 3).values())
    with pytest.raises(ValueError, match='a row of 2 examples'):
        label_features(view, [[labelled([5, 1], [1], [1])] * 2], 9)
