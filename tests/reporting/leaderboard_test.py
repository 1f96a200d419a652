"""Tests of the files that MTG's leaderboard takes."""

import json

import mtg_runs
import pytest
from workdir_files import change

from xlbench import report
from xlbench.benchmarks import MTG
from xlbench.reporting import leaderboard, predictions, results
from xlbench.system.errors import UserError

MULTI = MTG.scenario('multi_multitask')
RECORDED = {'examples': {'mtg_sg_fr_fr/test': 9}}


def submit(output, *paths):
    report.main([*map(str, paths), '--format=mtg', f'--output={output}'])
    return {path.name: json.loads(path.read_text()) for path in output.glob('*.json')}


def result_of(path, task):
    return results.read_run(path).at(20, 'test')[task]


def test_each_task_is_a_file_of_all_languages(tmp_path):
    """Texts stand in the order of the examples; nobody has evaluated Chinese."""
    path = mtg_runs.write_run(tmp_path / 'my run', 'mT5', MULTI, examples=12)
    written = submit(tmp_path / 'out', path)
    assert sorted(written) == ['QG-my-run.json', 'SG-my-run.json', 'TG-my-run.json']
    texts = written['QG-my-run.json']
    assert list(texts) == ['en', 'de', 'es', 'fr', 'zh'] and texts['zh'] == []
    rows = predictions.of_result(result_of(path, 'mtg_qg_de_de'))
    assert texts['de'] == [rows[str(i)].prediction for i in range(12)]
    assert submit(tmp_path / 'out', path) == written  # Our own may be replaced.


def test_monolingual_runs_of_a_model_are_one_system(tmp_path):
    paths = [
        mtg_runs.write_run(tmp_path / lang, 'mBART', MTG.scenario('mono', 'qg', lang))
        for lang in ('en', 'fr')
    ]
    mtg_runs.write_result(paths[0], 20, 'mtg_qg_fr_fr', 20)  # Evaluated besides.
    (name,), (texts,) = zip(*submit(tmp_path / 'out', *paths).items(), strict=True)
    assert name == 'QG-mBART-mono.json'
    assert {lang for lang, rows in texts.items() if rows} == {'en', 'fr'}
    again = mtg_runs.write_run(tmp_path / 'seed', 'mBART', MTG.scenario('mono', 'qg', 'en'), seed=1)
    with pytest.raises(UserError, match=r'en and .*seed both have texts of mtg_qg_en_en'):
        submit(tmp_path / 'more', *paths, again)


def test_texts_from_one_other_language_count(tmp_path):
    path = mtg_runs.write_run(tmp_path / 'run', 'mT5', MTG.scenario('zero_shot', 'tg'))
    texts = submit(tmp_path / 'out', path)['TG-run.json']
    assert {lang: len(rows) for lang, rows in texts.items()} == {
        'en': 0, 'de': 8, 'es': 8, 'fr': 8, 'zh': 0,
    }  # fmt: skip
    every = mtg_runs.write_run(tmp_path / 'every', 'mT5', MTG.scenario('cross', 'tg'))
    with pytest.raises(UserError, match='every writes en from de and es and fr'):
        submit(tmp_path / 'out', every)


def cut(folder):
    lines = (folder / 'predictions.jsonl').read_text().splitlines()
    (folder / 'predictions.jsonl').write_text('\n'.join(lines[:-1]) + '\n')


@pytest.mark.parametrize(
    ('spoil', 'message'),
    [
        (lambda folder: (folder / 'predictions.jsonl').unlink(), 'run has no predictions of'),
        (lambda folder: (folder / 'metrics.json').unlink(), 'run has no predictions of'),
        (cut, 'run has 7 predictions of mtg_sg_fr_fr, split test, and it was scored on 8 examples'),
        (lambda folder: change(folder, {'data': 'files'}),
         'run has 8 predictions of .*, and the split has 3,000 examples'),
        (lambda folder: change(folder.parents[3] / 'config.json', RECORDED),
         'run has 8 predictions .* and the split has 9 examples'),
    ],
)  # fmt: skip
def test_a_run_that_lacks_predictions_is_refused_by_name(tmp_path, spoil, message):
    path = mtg_runs.write_run(tmp_path / 'run', 'mT5', MULTI)
    spoil(result_of(path, 'mtg_sg_fr_fr').folder)
    with pytest.raises(UserError, match=message) as caught:
        submit(tmp_path / 'out', path)
    assert '\n' not in str(caught.value) and not (tmp_path / 'out').exists()


def test_a_users_file_stays(tmp_path):
    path = mtg_runs.write_run(tmp_path / 'run', 'mT5', MULTI)
    (tmp_path / 'out').mkdir()
    mine = tmp_path / 'out' / 'TG-run.json'
    mine.write_text('{"mine": []}')
    with pytest.raises(UserError, match=r'run\.json exists and is not a file for the leaderboard'):
        submit(tmp_path / 'out', path)
    assert [*mine.parent.glob('*.json')] == [mine] and leaderboard.NAME == 'mtg'
    with pytest.raises(UserError, match='--format=mtg needs --output'):
        report.main([str(path), '--format=mtg'])
    other = mtg_runs.write_run(tmp_path / 'other', 'mT5', MULTI)
    for file in other.rglob('metrics.json'):
        file.write_text(file.read_text().replace('mtg_', 'news_'))
    with pytest.raises(UserError, match='is for runs on MTG'):
        submit(tmp_path / 'out', other)
