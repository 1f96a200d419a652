"""Tests of the tables and figures of a paper from runs."""

import base64
import csv
import json
import operator
import re
import xml.etree.ElementTree as ElementTree

import mtg_runs
import pytest
import scipy.stats
from report_sections import texts_of

from xlbench import benchmarks, report
from xlbench.benchmarks import MTG, SCENARIO_TITLES
from xlbench.metrics import fitted_rating
from xlbench.reporting import drawing, predictions, results
from xlbench.reporting.paper_tables import making, material as material_lib
from xlbench.system.errors import UserError

OFFICIAL = {'data': 'files', 'examples': 3000}


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    """Two models in all settings of one task."""
    folder = tmp_path_factory.mktemp('runs')
    mtg_runs.write_all(folder, models=('mT5', 'mBART'), tasks=('qg',))
    return sorted(folder.iterdir())


def run_of(paths, name):
    return results.read_run(next(path for path in paths if path.name == name))


def material(paths, **more):
    return material_lib.Material(MTG, [results.read_run(path) for path in paths], **more)


def made(name, paths, **more):
    (table,) = (table for table in MTG.paper_tables if table.short == name)
    (numbers,), _ = making.parted(making.make(material(paths, **more), table))
    return numbers


def test_table_4_averages_over_targets(runs):
    table = made('Table 4', runs)
    scores = 'bleu rouge_1 rouge_2 rouge_l meteor bertscore distinct_1 distinct_2 fitted_rating'
    assert [c.label for c in table.columns] == scores.split()
    run = run_of(runs, 'zero_shot-qg-en-mT5')
    scores = [r.scores['rouge_l'] for r in run.at(20, 'test').values()]
    texts = texts_of(table)
    assert len(scores) == 3 and texts['qg mT5'][3:5] == [f'{sum(scores) / 3:.2f}', '-']
    # What no run fills is a gap in the paper's layout, and named.
    assert list(texts) == [f'{t} {m}' for t in MTG.tasks for m in MTG.paper_models]
    assert set(texts['qg XLM']) == {'-'}
    gaps = [note for note in table.notes if note.startswith('No run')]
    assert gaps == [
        'No run fills the rows sg, tg, M-BERT, XLM.',
        'No run fills the columns meteor, bertscore, fitted_rating.',
    ]
    assert table.notes[0].startswith('SAMPLE DATA') and not any('paper' in r for r in texts)


def test_table_7_tests_the_stages(runs):
    table = made('Table 7', runs)
    assert [c.label for c in table.columns] == [*SCENARIO_TITLES.values()]
    mine = [name for name in texts_of(table) if name.startswith('qg mT5')]
    assert mine == ['qg mT5 stage1', 'qg mT5 stage2', 'qg mT5 p-value']
    # The multilingual run by hand: a t-test over the examples of all its languages.
    run = run_of(runs, 'multi-qg-all-mT5')
    sides = [
        [
            row.scores['rouge_l']
            for _, result in sorted(run.at(step, 'test').items())
            for row in predictions.of_result(result).values()
        ]
        for step in (10, 20)
    ]
    assert texts_of(table)['qg mT5 stage2'][1] == f'{sum(sides[1]) / len(sides[1]):.2f}'
    p = scipy.stats.ttest_rel(*sides).pvalue
    shown = texts_of(table)['qg mT5 p-value'][1].rstrip('*')
    assert float(shown.replace('<', '')) >= round(p, 3)  # The correction makes none smaller.


def test_the_papers_numbers_stand_beside_official_data_alone(tmp_path):
    for scenario in mtg_runs.scenarios('qg'):
        if scenario.name in ('multi', 'zero_shot'):
            path = tmp_path / scenario.name
            mtg_runs.write_run(path, 'mBART', scenario, **OFFICIAL)
    paths = sorted(tmp_path.iterdir())
    stages = texts_of(made('Table 7', paths))
    printed = stages['qg mBART stage1 (paper)']
    assert printed == ['3.375', '3.375', '3.392', '3.784', '3.352', '2.397']
    assert stages['qg mBART p-value (paper)'][3] == '0.234'
    assert stages['qg mBART stage2'][1] != '-' and stages['qg mBART stage2'][0] == '-'
    zero_shot = texts_of(made('Table 4', paths))
    assert zero_shot['qg mBART (paper)'] == [
        '1.00', '5.50', '1.00', '5.30', '7.10', '74.50', '98.00', '100.00', '2.82',
    ]  # fmt: skip
    full = texts_of(made('Table 12', paths))
    assert full['qg mBART de-de (paper)'][:2] == ['11.92', '29.00']
    assert full['sg mT5 en-en'] == ['-'] * 7


def test_figures_are_drawn(runs, tmp_path, monkeypatch):
    """The files, the numbers, and the picture in the page; a figure says what it lacks."""
    output = tmp_path / 'out'
    flags = [*map(str, runs), '--figure=2,4', f'--output={output}']
    report.main([*flags, '--format=markdown,html'])
    assert sorted(path.name for path in output.iterdir()) == [
        'figure4.pdf', 'figure4.png', 'figure4.svg', 'report.html', 'report.md',
    ]  # fmt: skip
    picture = (output / 'figure4.svg').read_text()
    texts = {text.strip() for text in ElementTree.fromstring(picture).itertext()}
    assert {'source language', 'target language', 'rouge_l', 'QG mT5', 'QG mBART', 'de'} <= texts
    page, text = ((output / f'report.{kind}').read_text() for kind in ('html', 'md'))
    source = re.search(r'<figure[^>]*>(?:(?!</figure>).)*<img[^>]* src="[^"]*,([^"]*)"', page, re.S)
    assert 'QG mBART' in base64.b64decode(source[1]).decode()
    assert '![Figure 4: From each language into each](figure4.png)' in text
    assert 'Left out: it is made of --ratings=FILE' in text
    monkeypatch.setattr(drawing, 'encoded', lambda drawn, kind: b'again')
    report.main([*flags, '--format=markdown'])  # Our own may be replaced.
    assert (output / 'figure4.png').read_bytes() == b'again'


@pytest.mark.parametrize(('name', 'text'), [('Figure 3', 'Mono-M'), ('Figure 5', 'stage2')])
def test_bars_are_drawn(runs, name, text):
    (table,) = (table for table in MTG.paper_tables if table.short == name)
    (figure,) = making.make(material(runs), table)
    assert text in figure.svg() and 'rouge_l' in figure.svg() and not figure.numbers.missing


def test_figure_6_has_chains_under_their_models(runs):
    numbers = texts_of(made('Figure 6', runs))
    assert [*numbers] == [
        f'qg {model} {way}'
        for model in ('mBART', 'mT5')
        for way in ('cross-lingual', 'generate, then translate', 'p-value')
    ]
    assert not any('-' in cells for cells in numbers.values())


def linear_rating(path, weights):
    """A file of a rating that is 1 plus a weighted sum of distinct_1 and distinct_2."""
    fit = fitted_rating.Fit(
        format=fitted_rating.FORMAT, target='mean', regressor='LinearRegression',
        metrics=['distinct'], features=['distinct_1', 'distinct_2'], fitted_on='made up',
        sha256='0' * 64, pearson={}, langs=['en'], versions={}, seed=0,
        x=(x := [[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]]),
        y=[1 + sum(map(operator.mul, row, weights)) for row in x],
    )  # fmt: skip
    path.write_bytes(fitted_rating.encode(fit))
    return str(path)


def test_a_fitted_rating_stands_for_texts(runs, tmp_path):
    """It is predicted for every text, compared between stages, and named with what made it."""
    paths = [path for path in runs if path.name in ('multi-qg-all-mT5', 'zero_shot-qg-en-mT5')]
    rating = linear_rating(tmp_path / 'rating.json', [0.03, 0.0])
    table = made('Table 4', paths, rating=rating)
    ours = dict(zip((c.label for c in table.columns), texts_of(table)['qg mT5'], strict=True))
    distinct = float(ours['distinct_1'])
    assert float(ours['fitted_rating']) == pytest.approx(1 + 0.03 * distinct, abs=0.01)
    assert any(note.startswith('FittedRating: fitted_rating|target:mean') for note in table.notes)
    stages = made('Table 7', paths, rating=rating)
    assert any(note.startswith('fitted_rating, averaged') for note in stages.notes)
    assert texts_of(stages)['qg mT5 p-value'][1] != '-'


@pytest.fixture(scope='module')
def rated(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp('ratings')
    chosen = [path for path in runs if path.name.startswith(('mono-', 'zero_shot'))]
    return str(mtg_runs.write_ratings(folder / 'ratings.jsonl', chosen))


def test_table_8_has_the_ratings_of_judges(runs, rated):
    texts, _ = material_lib.read_texts([rated])
    mine = [text for text in texts if text.system.startswith('mono-qg') and 'mT5' in text.system]
    by_lang = [[t.ratings['Fluency'] for t in mine if t.lang == lang] for lang in MTG.languages]
    mean = sum(sum(numbers) / len(numbers) for numbers in by_lang) / 4
    table = made('Table 8', runs, rated=texts)
    assert texts_of(table)['Mono mT5'][1] == f'{mean:.2f}'
    assert set(texts_of(table)['Multi mT5']) == {'-'} and table.notes[0].startswith('SAMPLE DATA')
    assert any('Nothing was rated of Mono M-BERT' in note for note in table.notes)
    # A system may be called after its setting and model, without a run.
    for text in texts:
        text.system, text.data = 'cross my model', 'files'
    named = texts_of(made('Table 8', runs, rated=texts))
    assert '-' not in named['Cross my model'] and set(named['Mono mT5']) == {'-'}
    assert made('Table 10', runs, rated=texts).missing == 'no text of sg was rated by --ratings'


def test_regressors_and_scores_correlate_with_ratings(runs, rated, capsys):
    """Table 3 and figure 2: what decides the ratings here is the share of right words."""
    flags = ['--table=3', '--figure=2', f'--ratings={rated}', '--format=csv']
    report.main([str(runs[0]), *flags])
    lines = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    values = {(line['exhibit'], line['row'], line['column']): line['value'] for line in lines}
    regressors_of = [column for name, row, column in values if (name, row) == ('Table 3', 'mean')]
    assert regressors_of == list(fitted_rating.REGRESSORS)
    assert float(values['Figure 2', 'rouge_l', 'Relevance']) > 0.5
    assert ('Figure 2', 'fitted_rating', 'mean') in values
    assert all(-1 <= float(value) <= 1 for value in values.values())


def test_table_6_counts_what_was_built(runs, tmp_path):
    with pytest.raises(UserError, match='build rough data with'):
        made('Table 6', runs[:1], rough=str(tmp_path))
    folder = tmp_path / 'mtg' / 'qg'
    folder.mkdir(parents=True)
    about = {'kept': {'0': 90, '0.3': 80, '0.4': 70, '0.45': 60, '0.5': 50, '0.6': 4}, 'counts': {}}
    (folder / 'rough_train.about.json').write_text(json.dumps(about))
    table = made('Table 6', runs[:1], rough=str(tmp_path))
    assert texts_of(table)['0.5'] == ['50', '-', '-']
    assert [*texts_of(table)] == ['0', '0.3', '0.4', '0.5', '0.6']


def test_numbers_of_tables_are_known(runs, capsys):
    paths = list(map(str, runs))
    report.main([*paths, '--table=7', '--figure=4'])
    text = capsys.readouterr().out
    assert '### Table 7: After the first stage' in text and '| qg mT5 p-value | ' in text
    assert '### Figure 4: From each language' in text  # Its numbers; the picture needs --output.
    for flag in ('--table=2', '--table=x', '--figure=1'):
        with pytest.raises(UserError, match='of mtg is not made from runs; '):
            report.main([*paths, flag])
    with pytest.raises(UserError, match='have their own tests'):
        report.main([*paths, '--table=7', '--significance=t-test'])
    for benchmark in benchmarks.BENCHMARKS.values():
        kinds = {table.shows for table in benchmark.paper_tables}
        assert kinds <= {*making.MAKERS, '', 'judged', 'replies'}
