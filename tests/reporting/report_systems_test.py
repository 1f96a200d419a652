"""Which rows a report has: seeds together, systems without runs, the step that is chosen."""

import pytest
from report_sections import rows_of, section_of, texts_of
from workdir_files import QG, change, write_result, write_workdir

from xlbench.benchmarks import MTG
from xlbench.reporting import documents, notes, systems
from xlbench.system import errors


def test_seeds_become_one_row_with_a_deviation(tmp_path):
    first = write_workdir(tmp_path / 's0', 40.0, seed=0)
    second = write_workdir(tmp_path / 's1', 44.0, seed=1)
    other = write_workdir(tmp_path / 'other', 60.0, info={'config': {'lr': 1}})
    section = section_of(first, second, other)
    rows = rows_of(section)
    assert rows['s (2 seeds)']['qg avg'] == '42.0 ±2.8'  # sqrt(((40-42)^2 + (44-42)^2) / 1)
    assert rows['other']['qg avg'] == '60.0'
    assert rows['error reduction by s (2 seeds)']['qg avg'] == '17%'
    assert [notes.provenance(pick)['seed'] for pick in section.picks] == ['0', '1', '0']
    assert not any('determinism' in note for note in section.notes)


def test_a_repeated_run_is_no_second_seed(tmp_path):
    """One config and one seed, twice: equal scores show determinism, and nothing of seeds."""
    first = write_workdir(tmp_path / 's0', 40.0)
    twin = write_workdir(tmp_path / 's0_again', 40.0)
    section = section_of(first, twin)
    assert rows_of(section)['s0']['qg avg'] == '40.0' and len(section.picks) == 1
    place = tmp_path.name
    said = f'{place}/s0_again repeats {place}/s0, seed 0, and is left out of means over seeds.'
    assert f'{said} Check of determinism: all scores are equal.' in section.notes
    second = write_workdir(tmp_path / 's1', 44.0, seed=1)
    rows = rows_of(section_of(first, twin, second))
    assert rows['s (2 seeds)']['qg avg'] == '42.0 ±2.8'
    other = write_workdir(tmp_path / 'other', lambda step, task: 40.0 + 0.5 * ('de' in task))
    (note,) = (note for note in section_of(first, other).notes if 'determinism' in note)
    assert note.endswith('scores differ.')
    later = write_workdir(tmp_path / 'later', 40.0, steps=(20,))
    (note,) = (note for note in section_of(first, later).notes if 'determinism' in note)
    assert 'it ends at step 20 and the other at 10' in note


def test_config_keys_that_differ_are_a_table(tmp_path):
    def run(name, **config):
        facts = {'config': {'seed': 0, 'model': {'size': 'small'}, **config}}
        return write_workdir(tmp_path / name, 40.0, info=facts)

    paths = [run('one', rate=0.1), run('two', rate=0.2, model={'size': '<b>'}, pack=True)]
    made = systems.config_table(section_of(*paths).picks)
    assert [column.label for column in made.columns] == ['one', 'two']
    assert texts_of(made) == {
        'model.size': ['small', '<b>'], 'rate': ['0.1', '0.2'], 'pack': ['-', 'true'],
    }  # fmt: skip
    assert '| rate | 0.1 | 0.2 |' in documents.markdown([section_of(*paths)])
    page = documents.html([section_of(*paths)])
    assert 'Config keys that differ' in page and '<td>&lt;b&gt;</td>' in page
    assert systems.config_table(section_of(paths[0]).picks) is None


def test_seeds_are_named_by_what_their_folders_share(tmp_path):
    def run(name, lr, seed):
        info = {'config': {'lr': lr}}
        return write_workdir(tmp_path / name, 40.0, seed=seed, info=info)

    paths = [run('mt5_1', 1, 1), run('mt5_2', 1, 2), run('big-seed1', 2, 1), run('big-seed2', 2, 2)]
    assert {'mt5 (2 seeds)', 'big (2 seeds)'} <= set(rows_of(section_of(*paths)))
    others = [run('mt5_3', 3, 1), run('mt5_4', 3, 2), run('big', 4, 1)]
    names = {'mt5_1 (2 seeds)', 'mt5_3 (2 seeds)', 'big-seed1 (2 seeds)', 'big'}
    assert names <= set(rows_of(section_of(*paths, *others)))
    equal = run('a/run', 1, 1), run('b/run', 2, 1)
    assert {'a/run', 'b/run'} <= set(rows_of(section_of(*equal)))


def test_systems_without_runs_stand_beside_the_paper(tmp_path):
    """What they were scored on says which rows compare; two folders of one name are told apart."""
    same = dict(data='files', num_examples=819, baselines=False)
    same['info'] = {'config': {'system': 'S', 'seed': 0}, 'scored': {}}
    paths = [
        write_workdir(tmp_path / name, 40.0, tasks=[task], **same)
        for name, task in (('de', 'clidsum_xsamsum_en_de'), ('zh', 'clidsum_xsamsum_en_zh'))
    ]
    section = section_of(*paths)
    assert section.data == 'official'
    rows = rows_of(section)
    assert {'S (de)', 'S (zh)', 'BART + OPUS-MT (paper, cross)'} <= set(rows)
    # Table 3 of arXiv:2202.05599, row 8.
    assert rows['BART + OPUS-MT (paper, cross)']['xsamsum en-de'] == '36.7'


def test_steps(tmp_path):
    by_step = {5: 40.0, 10: 60.0, 20: 50.0}
    path = write_workdir(tmp_path / 'run', lambda step, task: by_step[step], steps=(5, 10, 20))
    for step, value in (('last', '50.0'), ('5', '40.0'), ('best', '60.0')):
        section = section_of(path, step=step)
        assert rows_of(section)['run']['qg avg'] == value
    assert any('flatters' in note for note in section.notes)
    for wrong in ('7', 'first', '-1'):
        with pytest.raises(errors.UserError, match='allowed: best, last, stage1, 5, 10, 20'):
            section_of(path, step=wrong)


def validate(path, by_step, score='rouge_l', tasks=QG.evaluate):
    """Adds validation scores of a run."""
    for step, value in by_step.items():
        folder = path / 'eval' / str(step) / 'validation'
        for task in tasks:
            write_result(folder, task, {score: value}, split='validation', signatures={})


def test_the_best_step_is_chosen_on_validation(tmp_path):
    """Step 5 has the better validation scores, step 10 the better test scores."""
    path = write_workdir(tmp_path / 'run', lambda step, task: float(step), steps=(5, 10))
    validate(path, {5: 30.0, 10: 20.0})
    section = section_of(path, step='best')
    assert (section.split, section.picks[0].step) == ('test', 5)
    assert any('Steps were chosen on the split validation' in note for note in section.notes)
    assert not any('flatters' in note for note in section.notes)
    assert section_of(path, split='validation').picks[0].step == 10
    with pytest.raises(errors.UserError, match='it has test, validation'):
        section_of(path, split='train')


def test_the_best_step_of_zero_shot_is_not_chosen_by_its_targets(tmp_path):
    """English validation, the only one that the scenario may look at, is better at step 5."""
    zero = MTG.scenario('zero_shot', 'qg')
    path = write_workdir(
        tmp_path / 'run', lambda step, task: float(step), steps=(5, 10, 15), scenario=zero
    )
    validate(path, {5: 1.0, 10: 90.0, 15: 95.0}, tasks=zero.evaluate)
    validate(path, {5: 30.0, 10: 20.0}, tasks=['mtg_qg_en_en'])
    assert section_of(path, step='best').picks[0].step == 5


def test_the_best_step_without_decoding_has_the_lowest_loss(tmp_path):
    path = write_workdir(tmp_path / 'run', lambda step, task: float(step), steps=(5, 10))
    validate(path, {5: 1.0, 10: 2.0}, 'loss')
    assert section_of(path, step='best').picks[0].step == 5
    validation = section_of(path, step='best', split='validation')
    # No baseline, and no error to remove.
    assert list(rows_of(validation, 'loss')) == ['run', 'examples']
    documents.html([validation])


def test_the_best_step_of_own_tasks_is_that_of_their_headline(tmp_path):
    steps = {10: (20.0, 3.0), 20: (10.0, 6.0)}  # rouge_l, bleu.
    path = write_workdir(tmp_path / 'run', 0.0, steps=steps, tasks=('news_x',))
    for step, (rouge_l, bleu) in steps.items():
        scores = {'loss': 2.0, 'rouge_l': rouge_l, 'bleu': bleu}
        change(path / 'eval' / str(step), {'scores': scores, 'headline': 'bleu'})
    assert section_of(path, step='best').picks[0].step == 20


def test_a_result_without_the_folder_of_its_split_is_found(tmp_path):
    path = write_workdir(tmp_path / 'run', 50.0, tasks=QG.evaluate[:3])
    write_result(path / 'eval' / '10', QG.evaluate[3], {'rouge_l': 50.0})
    assert rows_of(section_of(path))['run']['qg avg'] == '50.0'
