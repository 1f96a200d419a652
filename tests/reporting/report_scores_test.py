"""What stands in the cells of a report: averages, removed errors, numbers of examples."""

import re

import pytest
from report_sections import lines_of, rows_of, section_of
from workdir_files import QG, change, write_result, write_workdir

from xlbench.benchmarks import MTG
from xlbench.reporting import documents, layout
from xlbench.system import errors


def test_scores_averages_and_removed_error(tmp_path):
    by_task = dict(zip(QG.evaluate, (40.0, 50.0, 60.0, 70.0), strict=True))
    rows = rows_of(section_of(write_workdir(tmp_path / 'run', lambda step, task: by_task[task])))
    assert rows['run'] == {
        'qg en': '40.0', 'qg de': '50.0', 'qg fr': '60.0', 'qg es': '70.0', 'qg avg': '55.0',
    }  # fmt: skip
    assert rows['nearest_input']['qg avg'] == '30.0'
    # The best baseline is 70 from perfect, the run 45: 25/70 of the error is gone.
    assert rows['error reduction'] == {
        'qg en': '', 'qg de': '', 'qg fr': '', 'qg es': '', 'qg avg': '36%',
    }  # fmt: skip
    assert 'error reduction' not in rows_of(section_of(tmp_path / 'run'), 'bleu')
    below = rows_of(section_of(write_workdir(tmp_path / 'below', 16.0)))
    assert below['error reduction']['qg avg'] == '-20%'


@pytest.fixture
def uneven(tmp_path):
    """A run that is worse than a baseline in one language."""
    by_task = dict(zip(QG.evaluate, (40.0, 50.0, 25.0, 70.0), strict=True))
    return write_workdir(tmp_path / 'run', lambda step, task: by_task[task])


def test_the_number_of_examples_stands_in_every_table(uneven):
    section = section_of(uneven)
    assert list(rows_of(section, 'bleu')['examples'].values()) == ['3000'] * 4 + ['12000']
    row = '| examples | 3000 | 3000 | 3000 | 3000 | 12000 |'
    assert documents.markdown([section]).count(row) == len(section.scores)
    assert 'examples & 3000 & 3000' in documents.latex([section])
    row = '<tr class="count"><th scope="row">examples</th><td>3000</td>'
    assert documents.html([section]).count(row) == len(section.scores)
    assert re.search(r'\nexamples +\| +3000 +3000 +3000 +3000 12000', layout.screen(uneven))
    assert {row['examples'] for row in lines_of(section) if row['kind'] != 'paper'} == {'3000'}


def test_the_best_of_runs_and_baselines_is_bold(uneven, tmp_path):
    section = section_of(uneven)
    text = documents.markdown([section])
    assert '| run | **40.0** | **50.0** | 25.0 | **70.0** | **46.2** |' in text
    assert '| nearest_input | 30.0 | 30.0 | **30.0** | 30.0 | 30.0 |' in text
    assert r'nearest\_input & 30.0 & 30.0 & \textbf{30.0} & 30.0' in documents.latex([section])
    shown = documents.html([section])
    assert '<td data-value="25.0">25.0</td><td class="best" data-value="70.0">70.0</td>' in shown
    # No paper's row: nobody knows what was scored there.
    official = section_of(write_workdir(tmp_path / 'b', 1.0, data='files'))
    assert any(system.kind == 'paper' for system in official.systems)
    lines = documents.markdown([official]).splitlines()
    assert all('paper' not in line for line in lines if '**' in line)
    # A single system is not the best of any, and a low loss is better than a high one.
    alone = section_of(write_workdir(tmp_path / 'c', 1.0, baselines=False))
    assert '**' not in documents.markdown([alone])


@pytest.mark.parametrize(
    ('score', 'values', 'best'),
    [
        ('ter', (30.0, 40.0), '30.0'),
        ('meteor', (30.0, 40.0), '40.0'),
        ('bleurt', (30.0, 40.0), '40.0'),
        ('loss', (1.001, 1.002), '1.001'),  # With one decimal they were equal.
    ],
)
def test_an_error_rate_is_best_where_it_is_lowest(tmp_path, score, values, best):
    for folder, value in zip('de', values, strict=True):
        write_workdir(tmp_path / folder, 1.0, tasks=('news_a',), baselines=False)
        change(tmp_path / folder, {'scores': {score: value}})
        change(tmp_path / folder / 'config.json', {'config': {'name': folder}})
    text = documents.markdown([section_of(tmp_path / 'd', tmp_path / 'e')])
    assert {*re.findall(r'\*\*(.*?)\*\*', text)} == {best}


def test_whether_a_score_of_ones_own_is_better_high_or_low_is_not_known(tmp_path):
    path = write_workdir(tmp_path / 'run', 50.0, tasks=('news_a',))
    others = {'perplexity': 2.0, 'loss': 1.0}
    change(path, lambda was: {'scores': others | {'errors': was['scores']['rouge_l']}})
    section = section_of(path)
    assert section.scores == ('errors', 'loss', 'perplexity')
    names = 'run copy_input most_frequent nearest_input examples'
    assert list(rows_of(section, 'errors')) == names.split()
    rows = layout.by_system(section, 'errors').rows
    assert not any(cell.best for row in rows for cell in row.cells)


def test_systems_of_different_numbers_of_examples_are_not_compared(tmp_path):
    """A run that was scored on 16 examples, whose baselines were scored on 300."""
    path = write_workdir(tmp_path / 'run', 50.0, num_examples=16)
    change(path / 'eval' / 'baselines', {'num_examples': 300})
    section = section_of(path)
    rows = rows_of(section)
    assert not any('error' in name for name in rows)
    assert list(rows['examples of run'].values()) == ['16'] * 4 + ['64']
    assert list(rows['examples of the baselines'].values()) == ['300'] * 4 + ['1200']
    assert 'Not comparable: scored on 16 and 300 examples.' in section.notes
    assert '**' not in documents.markdown([section])
    counts = {(row['kind'], row['examples']) for row in lines_of(section)}
    assert counts == {('run', '16'), ('baseline', '300')}


def test_a_result_without_any_score_is_no_trace(tmp_path):
    """As of a run that diverged before its first evaluation: its loss is null."""
    write_result(tmp_path / 'run' / 'eval' / '1' / 'test', 'mtg_qg_de_de', {'loss': None}, step=1)
    (tmp_path / 'run' / 'config.json').write_text('{"config": {}}')
    assert 'SAMPLE DATA' in layout.screen(str(tmp_path / 'run'))
    (tmp_path / 'run' / 'config.json').write_text('{"config": {}, "data": ["files"]}')
    with pytest.raises(errors.UserError, match=r'Expected `str .*, got `array` - at'):
        layout.screen(str(tmp_path / 'run'))


def test_what_is_said_of_a_result_stands_beside_it(tmp_path):
    path = write_workdir(tmp_path / 'run', 50.0)
    change(path / 'eval' / '10', {'note': 'all are *alike*'})
    assert section_of(path).notes.count('all are *alike*') == 1
    assert 'all are *alike*' in layout.screen(path)


def test_several_tasks_have_an_average_over_all(tmp_path):
    everything = MTG.scenario('multi_multitask')
    level = {'sg': 40.0, 'qg': 50.0, 'tg': 72.0}
    path = write_workdir(
        tmp_path / 'run', lambda step, task: level[task.split('_')[1]], scenario=everything
    )
    section = section_of(path)
    rows = rows_of(section)
    assert (rows['run']['sg avg'], rows['run']['avg']) == ('40.0', '54.0')
    # (10/70 + 20/70 + 42/70) / 3
    assert rows['error reduction']['avg'] == '34%'
    groups = [column.group for column in section.columns]
    assert groups == [*['sg'] * 5, *['qg'] * 5, *['tg'] * 5, '']
    text = layout.screen(path)
    assert max(map(len, text.splitlines())) <= 120
    assert text.count('error reduction') == 1
    narrow = layout.screen(path, max_width=60)
    assert narrow.count('error reduction') > 1
    assert max(map(len, narrow.splitlines())) <= 60


def test_cross_lingual_columns_name_the_pair(tmp_path):
    cross = MTG.scenario('cross', 'qg', 'en')
    path = write_workdir(tmp_path / 'run', 50.0, scenario=cross)
    assert list(rows_of(section_of(path))['run']) == ['qg en-de', 'qg en-fr', 'qg en-es', 'qg avg']


def test_the_paper_is_beside_official_data_only(tmp_path):
    def names(name, **kwargs):
        section = section_of(write_workdir(tmp_path / name, 50.0, **kwargs))
        return section, [row for row in rows_of(section) if 'paper' in row]

    section, papers = names('official', data='files')
    assert papers == [f'{model} (paper, multi)' for model in MTG.paper_models]
    assert section.data == 'official'
    # Table 12 of the paper: (45.9 + 29.6 + 32.7 + 36.8) / 4
    expected = {'en': '45.9', 'de': '29.6', 'fr': '32.7', 'es': '36.8', 'avg': '36.2'}
    assert rows_of(section)['mT5 (paper, multi)'] == {f'qg {k}': v for k, v in expected.items()}
    assert 'not recorded' in section.notes[0]

    trained = {'examples': {'mtg_qg_de_de/train': 5000, 'mtg_qg_de_de/rough_train': 71_819}}
    section, papers = names('recorded', data='files', info=trained)
    assert len(papers) == 4
    assert 'not recorded' not in section.notes[0]

    for name, kwargs, note in [
        ('sample', {'data': 'sample'}, 'SAMPLE DATA'),
        ('unknown', {'data': 'unknown'}, 'does not say'),
        ('short', {'data': 'files', 'num_examples': 250}, '250 examples (official: 3000)'),
        ('little', {'data': 'files', 'info': {'examples': {'mtg_qg_de_de/train': 40}}},
         'mtg_qg_de_de/train has 40 examples (official: 5000)'),
        ('dev', {'data': 'files', 'split': 'validation', 'num_examples': 2000}, 'reports the test'),
        ('all', {'data': 'files', 'mixture': 'mtg_cross_qg'}, 'one model per source language'),
        ('pair', {'data': 'files', 'mixture': 'mtg_qg_en_de'}, 'no model on one pair'),
    ]:  # fmt: skip
        section, papers = names(name, **kwargs)
        assert papers == [], name
        assert any(note in line for line in section.notes), (name, section.notes)


def test_a_single_sample_result_makes_the_table_a_sample_table(tmp_path):
    path = write_workdir(tmp_path / 'run', 50.0, data='files')
    change(path / 'eval' / '10' / 'test' / 'mtg_qg_de_de', {'data': 'sample'})
    assert section_of(path).data == 'sample'


def test_a_missing_language_leaves_no_average(tmp_path):
    first = write_workdir(tmp_path / 'first', 50.0)
    less = write_workdir(tmp_path / 'less', 50.0, tasks=QG.evaluate[:2])
    rows = rows_of(section_of(first, less))
    assert rows['less'] | {'qg avg': '-', 'qg fr': '-'} == rows['less']
    assert rows['less']['qg en'] == '50.0'


def test_a_system_on_a_further_pair_takes_the_averages_from_nobody(tmp_path):
    """A chain on en-de beside multilingual runs, of one task and of three."""
    everything = MTG.scenario('multi_multitask')
    paths = [
        write_workdir(
            tmp_path / name, value, scenario=everything, baselines=False,
            info={'config': {'lr': value}},
        )
        for name, value in (('one', 40.0), ('two', 50.0))
    ]  # fmt: skip
    chain = {'config': {'system': 'chain', 'seed': 0}, 'scored': {'mtg_qg_en_de': {}}}
    of_chain = dict(tasks=['mtg_qg_en_de'], baselines=False, info=chain)
    paths.append(write_workdir(tmp_path / 'chain', 60.0, **of_chain))
    section = section_of(*paths)
    rows = rows_of(section)
    for group in ('sg', 'qg', 'tg', ''):
        place = f'{group} avg'.strip()
        assert [rows[name][place] for name in ('one', 'two', 'chain')] == ['40.0', '50.0', '-']
    assert [note for note in section.notes if 'average' in note] == [
        'The average of qg is without en-de, as no run was scored on all of its columns.'
    ]
    # A run that has all keeps the whole average, and the others are without one.
    tasks = [*MTG.scenario('multi', 'qg').evaluate, 'mtg_qg_en_de']
    whole = write_workdir(tmp_path / 'all', 70.0, tasks=tasks, baselines=False)
    section = section_of(*paths, whole)
    rows = rows_of(section)
    assert rows['all']['qg avg'] == '70.0' and rows['one']['qg avg'] == '-'
    assert not any('average' in note for note in section.notes)


def test_tasks_of_no_benchmark_are_shown_too(tmp_path):
    path = write_workdir(tmp_path / 'run', 50.0, tasks=('own_de', 'own_fr'), mixture='own')
    rows = rows_of(section_of(path))
    assert rows['run'] == {'own de': '50.0', 'own fr': '50.0', 'own avg': '50.0'}
    write_workdir(tmp_path / 'plain', 50.0, tasks=('own_x',), data='files')
    section = section_of(tmp_path / 'plain')
    text = documents.markdown([section])
    assert 'own_x score' in text
    # No official sizes or published scores are to be expected of a user's own data.
    assert section.notes == () and 'published' not in text + documents.html([section])


def test_tables_of_own_tasks_begin_with_the_score_that_was_named(tmp_path):
    tasks = ('news_title_de', 'news_title_fr')
    named = write_workdir(tmp_path / 'named', 40.0, tasks=tasks)
    # Without a name the first score of the first metric, never the first of the alphabet.
    assert section_of(named).scores == ('rouge_l', 'bleu', 'distinct_1', 'loss')
    change(named, {'headline': 'distinct_1'})
    section = section_of(named)
    assert section.scores == ('distinct_1', 'rouge_l', 'bleu', 'loss')
    assert 'error reduction' in rows_of(section, 'distinct_1')
    assert 'error reduction' not in rows_of(section, 'rouge_l')
    assert layout.screen(named).split('\n\n')[1].startswith('distinct_1')
