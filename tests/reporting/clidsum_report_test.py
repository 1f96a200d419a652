"""Tests of reports on ClidSum, and of what its paper prints."""

import pytest
from report_sections import rows_of, section_of
from workdir_files import change, write_workdir

from xlbench import report
from xlbench.benchmarks import CLIDSUM
from xlbench.system.errors import UserError


def workdir(folder, *, kind='', corpus='xmediasum40k', value=30.0, **more):
    """A run that is scored in both languages, on the interviews at 10,000 examples."""
    tasks = [CLIDSUM.task_name(f'{corpus}{kind}', 'en', target) for target in ('de', 'zh')]
    config = {'seed': 0, 'stages': {'stage1': {'mixture': tasks[0]}}}
    more = {'info': {'config': config | more.pop('config', {})}, 'data': 'files'} | more
    path = write_workdir(folder, value, tasks=tasks, num_examples=10_000, baselines=False, **more)
    change(path, {'scores': {'rouge_1': value, 'rouge_l': value - 5}})
    return path


def test_the_papers_systems_stand_beside_a_run(tmp_path):
    """With and without the mark of mDialBART the dialogues and summaries are the same."""
    for kind in ('', 'summarize'):
        section = section_of(workdir(tmp_path / f'mbart{kind}', kind=kind))
        rows = rows_of(section)
        assert section.data == 'official' and len(rows) > 20
        assert rows[f'mbart{kind}'][f'xmediasum40k{kind} en-zh'] == '25.0'
        printed = rows['Trans-WMT + mBART (paper, cross)'], rows['mBART (paper, cross)']
        assert [row[f'xmediasum40k{kind} en-zh'] for row in printed] == ['20.8', '21.0']


@pytest.mark.parametrize('data', ['sample', 'files'])
def test_other_data_has_no_row_of_the_paper(tmp_path, data):
    section = section_of(workdir(tmp_path / 'mbart', corpus='xsamsum', data=data))
    assert not any('(paper' in system.name for system in section.systems)
    # Of twelve kinds of tasks, those with results alone.
    assert 'Tasks: xsamsum is summary of chats.' in section.notes


def test_tables_in_the_papers_form_are_those_of_reproduce(tmp_path):
    run = workdir(tmp_path / 'mbart')
    with pytest.raises(UserError, match=r'see python -m xlbench\.reproduce'):
        report.main([str(run), '--table=3'])


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
