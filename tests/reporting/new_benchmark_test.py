"""A benchmark that is only declared has its report: the paper's rows, notes, several systems."""

import pytest
from report_sections import cells_of, documents_of, section_of, texts_of
from workdir_files import write_workdir

from xlbench import benchmarks
from xlbench.benchmarks import paper
from xlbench.benchmarks.fewshot import LabelBenchmark
from xlbench.benchmarks.paper import Line, PaperTable, heads
from xlbench.benchmarks.parallel import ParallelBenchmark
from xlbench.benchmarks.recipe import Command, Experiment, Recipe
from xlbench.reporting import layout, render, results
from xlbench.reporting.paper_tables import making
from xlbench.reporting.paper_tables.material import Material
from xlbench.reproduce import outcome

PRINTED = """scenario,task,model,source,target,rouge_l,bertscore
multi,sum,big,en,en,40.5,0.71
multi,sum,big,de,de,30.5,0.62
multi,sum,small,en,en,20.5,
"""


def toy_tables(benchmark):
    """What a stranger declares: rows, columns, and what they are of."""
    rows = tuple(
        Line((model, lang), {'model': model, 'source': lang, 'target': lang})
        for model in benchmark.paper_models
        for lang in benchmark.languages
    )
    columns = heads({'R-L': 'rouge_l', 'BERTScore': 'bertscore'})
    key = {'scenario': 'multi', 'task': 'sum'}
    labels = ('Model', 'Language')
    return (PaperTable('table 1', 'Summaries', 'scores', 'toy', labels, rows, columns, key),)


def recipe_of(benchmark):
    """A training for the first model of its paper."""
    model, *_ = benchmark.paper_models
    key = {'model': model, 'scenario': 'multi'}
    return Recipe.of(benchmark, [Command('a')], [Experiment('run', model, ('a',), key)])


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Summaries in two languages, which two models of a made-up paper have written."""
    (tmp_path / 'toy.csv').write_text(PRINTED)
    monkeypatch.setattr(paper, '_FOLDER', tmp_path)
    benchmark = ParallelBenchmark(
        name='toy', languages=('en', 'de'), task_titles={'sum': 'summaries'},
        scores=('rouge_l', 'bertscore', 'bleu'), title='Toys', arxiv='0000.00000',
        paper_models=('big', 'small'), fractions=('bertscore',), split_sizes={'sum': {'test': 7}},
        paper_note='The paper stems words.', declare_tables=toy_tables,
    )  # fmt: skip
    monkeypatch.setitem(benchmarks.BENCHMARKS, 'toy', benchmark)
    return benchmark


def test_a_benchmark_of_labels_needs_no_tables_of_numbers(tmp_path, monkeypatch):
    benchmark = LabelBenchmark(
        name='sib', languages=('en', 'sw'), task_titles={'topic': 'topic of a sentence'},
        scores=('accuracy', 'macro_f1'), title='Topics', arxiv='2309.07445',
        paper_models=('XLM-R',), split_sizes={'topic': {'test': 204}},
        declare_tables=lambda benchmark: (
            PaperTable(
                'table 1', 'Topics', '', 'sib', ('',),
                tuple(Line((lang,), {'source': lang, 'target': lang}) for lang in ('en', 'sw')),
                heads({'Acc.': 'accuracy'}, model='XLM-R', scenario='zero_shot', task='topic'),
            ),
        ),
    )  # fmt: skip
    monkeypatch.setitem(benchmarks.BENCHMARKS, 'sib', benchmark)
    assert not (paper._FOLDER / 'sib_sizes.csv').exists()
    assert benchmark.official_size('topic', 'test', 'sw') == 204
    scenario = benchmark.scenario('zero_shot', 'topic')
    ours = dict(data='files', scenario=scenario)
    for number, data in ((204, 'official'), (9, 'other')):
        folder = tmp_path / data
        write_workdir(folder, 35.0, num_examples=number, **ours)
        section = section_of(folder)
        assert (section.title, section.data) == ('sib, Topics (arXiv:2309.07445)', data)
    key = {'model': 'XLM-R', 'scenario': 'zero_shot'}
    recipe = Recipe.of(benchmark, [Command('a')], [Experiment('a', 'XLM-R', ('a',), key)])
    (table,) = recipe.tables
    for file in (tmp_path / 'other').rglob('metrics.json'):
        file.write_text(file.read_text().replace('"rouge_l": 35.0', '"accuracy": 35.0'))
    (made, *_), _ = outcome.shown(recipe, table, {'a': [tmp_path / 'other']}, tmp_path)
    assert table.experiments == ('a',) and cells_of(made) == [['35.0'], ['35.0']]


def test_a_declared_benchmark_needs_no_line_of_reporting(toy, tmp_path):
    scenario = toy.scenario('multi', 'sum')
    ours = dict(data='files', num_examples=7, scenario=scenario)
    run = write_workdir(tmp_path / 'run', 35.0, **ours)
    system = {'config': {'system': 'their model', 'seed': 0}, 'scored': {'toy_sum_en_en': {}}}
    scored = write_workdir(tmp_path / 'scored', 45.0, **ours, baselines=False, info=system)
    section = section_of(run, scored)
    assert (section.title, section.data) == ('toy, Toys (arXiv:0000.00000)', 'official')
    table, *others = layout.tables(section)
    rows = texts_of(table)
    assert rows['run'] == ['35.0', '35.0', '35.0']
    assert rows['their model'] == ['45.0', '45.0', '45.0']
    assert rows['big (paper, multi)'] == ['40.5', '30.5', '35.5']
    assert rows['small (paper, multi)'] == ['20.5', '-', '-']
    # What the paper prints between 0 and 1 is on our scale; nobody else has that score here.
    assert [str(row) for row in others[0].rows if row.name.startswith('big')] == []
    assert 'The paper stems words.' in section.notes
    assert any('MultilingualRouge: rouge' in note for note in table.notes)
    # A table may be copied alone; one without rows of the paper does not speak of it.
    assert 'The paper stems words.' in table.notes
    assert 'The paper stems words.' not in others[-1].notes
    assert toy.paper_scores('big', 'multi', 'sum', 'en')['bertscore'] == 71.0
    for text in documents_of(section):
        assert 'their model' in text and 'big (paper, multi)' in text and 'stems words' in text


def test_a_declared_table_is_printed_reported_and_reproduced(toy, tmp_path):
    """Its numbers, its numbers beside those of runs, and its own form with those of runs."""
    (paper_table,) = making.of_paper(toy, '1')
    numbers = [['40.5', '0.71'], ['30.5', '0.62'], ['20.5', '-'], ['-', '-']]
    assert cells_of(paper_table) == numbers
    assert '| small | en | 20.5 | - |' in render.markdown(paper_table)
    scenario = toy.scenario('multi', 'sum')
    ours = dict(data='files', num_examples=7, scenario=scenario)
    run = write_workdir(tmp_path / 'run', lambda step, task: 35.04, **ours)
    recipe = recipe_of(toy)
    (table,) = recipe.tables
    assert table.experiments == ('run',)
    (ours, theirs), _ = outcome.shown(recipe, table, {'run': [run]}, tmp_path)
    assert cells_of(ours) == [['35.0', '-'], ['35.0', '-'], ['-', '-'], ['-', '-']]
    assert 'No run fills the rows small.' in ours.notes and cells_of(theirs) == numbers
    (made,) = making.make(Material(toy, [results.read_run(run)]), table)
    assert texts_of(made)['sum big de-de (paper)'] == ['30.50', '62.00']
