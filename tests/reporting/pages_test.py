"""Tests of the tables in the form of the ClidSum paper."""

import pytest
from report_sections import documents_of, section_of
from workdir_files import change, write_result, write_workdir

from xlbench.benchmarks import CLIDSUM
from xlbench.reporting import layout

CHAIN = {'method': 'chain'}


def workdir(folder, *, kind='', pretrained=(), corpus='xmediasum40k', value=30.0, **more):
    """A run that is scored on the interviews in both languages, at 10,000 examples."""
    tasks = [CLIDSUM.task_name(f'{corpus}{kind}', 'en', target) for target in ('de', 'zh')]
    stages = [{'mixture': mixture} for mixture in (*pretrained, tasks[0])]
    config = {'seed': 0, 'stages': {f'stage{i}': stage for i, stage in enumerate(stages)}}
    more = {'info': {'config': config | more.pop('config', {})}, 'data': 'files'} | more
    path = write_workdir(folder, value, tasks=tasks, num_examples=10_000, baselines=False, **more)
    change(path, {'scores': {'rouge_1': value, 'rouge_l': value - 5}})
    return path


def chain(folder, *stages, **more):
    path = workdir(folder, config={'system': folder.name}, **more)
    change(path / 'config.json', {'scored': {}})
    named = {f'{i} {stage}': 'en-en' for i, stage in enumerate(stages, 1)}
    change(path, {'decoding': CHAIN | {'stages': named}})
    return path


def pages(*paths):
    section = section_of(*paths)
    return section, {t.title: t for t in layout.tables(section) if t.title.startswith('Table')}


def rows(table, kind):
    return {r.name: [*map(str, r.cells)] for r in table.rows if r.kind == kind and r.name != kind}


def test_table_3_has_the_groups_of_the_paper(tmp_path):
    section, made = pages(
        workdir(tmp_path / 'mbart'),
        workdir(tmp_path / 'marked', kind='summarize', value=32.0),
        chain(tmp_path / 'sum_trans', 'RUNS/bart', 'translate:RUNS/wmt', value=29.0),
        chain(tmp_path / 'trans_sum', 'translate:RUNS/wmt', 'RUNS/bart'),
        chain(tmp_path / 'their system'),
    )
    assert list(made) == ['Table 3'] and section.data == 'official'
    table = made['Table 3']
    heads = [(c.group, c.label) for c in table.columns]
    scores = ('rouge_1', 'rouge_2', 'rouge_l', 'bertscore')
    assert heads == [(f'xmediasum40k en-{t}', s) for t in ('de', 'zh') for s in scores]
    ends = rows(table, 'End-to-end')
    # With and without the mark of mDialBART the dialogues and summaries are the same.
    assert ends['mbart'] == ['30.0', '-', '25.0', '-'] * 2
    assert ends['marked'] == ['32.0', '-', '27.0', '-'] * 2
    assert ends['mDialBART + DA † (paper)'] == [
        '26.7', '12.1', '24.0', '63.8', '28.7', '11.1', '25.7', '68.4',
    ]  # fmt: skip
    assert list(ends) == [
        'mbart', 'marked', 'mBART (paper)', 'mBART + DA † (paper)', 'mDialBART † (paper)',
        'mDialBART + DA † (paper)',
    ]  # fmt: skip
    chains = rows(table, 'Sum-Trans')
    assert len(chains) == 19 and chains['sum_trans'][0] == '29.0'
    assert chains['PEGASUS + Trans-WMT (paper)'][:4] == ['19.8', '6.5', '17.5', '59.0']
    assert len(rows(table, 'Trans-Sum')) == 4 and list(rows(table, 'Other systems')) == [
        'their system'
    ]
    order = list(dict.fromkeys(row.kind for row in table.rows))
    assert order == ['Sum-Trans', 'Trans-Sum', 'End-to-end', 'Other systems']
    best = [row.name for row in table.rows if row.cells[0].best]
    assert best == ['marked']
    assert any('semi-supervised' in note for note in table.notes)
    for text in documents_of(section):
        assert 'Trans-Sum' in text and 'mDialBART + DA †' in text


def test_tables_5_and_7_have_a_row_for_each_combination(tmp_path):
    paths = [workdir(tmp_path / 'mbart', kind='summarize')]
    for name, tasks in (('all', 'aci+up+mds+mt'), ('order', 'up'), ('both', 'mt+aci')):
        mixture = CLIDSUM.pretraining(tasks).mixture
        paths.append(workdir(tmp_path / name, kind='summarize', pretrained=[mixture]))
    start = {'init_from': f'{tmp_path}/both@100'}  # A run of its own has pre-trained it.
    paths.append(workdir(tmp_path / 'later', kind='summarize', config=start))
    _, made = pages(*paths)
    assert list(made) == ['Table 3', 'Table 5', 'Table 7']
    small, large = ([row.name for row in made[f'Table {n}'].rows] for n in (5, 7))
    assert small == [
        'mbart', 'mBART (paper)', '+AcI † (paper)', 'order (+UP) †', '+UP † (paper)',
        '+MDS † (paper)', '+MT † (paper)', 'all (mDialBART) †', 'mDialBART † (paper)',
    ]  # fmt: skip
    place = large.index('+AcI+MT † (paper)')
    assert len(large) == 16 + 5 and large[place - 2 : place] == [
        'both (+AcI+MT) †', 'later (+AcI+MT) †',
    ]  # fmt: skip
    assert 'order (+UP) †' in rows(made['Table 3'], 'End-to-end')


def test_tasks_of_ones_own_have_no_column(tmp_path):
    path = workdir(tmp_path / 'mbart', corpus='xsamsum')
    write_result(path / 'eval/10/test', 'clidsum_mine', {'rouge_1': 50.0})
    _, made = pages(path)
    groups = {column.group for column in made['Table 3'].columns}
    assert groups == {'xsamsum en-de', 'xsamsum en-zh'}


@pytest.mark.parametrize('data', ['sample', 'files'])
def test_other_data_has_no_row_of_the_paper(tmp_path, data):
    section, made = pages(workdir(tmp_path / 'mbart', corpus='xsamsum', data=data))
    assert not any('(paper)' in row.name for row in made['Table 3'].rows)
    assert [row.kind for row in made['Table 3'].rows] == ['End-to-end'] * 2
    # Of twelve kinds of tasks, those with results alone.
    assert 'Tasks: xsamsum is summary of chats.' in section.notes


def test_the_paper():
    """Table 7: every combination is worth more than nothing."""
    (table,) = (table for table in CLIDSUM.paper_tables if table.name == 'table 7')
    assert len(table.rows) == 16 and table.rows[5].labels == ('6', '+AcI+UP')
    assert 'pretraining alone' in CLIDSUM.paper_lacks(CLIDSUM.pretraining('up+mt'))
    none = CLIDSUM.paper_scores('mBART', 'cross', 'xmediasum40ksummarize', 'en', 'de')
    for target in ('de', 'zh'):
        for row in table.rows:
            system = row.key['model'], row.key['scenario']
            printed = CLIDSUM.paper_scores(*system, 'xmediasum40k', 'en', target)
            is_better = printed['rouge_1'] > none['rouge_1']
            assert len(printed) == 4 and (row.key['model'] == 'mBART' or is_better)
