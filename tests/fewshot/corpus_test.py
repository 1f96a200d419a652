"""Tests of xlbench/fewshot/corpus.py on made-up prepared data; see tiny_labels.py."""

import bucket_files
import numpy as np
import pytest
import tiny_labels

from xlbench.benchmarks import FEWSHOT
from xlbench.data import features, labelled, prepared
from xlbench.fewshot import command, corpus as corpus_lib, results, settings, sweep
from xlbench.metrics import tagging
from xlbench.metrics.tagging import UNSCORED
from xlbench.system import errors
from xlbench.training import objectives

TASKS = {'classification': 'mldoc', 'tagging': 'udpos'}
LIMIT = tiny_labels.LENGTHS['inputs']


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp('labels')
    tiny_labels.write_root(folder)
    return folder


class Asked(settings.Adapt):
    """Any buckets, not only those from one number to another."""

    numbers = property(lambda self: self.buckets)


def opened(root, view, task='', lang='de', **changed):
    options = {
        'languages': (lang,), 'learning_rates': (1e-5,), 'shots': (1, 4),
        'buckets': tuple(range(tiny_labels.BUCKETS)), 'lengths': {'inputs': LIMIT},
        'eval_batch_size': 16,
    }  # fmt: skip
    adapt = Asked(**options | changed)
    names = corpus_lib.needed(task or TASKS[view], lang, adapt.shots, adapt.dev)
    splits = {split: prepared.open_task(str(root), 'sample', name, split) for name, split in names}
    return corpus_lib.Corpus(splits, adapt, view)


def made(view, rows, width):
    """The features of records, in ids of the vocabulary."""
    conventions = features.Conventions(0, tiny_labels.END, 0, 50)
    layout = features.Layout({'inputs': width}, conventions, {'inputs': LIMIT})
    return features.VIEWS[view](rows, layout)


def texts_of(corpus, where):
    """The prepared records of 'test', 'validation', or of all buckets of a number of shots."""
    return corpus._records[where if isinstance(where, str) else f'shots_{where}']


def of_buckets(corpus, number):
    """The records of each bucket."""
    rows = [[] for _ in range(tiny_labels.BUCKETS)]
    for record in texts_of(corpus, number):
        rows[int(record['bucket'])].append(record)
    return rows


def labelled_places(corpus, records):
    """[W, 2]: the example and its word of each right label; -1 between sentences."""
    if TASKS['classification'] in corpus.name:
        return np.array([(number, 0) for number in range(len(records))])
    found = []
    for number, record in enumerate(records):
        tags = record['targets'][: len(features.tag_places(record, LIMIT))]
        scored = (word for word, tag in enumerate(tags) if corpus.labels[tag] not in UNSCORED)
        found += [*((number, word) for word in scored), (-1, -1)]
    return np.array(found)


views = pytest.mark.parametrize('view', list(TASKS))


# ---------------------------------------------------------------------------------------------
# Buckets.


@views
def test_a_test_set_without_real_labels_is_pointed_out(root, view, monkeypatch):
    """Hidden test sets have one label in place of all."""
    corpus = opened(root, view)
    assert corpus.about_test == ''
    alike = [record | {'targets': 0 * record['targets'] + 1} for record in corpus._records['test']]
    monkeypatch.setitem(corpus._records, 'test', alike)
    label = tiny_labels.LABELS[view][1]
    note = f"{corpus.name}/test: all 45 examples have the target '{label}'; it may stand for labels"
    assert corpus.about_test.startswith(note)
    adapt = settings.Adapt(languages=('de',), shots=(1,), buckets=2, learning_rates=(1e-4,))
    assert note in sweep.survey(adapt, 'de', corpus)


@views
@pytest.mark.parametrize('number', [1, 4])
def test_buckets_hold_their_examples_and_empty_rows(root, view, number):
    corpus = opened(root, view)
    arrays = corpus.bucket_arrays(number)
    rows = of_buckets(corpus, number)
    assert arrays['examples'].tolist() == [len(own) for own in rows]
    _, most, width = arrays['encoder_input_tokens'].shape
    assert most == max(map(len, rows)) and width <= LIMIT
    for index, own in enumerate(rows):
        expected = made(view, own, width)
        for name, array in expected.items():
            found = arrays[name][index]
            if name == 'encoder_input_tokens':
                found = corpus.token_ids[found]
            np.testing.assert_array_equal(found[: len(own)], array)
            assert not found[len(own) :].any()
        assert expected.keys() | {'examples'} == arrays.keys()


@views
def test_compact_ids_are_those_that_are_read(root, view):
    corpus = opened(root, view)
    for number in (1, 4):
        tokens = corpus.bucket_arrays(number)['encoder_input_tokens']
        ids, trained = corpus.ids_of(number)
        assert set(tokens.ravel().tolist()) <= {*ids[:trained].tolist()}
        assert ids[0] == 0 and len({*ids.tolist()}) == len(ids) <= len(corpus.token_ids)
        for dataset in (corpus.test, corpus.dev(number)):
            for batch in dataset.each():
                assert set(batch['encoder_input_tokens'].ravel().tolist()) <= {*ids.tolist()}
    for dataset, split in ((corpus.test, 'test'), (corpus.dev(1), 'validation')):
        found = np.concatenate([b['encoder_input_tokens'].ravel() for b in dataset.each()])
        ids = np.concatenate([record['inputs'] for record in texts_of(corpus, split)])
        assert set(corpus.token_ids[found]) <= {0, *ids.tolist()}
        assert found.max() < len(corpus.token_ids)
    assert corpus.token_ids[0] == 0 and len({*corpus.token_ids}) == len(corpus.token_ids)


def test_ids_of_buckets_come_first(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_lib, '_ROWS', 3)
    name = 'fewshot_udpos_ta_ta'
    words = {'test': [[9], [30, 40]], 'shots_1': [[9], [7]], 'shots_2': [[8]]}
    for split, own in words.items():
        row = tiny_labels.record('tagging', own, [0, 2][: len(own)]) | {'bucket': '0'}
        tiny_labels.write_task(tmp_path, 'tagging', name, split, [row])
    for numbers in ((1,), (1, 2)):
        corpus = opened(tmp_path, 'tagging', 'udpos', 'ta', shots=numbers, buckets=(0,), dev='none')
        ids, trained = corpus.ids_of(1)
        # Padding and what the bucket has, START and END too, rounded up to a multiple of 3; nothing
        # of other buckets.
        assert corpus.token_ids[ids].tolist() == [0, 1, 2, 7, 9, 30, 40] and trained == 6
        tokens = corpus.token_ids[corpus.bucket_arrays(1)['encoder_input_tokens']]
        assert tokens.tolist() == [[[2, 9, 7, 1, 0, 0, 0, 0]]]
        [batch] = corpus.test.each()
        tokens = corpus.token_ids[batch['encoder_input_tokens'][0]]
        assert tokens.tolist() == [2, 9, 30, 40, 1, 0, 0, 0]


@views
def test_arrays_do_not_depend_on_what_else_is_asked_for(root, view):
    # Bucket 0 is neither the largest nor has the longest example in all of these.
    everything = opened(root, view)
    one = opened(root, view, buckets=(0,))
    np.testing.assert_array_equal(one.token_ids, everything.token_ids)
    for number in (1, 4):
        found, few = everything.bucket_arrays(number), one.bucket_arrays(number)
        assert few['examples'].shape == (tiny_labels.BUCKETS,)
        for name, array in few.items():
            np.testing.assert_array_equal(array, found[name])
        alone = opened(root, view, shots=(number,))
        assert alone.bucket_sizes(number) == everything.bucket_sizes(number)
        assert alone.ids_of(number)[1] == everything.ids_of(number)[1]
        ids = [corpus.token_ids[corpus.ids_of(number)[0]] for corpus in (alone, everything)]
        np.testing.assert_array_equal(*ids)


def test_packed_rows_hold_every_example_once_whatever_is_asked_for(root):
    corpus, one = opened(root, 'tagging'), opened(root, 'tagging', buckets=(0,))
    for number in (1, 4):
        plain, packed = (corpus.bucket_arrays(number, packed) for packed in (False, True))
        (_, rows, width), (_, fewer, same) = plain['labels'].shape, packed['labels'].shape
        assert fewer < rows or (number, fewer) == (1, rows)
        assert same == width
        np.testing.assert_array_equal(packed['examples'], plain['examples'])
        names = ('encoder_input_tokens', 'labels', 'label_weights')
        for bucket in range(len(plain['examples'])):
            sizes = plain['encoder_segment_ids'][bucket].sum(-1)
            expected = [
                [plain[name][bucket, row, :size].tolist() for name in names]
                for row, size in enumerate(sizes)
            ]
            found = []
            for row, segments in enumerate(packed['encoder_segment_ids'][bucket]):
                for segment in range(1, segments.max() + 1):
                    [places] = np.nonzero(segments == segment)
                    assert places[-1] - places[0] + 1 == len(places)
                    positions = packed['encoder_positions'][bucket, row, places]
                    np.testing.assert_array_equal(positions, np.arange(len(places)))
                    found.append([packed[name][bucket, row, places].tolist() for name in names])
            assert sorted(found) == sorted(row for row in expected if row[0])
        few = one.bucket_arrays(number, packed=True)
        for name, array in few.items():
            np.testing.assert_array_equal(array, packed[name])


@views
def test_empty_buckets_are_known_and_missing_ones_refused(root, view):
    corpus = opened(root, view)
    last = tiny_labels.BUCKETS - 1
    assert corpus.bucket_sizes(1)[last] == 0 < min(corpus.bucket_sizes(1)[:last])
    assert min(corpus.bucket_sizes(4)) > 0
    arrays = corpus.bucket_arrays(1)
    assert arrays['examples'][last] == 0 and arrays['examples'][:last].all()
    assert not any(array[last].any() for array in arrays.values())
    opened(root, view, buckets=(1, last))
    for asked in (tuple(range(6)), (5,)):
        with pytest.raises(errors.UserError, match=r'bucket 5 of .* are 5, counted from 0'):
            opened(root, view, buckets=asked)


# ---------------------------------------------------------------------------------------------
# Test and dev sets.


@views
@pytest.mark.parametrize('batch_size', [16, 512])
def test_right_labels_stand_where_predictions_are_taken(root, view, batch_size):
    corpus = opened(root, view, eval_batch_size=batch_size)
    test = corpus.test
    assert corpus.test_size == tiny_labels.SIZES['test'] and len(test.batches) <= 4
    rows = [len(batch['labels']) for batch in test.each()]
    assert sum(rows) < corpus.test_size + 8 * len(rows)  # A set below a batch fills no batch.
    flat = np.concatenate([batch['labels'].ravel() for batch in test.each()])
    words = test.take >= 0
    np.testing.assert_array_equal(flat[test.take[words]], test.gold[words])
    weights = objectives.build(view).weights
    weight = np.concatenate([batch[weights].ravel() for batch in test.each()])
    assert sorted(test.take[words]) == np.flatnonzero(weight).tolist()
    records = texts_of(corpus, 'test')
    places = labelled_places(corpus, records)
    expected = [records[i]['targets'][word] if i >= 0 else -1 for i, word in places]
    assert test.gold.tolist() == expected
    for array in (test.gold, test.take):
        assert array.dtype == np.int32
        np.testing.assert_array_equal(array < 0, places[:, 0] < 0)
    assert len(places) == 45 if view == 'classification' else (~words).sum() == 45


def test_scores_of_flat_predictions_are_those_of_texts(root):
    """With words that do not fit into LENGTHS, which no side counts."""
    corpus = opened(root, 'tagging')
    test, names = corpus.test, corpus.labels
    size = sum(batch['labels'].size for batch in test.each())
    flat = np.random.default_rng(1).integers(3, size=size).astype(np.int32)
    predicted = np.where(test.take < 0, -1, flat[test.take])
    found = tagging.Chunks(names).compare(test.gold, predicted)
    f1 = 100 * tagging.f1(*(where.sum() for where in found))[0]
    records = texts_of(corpus, 'test')
    texts = [[tagging.CUT] * len(record['targets']) for record in records]
    for tag, (index, word) in zip(predicted, labelled_places(corpus, records), strict=True):
        if tag >= 0:
            texts[index][word] = names[tag]
    assert any(tagging.CUT in text for text in texts)
    expected = tagging.ChunkF1()(
        [record['targets_pretokenized'] for record in records], [' '.join(t) for t in texts]
    )
    assert f1 == pytest.approx(expected['chunk_f1'], rel=1e-12) and 10 < f1 < 90


def test_words_that_are_not_scored_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setitem(tiny_labels.LABELS, 'tagging', ['NOUN', 'NFP', 'X'])
    name = 'fewshot_udpos_ta_ta'
    rows = [
        tiny_labels.record('tagging', [[30, 3], [4], [5]], [0, 1, 2]),
        tiny_labels.record('tagging', [[4]], [1]),
        tiny_labels.record('tagging', [[3], *[[30] * 9] * 3], [0, 2, 2, 2]),
    ]
    rows = tiny_labels.named('tagging', name, 'test', rows)
    tiny_labels.write_task(tmp_path, 'tagging', name, 'test', rows)
    corpus = opened(tmp_path, 'tagging', 'udpos', 'ta', shots=(), dev='none', eval_batch_size=8)
    # The last sentence loses two words: 1 + 1 + 9 + 9 pieces and the end are one too many.
    assert corpus.test.gold.tolist() == [0, 2, -1, -1, 0, 2, -1]
    examples, words = labelled_places(corpus, texts_of(corpus, 'test')).T.tolist()
    assert words == [0, 2, -1, -1, 0, 1, -1] and examples == [0, 0, -1, -1, 2, 2, -1]


@pytest.fixture(scope='module')
def xnli(tmp_path_factory):
    """2490 rows in German, 40 buckets that are drawn from them, and a small test set."""
    folder, name = tmp_path_factory.mktemp('xnli'), 'fewshot_xnli_de_de'
    draw = np.random.default_rng(0)

    def rows(split, count):
        words = (draw.integers(3, 50, draw.integers(1, 9)).tolist() for _ in range(count))
        made = [tiny_labels.record('classification', [w], [n % 3]) for n, w in enumerate(words)]
        return tiny_labels.named('classification', name, split, made)

    splits = {'validation': rows('validation', 2490), 'test': rows('test', 20)}
    for number in (1, 4):
        splits[f'shots_{number}'] = tiny_labels.few_shots(
            'classification', splits['validation'], number, 40, str(number)
        )
    for split, records in splits.items():
        tiny_labels.write_task(folder, 'classification', name, split, records)
    return opened(folder, 'classification', 'xnli', buckets=(0, 1), eval_batch_size=512)


def test_the_dev_set_is_without_the_shots_of_all_buckets(xnli):
    for number in (1, 4):
        dev = xnli.dev(number)
        assert xnli.dev_size(number) == 2490 - 40 * 3 * number
        taken = {labelled.Uid.parse(r['uid']).row('xnli') for r in texts_of(xnli, number)}
        left = [r for row, r in enumerate(texts_of(xnli, 'validation')) if row not in taken]
        assert [r['uid'] for r in xnli._dev_records(number)] == [r['uid'] for r in left]
        assert dev.gold.tolist() == [r['targets'][0] for r in left]


@pytest.mark.parametrize(
    ('changed', 'message'),
    [
        # The official file and that of google-research/xtreme are spaced differently.
        (lambda text, _: {'inputs_pretokenized': f' "{text.upper()}" .'}, ''),
        (lambda text, _: {'inputs_pretokenized': f'9{text}'}, 'german-.*-val .* has another text'),
        (lambda _, number: {'uid': f'tfds/{number}'}, 'has no such example.*other_shots'),
    ],
)
def test_buckets_of_another_dev_file_are_refused(xnli, monkeypatch, changed, message):
    rows = enumerate(texts_of(xnli, 'validation'))
    others = [row | changed(row['inputs_pretokenized'], number) for number, row in rows]
    monkeypatch.setitem(xnli._records, 'validation', others)
    if not message:
        assert xnli.dev_size(1) == len(xnli.dev(1).gold) == 2370
    else:
        with pytest.raises(errors.UserError, match=message):
            xnli.dev(1)


@views
@pytest.mark.parametrize('split', ['validation', 'test'])
def test_a_part_of_a_set_can_be_enough(root, view, split):
    key = 'test_examples' if split == 'test' else 'dev_examples'
    corpora = [opened(root, view, **{key: number}) for number in (0, 9, 1000)]
    whole, part, more = (c.test if split == 'test' else c.dev(1) for c in corpora)
    np.testing.assert_array_equal(whole.gold, more.gold)
    assert (corpora[1].test_size if split == 'test' else corpora[1].dev_size(1)) == 9
    places = labelled_places(corpora[1], texts_of(corpora[1], split))
    gold = whole.gold[np.isin(places[:, 0], results.drawn(tiny_labels.SIZES[split], 9))]
    assert part.gold[part.take >= 0].tolist() == gold.tolist()


def test_sentences_share_the_rows_of_a_set(root):
    """Each is once, behind others with its own positions, and read where it stands."""
    corpus = opened(root, 'tagging', eval_batch_size=64)
    [batch] = corpus.test.each()
    segments, positions = batch['encoder_segment_ids'], batch['encoder_positions']
    assert segments.max() > 1 and len(segments) < tiny_labels.SIZES['test']
    records = [features.trim(r['inputs'], LIMIT, tiny_labels.END) for r in texts_of(corpus, 'test')]
    places = labelled_places(corpus, texts_of(corpus, 'test')).tolist()
    for number, ids in enumerate(records):
        first = corpus.test.take[places.index([number, 0])]
        row, place = divmod(int(first), segments.shape[1])
        here = segments[row] == segments[row, place]
        assert corpus.token_ids[batch['encoder_input_tokens'][row, here]].tolist() == ids.tolist()
        assert positions[row, here].tolist() == list(range(len(ids)))


@views
def test_shots_of_training_sets_take_nothing_from_the_dev_set(root, view):
    corpus = opened(root, view)
    shots = texts_of(corpus, 1)
    assert {labelled.Uid.parse(r['uid']).split for r in shots if 'uid' in r} <= {'trn'}
    for number in (1, 4):
        assert corpus.dev_size(number) == tiny_labels.SIZES['validation']


@views
def test_the_shots_of_others_as_dev_set(root, view):
    corpus = opened(root, view, dev='other_shots')
    sizes = []
    for number in (1, 4):
        own = {record['inputs_pretokenized'] for record in texts_of(corpus, number)}
        others = {
            record['inputs_pretokenized']: record
            for k in FEWSHOT.shots(TASKS[view])
            for record in texts_of(corpus, k)
            if record['inputs_pretokenized'] not in own
        }
        dev = corpus.dev(number)
        sizes.append(corpus.dev_size(number))
        assert sizes[-1] == len(others) > 0
        alone = opened(root, view, dev='other_shots', shots=(number,))
        np.testing.assert_array_equal(alone.dev(number).gold, dev.gold)
        found = {
            tuple(corpus.token_ids[tokens[segments == number]])
            for batch in dev.each()
            for tokens, segments in zip(
                batch['encoder_input_tokens'], batch['encoder_segment_ids'], strict=True
            )
            for number in range(1, segments.max(initial=0) + 1)
        }
        cut = [features.trim(r['inputs'], LIMIT, tiny_labels.END) for r in others.values()]
        assert found == {tuple(ids) for ids in cut}
    assert len({*sizes}) == 2


@views
def test_no_dev_set_and_no_dev_set_of_that_name(root, view):
    corpus = opened(root, view, dev='none')
    assert corpus.dev(1) is None
    assert [split for _, split in corpus_lib.needed('xnli', 'de', (8, 1, 1), 'none')] == [
        'test', 'shots_1', 'shots_8',
    ]  # fmt: skip
    with pytest.raises(errors.UserError, match=r"unknown dev in config\.adapt\.dev 'dev'"):
        opened(root, view, dev='dev')


def test_dev_sets_of_other_shots_are_of_the_buckets_that_are_there(tmp_path):
    def splits(shots):
        needed = corpus_lib.needed('udpos', 'de', shots, 'other_shots', str(tmp_path))
        return [split for _, split in needed]

    assert splits([1]) == ['test', 'shots_1', 'shots_2', 'shots_4']  # Made when they are needed.
    for k in (1, 4):
        (tmp_path / f'fewshot/buckets/udpos/{k}-shots').mkdir(parents=True)
    assert splits([1]) == splits([1, 4]) == ['test', 'shots_1', 'shots_4']
    assert splits([2]) == ['test', 'shots_1', 'shots_2', 'shots_4']  # Whose lack is an error.
    check, name = command._check_other_shots, 'fewshot_udpos_de_de'
    begun = {f'{name}/test': 'x', f'{name}/shots_1': 'y', f'{name}/shots_4': 'z'}
    check('RUN', begun, begun | {'fewshot_udpos_fr_fr/shots_2': 'x'})
    with pytest.raises(errors.UserError, match=r'had buckets of 1, 4 shots when .*now 1, 2, 4;'):
        check('RUN', begun, begun | {f'{name}/shots_2': 'x'})


# ---------------------------------------------------------------------------------------------
# Pairs, and what does not go together.


def test_pairs_of_texts(tmp_path):
    """[CLS] a [SEP] b [SEP] is cut, and compared, as features.classification has it."""
    name, draw = 'fewshot_pawsx_de_de', np.random.default_rng(2)

    def pair(label, bucket=''):
        sides = [draw.integers(3, 50, draw.integers(1, 14)).tolist() for _ in range(2)]
        ids = [tiny_labels.START, *sides[0], tiny_labels.END, *sides[1], tiny_labels.END]
        return {
            'inputs': np.array(ids, np.int32),
            'targets': np.array([label], np.int32),
            'piece_counts': np.array([len(side) for side in sides], np.int32),
            'inputs_pretokenized': '\t'.join(map(str, sides)),
            'targets_pretokenized': 'bad',
            'uid': f'german-{len(ids)}-val',
            'bucket': bucket,
        }

    splits = {'test': [pair(n % 2) for n in range(30)]}
    splits['shots_1'] = [pair(n % 2, str(n // 2)) for n in range(6)]
    for split, rows in splits.items():
        tiny_labels.write_task(tmp_path, 'classification', name, split, rows)
    corpus = opened(tmp_path, 'classification', 'pawsx', shots=(1,), buckets=(0, 1, 2), dev='none')
    arrays = corpus.bucket_arrays(1)
    width = arrays['encoder_input_tokens'].shape[-1]
    expected = made('classification', splits['shots_1'], width)
    for feature, array in expected.items():
        found = arrays[feature].reshape(array.shape)
        if feature == 'encoder_input_tokens':
            found = corpus.token_ids[found]
        np.testing.assert_array_equal(found, array)
    assert any(len(row['inputs']) > LIMIT for row in splits['test'])
    full, taken = made('classification', splits['test'], LIMIT), corpus.test.take
    labels = np.concatenate([batch['labels'] for batch in corpus.test.each()])
    assert labels[taken].tolist() == corpus.test.gold.tolist() == full['labels'].tolist()
    for feature in full.keys() - {'labels', 'row_weights'}:
        arrays = [batch[feature] for batch in corpus.test.each()]
        padded = [np.pad(x, ((0, 0), (0, LIMIT - x.shape[1]))) for x in arrays]
        found = np.concatenate(padded)[taken]
        if feature == 'encoder_input_tokens':
            found = corpus.token_ids[found]
        np.testing.assert_array_equal(found, full[feature])


def test_splits_of_two_vocabularies_are_refused(tmp_path):
    rows = tiny_labels.records('tagging', 'fewshot_udpos_de_de', 'test')
    for split, size in (('test', 50), ('validation', 60)):
        vocabulary = tiny_labels.VOCABULARY | {'size': size}
        tiny_labels.write_task(tmp_path, 'tagging', 'fewshot_udpos_de_de', split, rows, vocabulary)
    with pytest.raises(errors.UserError, match='another vocabulary; prepare both again'):
        opened(tmp_path, 'tagging', shots=())


@pytest.mark.parametrize('task, lang', [('xnli', 'sw'), ('pawsx', 'ja')])
def test_published_shots_have_the_letters_of_their_rows(dev_data, task, lang):
    """The buckets are spaced as in the official files, the dev files here as XTREME has them."""
    path = str(dev_data / task / f'dev-{lang}.tsv.gz')
    rows = {record['uid']: record for record in labelled.READERS[task](path, lang)}
    for number in FEWSHOT.shots(task):
        for bucket in bucket_files.load(dev_data / 'fsxlt_buckets', task, lang, number):
            for example in bucket.examples:
                pair = [
                    {'inputs_pretokenized': '\t'.join(r[name] for name in ('text_a', 'text_b'))}
                    for r in (example, rows[example['uid']])
                ]
                assert corpus_lib._letters(pair[0]) == corpus_lib._letters(pair[1])
