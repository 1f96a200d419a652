"""A workdir that is moved to another folder and used from a third one, without its vocabulary."""

import json
import shutil

import edits
import pytest
import tiny
import tiny_replies

from xlbench import convert, evaluate, predict, train
from xlbench.data import prepared, tokenizers
from xlbench.system.errors import UserError


@pytest.fixture(scope='module')
def moved(tiny_root, tmp_path_factory):
    """(workdir, data root without vocabulary, files of the undisturbed run), both moved."""
    before, after = tmp_path_factory.mktemp('before'), tmp_path_factory.mktemp('after')
    shutil.copytree(tiny_root, before / 'data')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(before)
        config = tiny.brief_config('data', checkpoints__keep=9)
        train.train(config, 'RUNS/qg')
    shutil.move(before / 'RUNS' / 'qg', after / 'qg')
    shutil.move(before / 'data', after / 'elsewhere')
    shutil.rmtree(before)
    (after / 'elsewhere' / 'sample.model').unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp('cwd'))
        yield after / 'qg', after / 'elsewhere', tiny.rows(after / 'qg')


def test_it_predicts_and_is_converted(moved, tmp_path):
    workdir, _, _ = moved
    (folder,) = workdir.glob('eval/*/test/mtg_qg_de_de')
    rows = [json.loads(line) for line in (folder / 'predictions.jsonl').read_text().splitlines()]
    model = predict.load(str(workdir), batch_size=16)
    texts = [row['input'].partition('> ')[2] for row in rows]
    assert model.generate(texts, target_lang='de') == [row['prediction'] for row in rows]
    convert.main(['convert', str(workdir), str(tmp_path / 'out')])
    assert (tmp_path / 'out' / 'model.safetensors').is_file()


def test_it_is_evaluated(moved):
    workdir, root, _ = moved
    (before,) = workdir.glob('eval/*/test/mtg_qg_de_de/metrics.json')
    scores = json.loads(before.read_text())['scores']
    command = ['evaluate', f'--workdir={workdir}', '--tasks=mtg_qg_de_de']
    with pytest.raises(UserError, match=r"there is no folder 'data'; name .* with --root=FOLDER"):
        evaluate.main(command)
    before.unlink()
    evaluate.main([*command, f'--root={root}'])
    assert json.loads(before.read_text())['scores'] == scores


def test_a_vocabulary_of_the_data_is_not_trained_again(moved, tmp_path):
    """As configs/finetune.py:tiny has it; an evaluation needs no training split."""
    workdir, root, _ = moved
    shutil.copytree(workdir, tmp_path / 'run')
    folder = root / 'prepared' / 'data--new.model'
    shutil.copytree(root / 'prepared' / 'sample', folder)
    with edits.edited(tmp_path / 'run' / 'config.json') as about:
        about['config']['data'] |= {'vocabulary': 'data/new.model', 'vocabulary_size': 100}
        for block in about['config']['evals'].values():
            block['optional'] = True
    with pytest.MonkeyPatch.context() as patch:
        no_child = prepared.on_demand.subprocess, 'run'
        patch.setattr(*no_child, lambda *_, **__: pytest.fail('a child started'))
        evaluate.main(['evaluate', f'--workdir={tmp_path / "run"}', f'--root={root}'])
    shutil.rmtree(folder)


def test_it_goes_on(moved, tmp_path):
    workdir, root, rows = moved
    shutil.copytree(workdir, tmp_path / 'run')
    (tmp_path / 'run' / 'DONE').unlink()
    for step in (4, 6):
        shutil.rmtree(tmp_path / 'run' / 'checkpoints' / str(step), ignore_errors=True)
    train.train(tiny.brief_config(root, checkpoints__keep=9), str(tmp_path / 'run'))
    log = (tmp_path / 'run' / 'log.txt').read_text()
    assert 'resumed at step' in log and "data.root was 'data', now" in log
    assert tiny.rows(tmp_path / 'run') == rows


def test_what_is_missing_is_said(moved, tmp_path):
    """A workdir as earlier versions left it has no copy."""
    workdir, _, _ = moved
    shutil.copytree(workdir, tmp_path / 'old', ignore=shutil.ignore_patterns('vocabulary'))
    with pytest.raises(UserError, match='has no copy of its vocabulary, and there is no data/samp'):
        predict.load(str(tmp_path / 'old'))


def test_a_retriever_has_its_responses_with_it(replies_root, tmp_path, monkeypatch):
    """Written when a run begins; read in place of the preparation, in the same order."""
    from xlbench import runs
    from xlbench.retrieval import response_set

    shutil.copytree(replies_root, tmp_path / 'data')
    monkeypatch.chdir(tmp_path)
    config = tiny_replies.tiny_config('data')
    tiny_replies.write_run(tmp_path / 'run', config)
    expected = predict.load('run', batch_size=8).suggest(['magst du Tee'], 'de')
    runs.copy_inputs(config, runs.build(config), 'run')
    shutil.rmtree(tmp_path / 'data')
    shutil.rmtree(tmp_path / 'run' / 'responses')
    monkeypatch.chdir(tmp_path.parent)
    found = predict.load(str(tmp_path / 'run'), batch_size=8)
    assert found.suggest(['magst du Tee'], 'de') == expected
    path = runs.response_set_path(tmp_path / 'run', tiny_replies.TASKS[0], 'responses')
    tokenizer = tokenizers.of_workdir(
        tmp_path / 'run', json.loads((tmp_path / 'run' / 'config.json').read_text())
    )
    for content in ('{', '{}\n', '1\n', '[' * 9999, path.read_text().replace('"text": "', '"')):
        path.write_text(content)
        with pytest.raises(UserError, match=r'is not a copy of a response set'):
            response_set.ResponseSet.of_copy(path, tokenizer)
