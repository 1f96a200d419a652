"""Tests of the tables and figures of a paper from runs."""

import re
import xml.etree.ElementTree as ElementTree

import mtg_runs
import pytest
import scipy.stats

from xlbench import benchmarks, report
from xlbench.benchmarks import MTG, SCENARIO_TITLES
from xlbench.errors import UserError
from xlbench.reporting import predictions, results
from xlbench.reporting.exhibits import making
from xlbench.reporting.figures import Figure

OFFICIAL = {'data': 'files', 'examples': 3000}


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    """Two models in all settings of one task."""
    folder = tmp_path_factory.mktemp('runs')
    mtg_runs.write_all(folder, models=('mT5', 'mBART'), tasks=('qg',))
    return sorted(folder.iterdir())


def material(paths, **more):
    return making.Material(MTG, [results.read_run(path) for path in paths], **more)


def made(name, paths, **more):
    (exhibit,) = (e for e in MTG.exhibits if e.name == name)
    one = making.make(material(paths, **more), exhibit)
    return one.numbers if isinstance(one, Figure) else one


def rows(table):
    return {row.name: [*map(str, row.cells)] for row in table.rows}


def test_table_4_averages_over_targets(runs):
    table = made('Table 4', runs)
    assert [c.label for c in table.columns] == [
        'bleu', 'rouge_1', 'rouge_2', 'rouge_l', 'meteor', 'bertscore', 'distinct_1', 'distinct_2',
        'fitted_rating',
    ]  # fmt: skip
    (run,) = (results.read_run(p) for p in runs if p.name == 'zero_shot-qg-en-mT5')
    scores = [r.scores['rouge_l'] for r in run.at(20, 'test').values()]
    ours = rows(table)['qg mT5']
    assert len(scores) == 3 and ours[3] == f'{sum(scores) / 3:.2f}'
    assert ours[4] == '-' and 'No run has meteor, bertscore, fitted_rating.' in table.notes
    # What no run fills is a gap in the paper's layout, and named.
    assert list(rows(table)) == [f'{t} {m}' for t in MTG.tasks for m in MTG.paper_models]
    assert set(rows(table)['qg XLM']) == {'-'}
    (gaps,) = (note for note in table.notes if note.startswith('No run, or not'))
    assert 'zero_shot qg M-BERT, XLM;' in gaps and 'zero_shot sg M-BERT, XLM, mBART, mT5' in gaps
    assert table.notes[0].startswith('SAMPLE DATA') and not any('paper' in r for r in rows(table))


def test_table_7_tests_the_stages(runs):
    table = made('Table 7', runs)
    assert [c.label for c in table.columns] == [*SCENARIO_TITLES.values()]
    mine = [name for name in rows(table) if name.startswith('qg mT5')]
    assert mine == ['qg mT5 stage1', 'qg mT5 stage2', 'qg mT5 p-value']
    # The multilingual run by hand: a t-test over the examples of all its languages.
    (run,) = (results.read_run(p) for p in runs if p.name == 'multi-qg-all-mT5')
    sides = [
        [
            row.scores['rouge_l']
            for _, result in sorted(run.at(step, 'test').items())
            for row in predictions.of_result(result).values()
        ]
        for step in (10, 20)
    ]
    assert rows(table)['qg mT5 stage2'][1] == f'{sum(sides[1]) / len(sides[1]):.2f}'
    p = scipy.stats.ttest_rel(*sides).pvalue
    shown = rows(table)['qg mT5 p-value'][1].rstrip('*')
    assert float(shown.replace('<', '')) >= round(p, 3)  # The correction makes none smaller.


def test_the_papers_numbers_stand_beside_official_data_alone(tmp_path):
    for scenario in mtg_runs.scenarios('qg'):
        if scenario.name in ('multi', 'zero_shot'):
            path = tmp_path / scenario.name
            mtg_runs.write_run(path, 'mBART', scenario, **OFFICIAL)
    paths = sorted(tmp_path.iterdir())
    stages = rows(made('Table 7', paths))
    printed = stages['qg mBART stage1 (paper)']
    assert printed == ['3.375', '3.375', '3.392', '3.784', '3.352', '2.397']
    assert stages['qg mBART p-value (paper)'][3] == '0.234'
    assert stages['qg mBART stage2'][1] != '-' and stages['qg mBART stage2'][0] == '-'
    zero_shot = rows(made('Table 4', paths))
    assert zero_shot['qg mBART (paper)'] == [
        '1.00', '5.50', '1.00', '5.30', '7.10', '74.50', '98.00', '100.00', '2.82',
    ]  # fmt: skip
    full = rows(made('Table 12', paths))
    assert full['qg mBART de-de (paper)'][:2] == ['11.92', '29.00']
    assert full['sg mT5 en-en'] == ['-'] * 7


def test_figures_are_drawn(runs, tmp_path):
    """The files, the numbers, and the picture in the page; a figure says what it lacks."""
    output = tmp_path / 'out'
    for _ in range(2):  # Our own may be replaced.
        flags = ['--figure=2,4', '--format=markdown,html', f'--output={output}']
        report.main([*map(str, runs), *flags])
    assert sorted(path.name for path in output.iterdir()) == [
        'figure4.pdf', 'figure4.png', 'figure4.svg', 'report.html', 'report.md',
    ]  # fmt: skip
    picture = (output / 'figure4.svg').read_text()
    texts = {text.strip() for text in ElementTree.fromstring(picture).itertext()}
    assert {'source language', 'target language', 'rouge_l', 'QG mT5', 'QG mBART', 'de'} <= texts
    page, text = ((output / f'report.{kind}').read_text() for kind in ('html', 'md'))
    assert '<figure><svg' in page
    assert '![Figure 4: From each language into each](figure4.png)' in text
    assert 'Left out: it is made of --ratings=FILE' in text


@pytest.mark.parametrize(('name', 'text'), [('Figure 3', 'Mono-M'), ('Figure 5', 'stage2')])
def test_bars_are_drawn(runs, name, text):
    (exhibit,) = (e for e in MTG.exhibits if e.name == name)
    figure = making.make(material(runs), exhibit)
    assert text in figure.svg() and 'rouge_l' in figure.svg() and not figure.numbers.missing


def test_figure_6_has_chains_under_their_models(runs):
    numbers = rows(made('Figure 6', runs))
    assert [*numbers] == [
        f'qg {model}, {way}'
        for model in ('mBART', 'mT5')
        for way in ('cross-lingual', 'generate, then translate')
    ]
    assert not any('-' in cells for cells in numbers.values())


def test_one_function_gives_a_table_of_any_benchmark(runs, capsys):
    text = report.paper_table('mtg', '7', list(map(str, runs)))
    assert re.search(r'qg mT5 p-value +\|( +\S+){6}', text)
    assert 'Figure 4' in report.paper_table('mtg', '4', list(map(str, runs)), 'Figure')
    for number in ('2', 'x'):
        with pytest.raises(UserError, match='is not made from runs; 3, 4, 5, 6'):
            report.paper_table('mtg', number, list(map(str, runs)))
    for benchmark in benchmarks.BENCHMARKS.values():
        assert all(exhibit.shows in making.MAKERS for exhibit in benchmark.exhibits)
