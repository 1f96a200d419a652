"""Reports say which differences between runs are significant."""

import json

import msgspec
import numpy as np
import pytest
from report_sections import section_of
from workdir_files import QG, change, write_predictions, write_workdir

from xlbench import metrics, report
from xlbench.reporting import comparisons, results, statistics
from xlbench.system.errors import UserError

COUNT = 30
WORDS = np.array(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l'])


def write(path, quality, seed=0, score='rouge_l', steps=(10,), name=''):
    """A run that writes some of the words of each reference; its scores are those of the texts."""
    write_workdir(path, 0.0, seed=seed, steps=steps, num_examples=COUNT)
    named = {'name': name or path.name}  # Equal configs would be seeds of one system.
    change(path / 'config.json', lambda was: {'config': was['config'] | named})
    suite = {'rouge_l': metrics.MultilingualRouge('de'), 'bleu': metrics.SacreBleu()}[score]
    for step in steps:
        for i, task in enumerate(QG.evaluate):
            rng = np.random.default_rng([i, 7])
            targets = [' '.join(rng.permutation(WORDS)) for _ in range(COUNT)]
            drops = np.random.default_rng([i, seed, step, int(100 * quality)])
            texts = [
                ' '.join(word for word in t.split() if drops.random() < quality) for t in targets
            ]
            corpus, rows = metrics.score(suite, targets, [[text] for text in texts])
            folder = path / 'eval' / str(step) / 'test' / task
            facts = {'scores': dict(corpus), 'metrics': [metrics.specs.to_spec(suite)]}
            change(folder, facts)
            lines = [
                {'id': j, 'input': '', 'target': targets[j], 'prediction': texts[j], 'scores': row}
                for j, row in enumerate(rows)
            ]
            write_predictions(path, task, lines, step)
    return path


def table(*paths, test='t-test', step='last', against=''):
    section = section_of(*paths, step=step)
    other = section_of(*paths, step=against) if against else None
    return comparisons.table(section, section.scores[0], test, other, against)


def scores_of(path):
    """The scores of the run in English."""
    return results.read_run(path).at(10, 'test')['mtg_qg_en_en'].scores


def test_runs_are_compared(tmp_path):
    good = write(tmp_path / 'good', 0.9)
    poor = write(tmp_path / 'poor', 0.6, seed=1)
    for test in ('t-test', 'bootstrap', 'randomization'):
        made = table(poor, good, test=test)
        difference, p_values = made.rows
        assert difference.name == 'good minus poor'
        assert all(cell.value > 10 and cell.mark == '*' for cell in difference.cells)
        assert '5 of 5 differences are significant' in made.notes[0]
        assert 'corrected for 5 comparisons (Holm)' in made.notes[0]
        assert float(str(p_values.cells[0]).lstrip('<')) < 0.01
    # Two draws of one and the same quality are not told apart.
    twin = write(tmp_path / 'twin', 0.6, seed=2)
    made = table(poor, twin)
    assert '0 of 5 differences' in made.notes[0]


def test_significance_does_not_vanish_as_a_report_grows(tmp_path):
    """Of 2 and 8 runs, resampling finds nearly as much as the t-test of the same scores."""
    paths = [write(tmp_path / f'run{i}', 0.5 + 0.04 * i, seed=i) for i in range(8)]
    for count in (2, 8):
        found = {}
        for test in statistics.TESTS:
            made = table(*paths[:: 8 // count], test=test)
            found[test] = sum(cell.mark == '*' for row in made.rows[::2] for cell in row.cells)
        assert found['t-test'] > 0
        for test in ('bootstrap', 'randomization'):
            assert abs(found[test] - found['t-test']) <= 0.15 * found['t-test'] + 1


def test_any_scores_are_compared(tmp_path, capsys):
    folders = [str(write(tmp_path / f'run{i}', q, seed=i)) for i, q in enumerate((0.9, 0.6))]
    assert report.main([*folders, '--significance=t-test', '--scores=rouge_1,rouge_2']) == 0
    printed = capsys.readouterr().out
    titles = [line for line in printed.splitlines() if line.startswith('### Differences')]
    assert titles == ['### Differences of rouge_1', '### Differences of rouge_2']
    assert printed.count('5 of 5 differences are significant') == 2
    with pytest.raises(UserError, match=r"unknown score in --scores 'rouge_3'; .*rouge_1"):
        report.main([*folders, '--significance=t-test', '--scores=rouge_3'])
    with pytest.raises(UserError, match='--scores needs --significance'):
        report.main([*folders, '--scores=rouge_1'])


def test_identical_runs_and_seeds(tmp_path):
    first = write(tmp_path / 'a', 0.7)
    again = write(tmp_path / 'b', 0.7)
    made = table(first, again)
    assert [str(cell) for cell in made.rows[1].cells] == ['identical'] * 5
    assert '0 of 0 differences' in made.notes[0]


def test_seeds_are_averaged_before_the_test(tmp_path, capsys):
    seeds = [write(tmp_path / f's{i}', 0.7, seed=i, name='s') for i in range(2)]
    other = write(tmp_path / 'other', 0.9, seed=3)
    assert report.main([*map(str, seeds), '--intervals']) == 0
    said = capsys.readouterr().out
    pair = [scores_of(path)['rouge_l'] for path in seeds]
    width = 12.7062 * abs(pair[0] - pair[1]) / 2  # t of one degree of freedom.
    assert f'{sum(pair) / 2:.1f} ±{width:.1f}' in said and '95 % interval of the mean over' in said
    made = table(*seeds, other)
    assert made.rows[0].name == 'other minus s (2 seeds)'
    best = scores_of(other)['rouge_l']
    assert made.rows[0].cells[0].value == pytest.approx(best - sum(pair) / 2)


def test_corpus_scores_are_resampled(tmp_path):
    good = write(tmp_path / 'good', 0.95, score='bleu')
    poor = write(tmp_path / 'poor', 0.7, seed=1, score='bleu')
    made = table(poor, good, test='bootstrap')
    difference, _ = made.rows
    bleus = [scores_of(path)['bleu'] for path in (good, poor)]
    assert difference.cells[0].value == pytest.approx(bleus[0] - bleus[1])
    average = difference.cells[-1]
    assert average.value == pytest.approx(np.mean([cell.value for cell in difference.cells[:-1]]))
    # Over four tasks the interval is about half as wide.
    assert average.spread < 0.7 * min(cell.spread for cell in difference.cells[:-1])
    assert all(cell.mark == '*' for cell in difference.cells)
    said = made.notes[0]
    assert '5 of 5 differences' in said and '10,000 resamples each; 5 p-values beyond them' in said
    seeds = [write(tmp_path / f's{i}', 0.8, seed=i, score='bleu', name='s') for i in range(2)]
    of_seeds = table(*seeds, good, test='bootstrap').rows[0].cells[0]
    best, *others = (scores_of(path)['bleu'] for path in (good, *seeds))
    assert of_seeds.value == pytest.approx(best - np.mean(others))
    assert 'between equally many seeds' in table(*seeds, good, test='randomization').missing
    assert table(poor, good).missing == (
        'bleu of mtg_qg_en_en is no mean over examples; --significance=bootstrap or randomization '
        'can test it; ' + '; '.join(
            f'bleu of mtg_qg_{lang}_{lang} is no mean over examples; --significance=bootstrap or '
            'randomization can test it' for lang in ('de', 'fr', 'es')
        )
    )  # fmt: skip


OWN = """
def longest(targets, predictions):
    return {'longest': sum(sorted(map(len, predictions))[-5:]) / 5 - len(targets[0]) * 0}
"""


def test_an_own_metric_is_computed_again_from_the_stored_texts(tmp_path, monkeypatch):
    """Of a function of targets and predictions, and of macro F1, which is no mean either."""
    (tmp_path / 'tasks').mkdir()
    (tmp_path / 'tasks' / 'own.py').write_text(OWN)
    monkeypatch.chdir(tmp_path)
    paths = [write(tmp_path / name, q, seed=i) for i, (name, q) in enumerate(QUALITIES.items())]
    spec = {'metric': 'tasks/own.py:longest', 'kwargs': {}}
    f1 = {'metric': 'xlbench.metrics.classification:Classification', 'kwargs': {'labels': []}}
    for path in paths:
        for folder in (path / 'eval' / '10' / 'test').iterdir():
            text = (folder / 'predictions.jsonl').read_text()
            lines = list(map(json.loads, text.splitlines()))
            for line in lines:
                line['scores'].clear()
            texts = [line['prediction'] for line in lines]
            scores = {'longest': sum(sorted(map(len, texts))[-5:]) / 5}
            scores |= metrics.Classification()([x['target'] for x in lines], texts)
            change(folder, {'scores': scores, 'metrics': [spec, f1]})
            write_predictions(path, folder.name, lines)
    section = section_of(*paths)
    for test in ('bootstrap', 'randomization'):
        made = comparisons.table(section, 'longest', test)
        assert all(cell.mark == '*' for cell in made.rows[0].cells) and len(made.notes) == 1
        assert ', 1,000 resamples each' in made.notes[0]
    assert 'resamples each' in comparisons.table(section, 'macro_f1', 'bootstrap').notes[0]
    said = comparisons.table(section, 'longest', 't-test').missing
    assert said.startswith('longest of mtg_qg_en_en is no mean over examples')
    # Each cause has its own words, after however few resamples.
    monkeypatch.setattr(comparisons, '_FUNCTIONS', (10, 10, 10))
    place = paths[1] / 'eval' / '10' / 'test' / 'mtg_qg_en_en'
    record = json.loads((place / 'metrics.json').read_text())

    def missing(change: dict, score: str = 'longest') -> str:
        (place / 'metrics.json').write_text(json.dumps(record | change))
        made = comparisons.table(section_of(*paths), score, 'bootstrap')
        return ' '.join([made.missing, *made.notes[1:]])

    assert 'does not name its metrics; evaluate again' in missing({'metrics': []})
    foreign = {'metric': 'elsewhere:f', 'kwargs': {}}
    assert 'set XLBENCH_METRICS=elsewhere if you trust it' in missing({'metrics': [foreign]})
    assert 'no metric of mtg_qg_en_en computes' in missing({'metrics': [f1]})
    changed = record['scores'] | {'longest': 1.0}
    assert 'gives longest' in missing({'scores': changed})
    assert 'has no longest of mtg_qg_en_en' in missing({'scores': {'accuracy': 0.0}})
    missing({})
    (place / 'predictions.jsonl').unlink()
    assert 'high has no predictions.jsonl of mtg_qg_en_en' in missing({})


QUALITIES = {'low': 0.3, 'high': 0.9}


def test_a_run_is_compared_with_its_earlier_step(tmp_path, capsys):
    run = write(tmp_path / 'run', 0.8, steps=(10, 20))
    assert report.main([str(run), '--significance=t-test', '--against=10']) == 0
    said = capsys.readouterr().out
    assert '### Differences of rouge' in said and '| run minus 10 |' in said
    assert report.main([str(run), '--significance=t-test', '--format=html']) == 0
    assert 'fewer than two systems have this score' in capsys.readouterr().out
    with pytest.raises(UserError, match='--against needs --significance'):
        report.main([str(run), '--against=10'])


def test_other_examples_and_changed_texts_have_no_test(tmp_path):
    good, poor = write(tmp_path / 'good', 0.9), write(tmp_path / 'poor', 0.6, seed=1)
    path = poor / 'eval' / '10' / 'test' / 'mtg_qg_en_en' / 'predictions.jsonl'
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(''.join(lines[:-1]))
    made = table(poor, good)
    assert str(made.rows[0].cells[0]) == str(made.rows[0].cells[-1]) == '-'
    path.write_text(''.join([*lines, lines[0]]))
    with pytest.raises(UserError, match="id '0' is there twice"):
        table(poor, good)


@pytest.mark.parametrize(
    'metric',
    [
        metrics.SacreBleu('char'),
        metrics.ChrF(),
        metrics.ChrFPlusPlus(),
        metrics.Ter(normalized=True, asian_support=True),
    ],
    ids=lambda metric: type(metric).__name__,
)
def test_a_metric_is_made_again_from_its_spec(tmp_path, metric):
    targets, texts = ['Das ist ein Haus.', 'Wo?'], ['Das ist kein Haus!', 'wo?']
    ((score, value),) = metric(targets, texts).items()
    write_workdir(tmp_path / 'run', 0.0, baselines=False)
    result = results.read_run(tmp_path / 'run').at(10, 'test')['mtg_qg_de_de']
    spec = metrics.specs.to_spec(metric)
    broken = {**spec, 'kwargs': {name: ['x'] for name in spec['kwargs']}}
    for known, stored, made in (
        ([broken, spec], value, True), ([broken], value, False), ([spec], value + 1, False),
    ):  # fmt: skip
        changed = msgspec.structs.replace(result, metrics=known, scores={score: stored})
        scorer = comparisons._scorer(changed, score, texts, [targets])
        assert (scorer is not None) == made
        if scorer:
            assert scorer.corpus_score(texts, [targets]).score == pytest.approx(value)
            assert str(scorer.get_signature()) == metric.signature
