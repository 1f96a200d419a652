import csv
import dataclasses

import numpy as np
import pytest
import tiny_labels
import tiny_sweep

from xlbench.data import prepared
from xlbench.fewshot import corpus as corpus_lib, results, settings
from xlbench.fewshot.analysis import figure_data, figures
from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.fewshot.analysis.systems import System, systems
from xlbench.reporting import drawing
from xlbench.system.errors import UserError

LIMIT = 7  # Tokens: the third sentence loses its last two words.
TAGS = tiny_labels.LABELS['tagging']
NOUN, VERB, X = range(3)
# Sentences as (word's pieces, tag); a word is called by its pieces, 3 and 10-11.
TEST = (
    (([3], NOUN), ([10, 11], VERB), ([4], X)),
    (([3], VERB), ([5], NOUN)),
    (([6], NOUN), ([7], NOUN), ([12, 13], VERB), ([3], X), ([8], X), ([9], X)),
)
GOLD = [NOUN, VERB, X, -1, VERB, NOUN, -1, NOUN, NOUN, VERB, X, -1]
ZERO = [NOUN, NOUN, NOUN, -1, NOUN, NOUN, -1, X, X, X, NOUN, -1]
WORDS = ['3', '10-11', '4', '', '3', '5', '', '6', '7', '12-13', '3', '']
# Bucket 0 puts right 10-11 and both 3 that were wrong, bucket 1 the words 6 and 12-13.
PREDICTED = (
    [NOUN, VERB, NOUN, -1, VERB, NOUN, -1, X, X, X, X, -1],
    [NOUN, NOUN, NOUN, -1, NOUN, X, -1, NOUN, X, VERB, NOUN, -1],
)
BUCKETS = ((([3], X), ([9], NOUN)), (([6], VERB), ([7], VERB), ([6], NOUN)))


def row(language, bucket, score, task='udpos', **fields):
    one = tiny_sweep.row(language, 1, bucket, score, score - 1, task=task, learning_rate=1e-3)
    curve = (score - 1, score - 2, score - 3)
    return dataclasses.replace(one, **{'curve': curve, **fields})


def zero_row(language, score, task='udpos'):
    return tiny_sweep.zero_shot(language, score, task=task)


def sweep_of(folder, rows, root='nowhere', data='files'):
    """A workdir; `rows`: pairs of a row and what it predicts, or None."""
    source = {'data': {'root': str(root), 'vocabulary': 'sample'}}
    config = {'source': source, 'source_workdir': '', 'adapt': {'lengths': {'inputs': LIMIT}}}
    journal = results.Journal(tiny_sweep.write(folder, [], config=config, data=data))
    for one, predicted in rows:
        journal.add(one, None if predicted is None else np.array(predicted))
    return journal


def of_rows(folder, rows, **fields):
    sweep_of(folder, [(one, None) for one in rows], **fields)
    return Sweep(folder)


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    """Prepared udpos in German: the test set and two buckets."""
    folder = tmp_path_factory.mktemp('root')

    def record(sentence, **more):
        words, tags = zip(*sentence, strict=True)
        return tiny_labels.record('tagging', words, tags) | more

    name = 'fewshot_udpos_de_de'
    tiny_labels.write_task(folder, 'tagging', name, 'test', [record(s, bucket='') for s in TEST])
    numbered = [record(s, bucket=str(i)) for i, s in enumerate(BUCKETS)]
    tiny_labels.write_task(folder, 'tagging', name, 'shots_1', numbered)
    return folder


@pytest.fixture
def words_sweep(root, tmp_path):
    rows = [(zero_row('de', 30.0), ZERO)]
    rows += [(row('de', i, 40.0 + i), predicted) for i, predicted in enumerate(PREDICTED)]
    journal = sweep_of(tmp_path / 'words', rows, root, data='sample')
    journal.add_gold('udpos', 'de', np.array(GOLD), TAGS, len(TEST))
    return Sweep(tmp_path / 'words')


def pictures(monkeypatch, *kinds):
    """Figures become files of these kinds alone, the others are empty: they take most time."""
    made = drawing.encoded
    of_kind = lambda drawn, kind: made(drawn, kind) if kind in kinds else b''  # noqa: E731
    monkeypatch.setattr(drawing, 'encoded', of_kind)


def one_group(sweep):
    [group] = System(sweep.rows[0].task, (sweep,)).adapted.values()
    return group


def table(path):
    with open(path, encoding='utf-8', newline='') as file:
        return list(csv.DictReader(file))


def test_groups_are_of_the_full_model_with_the_best_rate(tmp_path):
    rows = [
        zero_row('de', 50.0),
        row('de', 0, 60.0), row('de', 1, 62.0),
        row('de', 0, 80.0, learning_rate=1e-2, dev_score=10.0),
        row('de', 1, 80.0, learning_rate=1e-2, dev_score=10.0),
        row('de', 0, 90.0, method='fc'), row('de', 0, 20.0, start='none'),
        dataclasses.replace(row('de', 2, 0.0), status='empty', score=None),
        row('fr', 0, 55.0),
    ]  # fmt: skip
    groups = System('udpos', (of_rows(tmp_path / 'a', rows),)).adapted
    assert list(groups) == [('de', 1), ('fr', 1)]
    group = groups['de', 1]
    np.testing.assert_array_equal(group.scores, [60, 62])
    assert group.zero_shot == 50
    assert np.isnan(groups['fr', 1].zero_shot)


def test_seeds_and_buckets_are_told_apart(tmp_path):
    """Three seeds on bucket 2, and four buckets with seed 42."""
    rows = [row('de', bucket, 60.0 + bucket) for bucket in range(4)]
    rows += [row('de', 2, 70.0 + seed, seed=seed) for seed in (1, 2)]
    group = one_group(of_rows(tmp_path / 'a', rows))
    assert [(r.seed, r.bucket) for r in group.by_seed] == [(1, 2), (2, 2), (42, 2)]
    assert [(r.seed, r.bucket) for r in group.by_bucket] == [(42, i) for i in range(4)]
    assert figure_data.distributions([group]) == (group, group)
    assert figure_data.distributions([one_group(of_rows(tmp_path / 'b', rows[:4]))]) is None
    # Where seeds and buckets are of different sweeps, each half is from the one with the most.
    more = one_group(of_rows(tmp_path / 'c', [row('de', i, 50.0 + i) for i in range(9)]))
    assert figure_data.distributions([group, more]) == (group, more)
    rows = [dataclasses.replace(one, dev_score=None, curve=()) for one in rows]
    assert figure_data.distributions([one_group(of_rows(tmp_path / 'd', rows))]) is None


def test_means_are_sorted_by_zero_shot(tmp_path, monkeypatch):
    pictures(monkeypatch)
    rows = [zero_row('de', 50.0), zero_row('fr', 70.0)]
    rows += [row('de', 0, 60.0), row('de', 1, 64.0), row('de', 0, 66.0, shots=4)]
    rows += [row('fr', 0, 71.0), row('fr', 1, 73.0), row('fr', 2, 75.0), row('ja', 0, 20.0)]
    [*_, drawn] = figures.draw_all(systems([of_rows(tmp_path / 'a', rows)]), tmp_path)[:2]
    assert drawn.caption.endswith('over 1 to 3 buckets.')
    found = [[*line.values()][1:] for line in table(tmp_path / 'figure2-udpos.csv')]
    assert found == [
        ['fr', '0', '70.0000', '', ''], ['fr', '1', '73.0000', '2.0000', '3'],
        ['fr', '4', '', '', '0'], ['de', '0', '50.0000', '', ''],
        ['de', '1', '62.0000', '2.8284', '2'], ['de', '4', '66.0000', '', '1'],
        ['ja', '0', '', '', ''], ['ja', '1', '20.0000', '', '1'], ['ja', '4', '', '', '0'],
    ]  # fmt: skip


def test_improved_words_are_those_that_zero_shot_gets_wrong():
    gold, zero, *predicted = (
        np.array(x).astype(np.uint8)
        for x in (GOLD, ZERO, *PREDICTED)  # -1 becomes 255.
    )
    assert gold[3] == figure_data.SEPARATOR
    found = figure_data.improved(gold, zero, np.stack(predicted))
    words = np.array(WORDS)
    assert [words[where].tolist() for where in found] == [['10-11', '3', '3'], ['6', '12-13']]


def test_overlap_is_the_jaccard_index_of_different_words():
    assert figure_data.jaccard({'a', 'b', 'c'}, {'b', 'c', 'd'}) == 0.5
    assert figure_data.jaccard(set(), set()) == 0.0
    words = np.array(['a', 'b', 'a', '', 'c', 'd', ''], object)
    better = np.array([[1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 0], [0] * 7], bool)
    buckets = [{'a', 'b', 'e'}, {'c'}, set()]
    # {a, b} and {a, b, e}: 2 of 3; {c, d} and {c}: 1 of 2; {c, d} and {a, b, e}: none.
    expected = [[2 / 3, 0, 0], [0, 1 / 2, 0], [0, 0, 0]]
    np.testing.assert_allclose(figure_data.Words(words, better, buckets).overlaps(), expected)
    # 'a' is improved twice, and counts twice.
    buckets[0] = {'a'}
    found = figure_data.Words(words, better, buckets).seen()
    np.testing.assert_array_equal(found, [[2, 1], [1, 1], [0, 0]])


def test_words_are_found_where_predictions_are(root, words_sweep):
    names = [('fewshot_udpos_de_de', split) for split in ('test', 'shots_1')]
    splits = {s: prepared.open_task(str(root), 'sample', n, s) for n, s in names}
    adapt = settings.Adapt(
        languages=('de',), shots=(1,), buckets=2, learning_rates=(1e-5,), dev='none',
        lengths={'inputs': LIMIT}, eval_batch_size=2,
    )  # fmt: skip
    corpus = corpus_lib.Corpus(splits, adapt, 'tagging')
    assert corpus.test.gold.tolist() == GOLD
    found = figure_data.read_words(one_group(words_sweep))
    assert found.words.tolist() == WORDS
    assert found.buckets == [{'3', '9'}, {'6', '7'}]
    # {3, 10-11} with {3, 9} and {6, 7}; {6, 12-13} likewise.
    np.testing.assert_allclose(found.overlaps(), [[1 / 3, 0], [0, 1 / 3]])
    np.testing.assert_array_equal(found.seen(), [[2, 1], [1, 1]])


def test_another_test_set_is_refused(root, tmp_path):
    gold = [*GOLD[:4], NOUN, *GOLD[5:]]
    rows = [(zero_row('de', 30.0), ZERO), (row('de', 0, 40.0), PREDICTED[0])]
    sweep_of(tmp_path / 'a', rows, root).add_gold('udpos', 'de', np.array(gold), TAGS, 3)
    with pytest.raises(UserError, match='not the one that was scored'):
        figure_data.read_words(one_group(Sweep(tmp_path / 'a')))


def test_confusion_is_the_mean_over_buckets():
    gold = np.array([0, 0, 1, 2], np.uint8)
    predicted = np.array([[0, 1, 1, 0], [0, 0, 1, 1]], np.uint8)
    expected = [[1.5, 0.5, 0], [0, 1, 0], [0.5, 0.5, 0]]
    np.testing.assert_array_equal(figure_data.confusion(gold, predicted, 3), expected)


def test_curves_end_with_the_shortest():
    np.testing.assert_array_equal(figure_data.mean_curve([(1, 2, 3), (3, 6)]), [2, 4])
    assert figure_data.mean_curve([]).shape == (0,)


def test_all_figures_of_taggers(root, words_sweep, tmp_path):
    more = [row('de', 0, 41.0 + seed, seed=seed) for seed in (1, 2, 3)]
    other = of_rows(tmp_path / 'seeds', more, root=root)
    drawn = figures.draw_all(systems([words_sweep, other]), tmp_path / 'one')
    numbers = [one.file.removesuffix('-udpos.svg') for one in drawn]
    assert numbers == ['figure1', 'figure2', 'figure3', 'figure4', '', 'figure6']
    assert drawn[4].note == 'there is no task of classification'
    assert all('SAMPLE DATA' in one.note for one in drawn if one.file)
    assert [one.caption.split(':')[0] for one in drawn[:2]] == [
        'Figure 1, parts of speech (udpos)', 'Figure 2, parts of speech (udpos)'
    ]  # fmt: skip
    rows = table(tmp_path / 'one' / 'figure3-udpos.csv')
    assert [(r['words_of_bucket'], r['improved_by_bucket'], r['jaccard']) for r in rows] == [
        ('0', '0', '0.3333'), ('0', '1', '0.0000'), ('1', '0', '0.0000'), ('1', '1', '0.3333')
    ]  # fmt: skip
    rows = table(tmp_path / 'one' / 'figure1-udpos.csv')
    assert [r['varied'] for r in rows] == ['seed'] * 3 + ['bucket'] * 2
    rows = table(tmp_path / 'one' / 'figure6-udpos.csv')
    found = [r['dev_score'] for r in rows if r['averaged'] == 'all']
    assert found == ['39.5000', '38.5000', '37.5000']
    # The same bytes again, and text that is text.
    figures.draw_all(systems([words_sweep, other]), tmp_path / 'two')
    names = sorted(path.name for path in (tmp_path / 'one').iterdir())
    assert len(names) == 15
    for name in names:
        one, two = ((tmp_path / folder / name).read_bytes() for folder in ('one', 'two'))
        assert one == two, name
    assert '>improved words<' in (tmp_path / 'one' / 'figure4-udpos.svg').read_text()


def test_figures_of_classifiers(tmp_path):
    rows = [(zero_row('de', 50.0, 'xnli'), [0, 1, 2, 0])]
    for bucket, predicted in enumerate(([0, 1, 1, 1], [0, 1, 1, 0])):
        rows.append((row('de', bucket, 75.0, 'xnli'), predicted))
    labels = ['contradiction', 'entailment', 'neutral']
    journal = sweep_of(tmp_path / 'a', rows)
    journal.add_gold('xnli', 'de', np.array([0, 1, 1, 2]), labels, 4)
    drawn = figures.draw_all(systems([Sweep(tmp_path / 'a')]), tmp_path / 'out')
    made = [one.file for one in drawn if one.file]
    assert made == ['figure2-xnli.svg', 'figure5-xnli.svg', 'figure6-xnli.svg']
    notes = [one.note for one in drawn if not one.file]
    assert notes[0] == 'it needs dev scores of two seeds on one bucket, and of two buckets'
    assert notes[1:] == ['there is no task of tagging'] * 2
    rows = table(tmp_path / 'out' / 'figure5-xnli.csv')
    found = {(r['shots'], r['gold'], r['predicted']): r['examples'] for r in rows}
    assert len(found) == 18
    assert found['0', 'neutral', 'contradiction'] == '1.0000'
    assert found['1', 'neutral', 'contradiction'] == '0.5000'
    assert found['1', 'entailment', 'entailment'] == '2.0000'


def test_words_that_are_not_prepared_leave_figures_out(tmp_path, monkeypatch):
    pictures(monkeypatch)
    rows = [(zero_row('de', 30.0), ZERO), (row('de', 0, 40.0), PREDICTED[0])]
    sweep_of(tmp_path / 'a', rows).add_gold('udpos', 'de', np.array(GOLD), TAGS, 3)
    drawn = figures.draw_all(systems([Sweep(tmp_path / 'a')]), tmp_path / 'out')
    assert [bool(one.file) for one in drawn] == [False, True, False, False, False, True]
    assert 'is not prepared' in drawn[2].note and '\n' not in drawn[2].note


def test_only_languages_that_gain_most_are_drawn(tmp_path, monkeypatch):
    pictures(monkeypatch, 'svg')
    languages = ['af', 'ar', 'bg', 'de', 'el', 'es', 'et', 'eu']
    rows = [zero_row(lang, 50.0) for lang in languages]
    rows += [row(lang, i, 51.0 + n + i) for n, lang in enumerate(languages) for i in (0, 1)]
    sweep = of_rows(tmp_path / 'a', rows)
    drawn = figures.draw_all(systems([sweep]), tmp_path / 'out')
    assert 'The 6 languages that gain most of 8' in drawn[5].caption
    svg = (tmp_path / 'out' / 'figure6-udpos.svg').read_text()
    assert '>eu, 1-shot<' in svg and '>af, 1-shot<' not in svg
    rows = table(tmp_path / 'out' / 'figure6-udpos.csv')
    assert {r['language'] for r in rows} == set(languages)


def test_source_models_are_kept_apart(tmp_path, monkeypatch):
    pictures(monkeypatch)
    rows = [zero_row('de', 50.0), row('de', 0, 60.0), row('de', 1, 62.0)]
    sweeps = [of_rows(tmp_path / name, rows, root=name) for name in ('a', 'b')]
    files = [one.file for one in figures.draw_all(systems(sweeps), tmp_path / 'out')]
    assert files[2:4] == ['figure2-udpos.svg', 'figure2-udpos-2.svg']
    assert len(table(tmp_path / 'out' / 'figure2-udpos-2.csv')) == 2


def test_without_adaptations_of_the_whole_model_nothing_is_drawn(tmp_path):
    sweep = of_rows(tmp_path / 'a', [zero_row('de', 50.0), row('de', 0, 60.0, method='fc')])
    drawn = figures.draw_all(systems([sweep]), tmp_path / 'out')
    assert not any(one.file for one in drawn) and len(drawn) == 6
    assert drawn[0].note == 'no adaptation of the whole model is finished'
