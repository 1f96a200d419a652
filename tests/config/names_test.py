"""What is answered before jax is imported: help and slips of every program, in one interpreter."""

import importlib
import inspect
import json
import os
import signal
import subprocess
import sys
from typing import Any, get_args

import pytest
from ml_collections import ConfigDict

from xlbench import config as config_lib, models
from xlbench.config import commands
from xlbench.settings import source
from xlbench.system import errors
from xlbench.system.errors import UserError
from xlbench.system.ranges import COMPUTED, fields_of
from xlbench.training import objectives

SLOW = ('jax', 'jaxlib', 'flax', 'optax', 'orbax', 'tensorflow', 'seqio', 'transformers')


def parse(*argv):
    return config_lib.parse_command(['train', *argv])


# ---------------------------------------------------------------------------------------------
# Every program, as a user starts it, one after the other in one process.

PROGRAM = """
import contextlib, io, json, runpy, sys

answers = []
for module, *arguments in json.loads(sys.argv[1]):
    sys.argv = [module, *arguments]
    said, wrong = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(wrong):
        try:
            runpy.run_module(module, run_name='__main__', alter_sys=True)
        except SystemExit as end:
            code = end.code
    slow = sorted({name.partition('.')[0] for name in sys.modules} & set(SLOW))
    answers.append([code, said.getvalue()[:2000], wrong.getvalue(), slow])
print(json.dumps(answers))
"""


def ask(commands, folder):
    """(exit code, standard output, standard error, slow modules that are imported by then)."""
    script = PROGRAM.replace('SLOW', repr(SLOW))
    run = subprocess.run(
        [sys.executable, '-c', script, json.dumps(commands)],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


PROGRAMS = (
    'train', 'evaluate', 'predict', 'prepare', 'convert', 'report', 'score', 'plan', 'doctor',
    'fewshot', 'fewshot report', 'fewshot attention', 'data', 'data buckets',
    'data mrs_build', 'data mtg_build', 'data xtreme', 'data segment', 'data mark', 'data triples',
    'translate', 'translate chain', 'prompt',
)  # fmt: skip
SLIPS = {
    'xlbench.train --config=mtg_mt5x': "unknown config file 'mtg_mt5x'; nearest: mtg_mt5",
    'xlbench.train --config=mtg_mt5:bas': "unknown size after the colon of --config 'bas'",
    'xlbench.train --config=mtg_mt5:base,tsk=qg': "unknown key after the colon of --config 'tsk'",
    'xlbench.train --config=mtg_mt5:base,scenario=crss': "unknown scenario 'crss'; nearest: cross",
    'xlbench.train --config=mtg_mt5 --workdri=x': '--workdri=x; nearest: --workdir; see',
    'xlbench.train --config=mtg_mt5 --config.model.siez=base': "'siez'; nearest: size",
    'xlbench.train --config=mtg_mt5 --config.model.family=mt6': "unknown model family 'mt6'; near",
    'xlbench.train --config=mtg_mt5 --config.model.size=bsae': "unknown size of mt5 'bsae'; near",
    'xlbench.train --config=mtg_mt5 --config.stages.stage1.mixture=mtg_multi_qq': 'mtg_multi_qg',
    'xlbench.train --config=mtg_mt5 --config.evals.dev.tasks=mtg_qg_ed_de': 'nearest: mtg_qg_es_de',
    'xlbench.train --config=mtg_mt5 --config.stages.stage1.mixture=my_task': 'tasks/my.py',
    'xlbench.train --config=mtg_mt5 --config.stages.stage1.mixture=wrong_x': 'tasks/wrong.py:3: ',
    'xlbench.train --config=mtg_mt5 --config.init_from=./pretraind': 'nearest: pretrained',
    'xlbench.train --config=mtg_mt5 --config.init_from=google/mt5-bsae': 'google/mt5-bsae',
    'xlbench.train --config=mtg_mt5 --config.data.vocabulary=mt6': "unknown vocabulary 'mt6'; nea",
    'xlbench.fewshot --config=fewshot:mbrt': "unknown size after the colon of --config 'mbrt'",
    'xlbench.fewshot --config=fewshot --config.adapt.seds=1': "in config.adapt 'seds'; nearest",
    'xlbench.fewshot --config=fewshot --config.task=udops': "'udops'; nearest: udpos",
    'xlbench.fewshot --config=fewshot --config.source_workdir=where': 'there is no folder where',
    'xlbench.train --config=mtg_mt5 --config.evals.test.decoding.method=sample '
    '--config.evals.test.decoding.temperature=0': 'temperature is 0.0; it must be above',
    'xlbench.doctor --verbose': 'unrecognized arguments: --verbose; see xlbench doctor',
    'xlbench.data lst': "unknown command 'lst'; nearest: list",
    'xlbench.score run/config.json --format=text --task=mtg_qg_ed_de': 'mtg_qg_ed_de',
    'xlbench.plan --config=mtg_mt5:xll': "unknown size after the colon of --config 'xll'; nearest",
    'xlbench.plan --config=mtg_mt5 --topolgy=v5p': 'nearest: --topology',
    'xlbench.evaluate rn': 'workdir: there is no folder rn; nearest: run',
    'xlbench.evaluate': 'name one workdir: xlbench evaluate WORKDIR',
    'xlbench.evaluate --workdir=run --step=7': "run has no checkpoint '7'; it has best, last, 3",
    'xlbench.evaluate --workdir=run --tasks=mtg_qg_ed_de': "'mtg_qg_ed_de'; nearest: mtg_qg_es_de",
    'xlbench.evaluate --workdir=run --like=tset': "'tset'; nearest: test",
    'xlbench.evaluate --workdir=run --temperature=0': 'temperature is 0.0; it must be above 0',
    'xlbench.evaluate --workdir=run --num_baems=4': '--num_baems=4; nearest: --num_beams',
    'xlbench.evaluate --workdir=run --mesh=date=2': "unknown axis in --mesh 'date'; nearest: data",
    'xlbench.evaluate --workdir=sweep': 'sweep is the workdir of a sweep of xlbench.fewshot',
    'xlbench.predict ./rn': 'model: there is no folder ./rn; nearest: run',
    'xlbench.predict runs/no': 'no folder or workdir runs/no, no such model',
    'xlbench.predict rn': "'rn' is neither a folder nor a hub name; a hub name is like",
    'xlbench.predict run@7': "run has no checkpoint '7'; it has best, last, 3",
    'xlbench.predict run --temperature=-1': 'temperature is -1.0; it must be above 0',
    'xlbench.predict run --top_p=nan': 'top_p is nan; it must be finite',
    'xlbench.predict run --rerank=./rn': '--rerank: there is no folder ./rn; nearest: run',
    'xlbench.predict sweep': 'sweep is the workdir of a sweep of xlbench.fewshot',
    'xlbench.convert ./rn out': 'source: there is no folder ./rn; nearest: run',
    'xlbench.convert run run': 'run exists already; name a target that does not',
    'xlbench.convert run out --dtype=float8': "invalid choice: 'float8'",
    'xlbench.report rn': 'rn',
    'xlbench.fewshot report rn': 'rn has no results.jsonl',
    'xlbench.fewshot attention rn --lang=de': 'rn has no results.jsonl',
    'xlbench.prepare --mixture=mtg_multi_qq': "'mtg_multi_qq'; nearest: mtg_multi_qg",
    'xlbench.prepare --mixture=mtg_multi_qg --vocabulary=mt6': "unknown vocabulary 'mt6'; nearest",
    'xlbench.data buckets sampel x': "unknown command 'sampel'; nearest: sample",
    'xlbench.data mrs_build --output=x nothing.zst': 'there is no file nothing.zst',
    'xlbench.data mtg_build build --output=x --engine=apertium --tg=x.csv': 'no file x.csv',
    'xlbench.data xtreme --task=pnax': "'pnax'; nearest: panx",
}


def test_help_and_slips_are_answered_without_jax_and_tensorflow(tmp_path):
    run = {'stages': {}, 'evals': {'test': {}}, 'data': {'root': 'data', 'vocabulary': 'sample'}}
    sweep = {'adapt': {}, 'source_workdir': ''}
    config_lib.claim_workdir(str(tmp_path / 'run'), ConfigDict(run), {})
    config_lib.claim_workdir(str(tmp_path / 'sweep'), ConfigDict(sweep), {})
    (tmp_path / 'run' / 'checkpoints' / '3').mkdir(parents=True)
    (tmp_path / 'pretrained').mkdir()
    (tmp_path / 'tasks').mkdir()
    (tmp_path / 'tasks' / 'wrong.py').write_text(
        "from xlbench import pipeline\n\npipeline.register_text_task('wrong_x', lagn='de')\n"
    )
    commands = [[f'xlbench.{program}', *words, '--help']
                for program, *words in map(str.split, PROGRAMS)]  # fmt: skip
    commands += [line.split() for line in SLIPS]
    answers = dict(zip((' '.join(c) for c in commands), ask(commands, tmp_path), strict=True))
    for command, (code, said, wrong, slow) in answers.items():
        assert not slow, command
        if command.endswith('--help'):
            assert (code, wrong) == (0, ''), command
            program = command.removeprefix('xlbench.').removesuffix(' --help')
            assert said.startswith(f'usage: xlbench {program}'), command
        else:
            assert code == 2 and said == '', (command, said, wrong)
            assert wrong.startswith('error: ') and wrong.count('\n') == 1, wrong
            assert SLIPS[command] in wrong, wrong
    # Nothing but what Python itself keeps of files that it has compiled.
    assert {path.name for path in tmp_path.iterdir()} == {'pretrained', 'run', 'sweep', 'tasks'}


def test_ctrl_c_during_the_imports_is_one_line(monkeypatch, capsys):
    was, before, ended = signal.getsignal(signal.SIGINT), signal.default_int_handler, []
    monkeypatch.setattr(os, '_exit', ended.append)
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # As in the background: it stays so.
        commands.check_first(lambda argv: None, ['train'])
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        signal.signal(signal.SIGINT, before)
        commands.check_first(lambda argv: None, ['train'])
        os.kill(os.getpid(), signal.SIGINT)
        assert ended == [130]
        assert capsys.readouterr().err == 'error: stopped by Ctrl-C; nothing was begun\n'

        def main(argv):
            raise KeyboardInterrupt if signal.getsignal(signal.SIGINT) is before else AssertionError

        assert errors.run_main(main, []) == 130
    finally:
        signal.signal(signal.SIGINT, was)


# ---------------------------------------------------------------------------------------------
# What is known without an import is what the import gives.


def same(read, imported) -> bool:
    """Whether fields are those of an imported class, as far as their source alone says it."""
    return list(read) == list(imported) and all(
        (Any in (field.type, *get_args(field.type)) or field.type == imported[key].type)
        and field.default in (COMPUTED, imported[key].default)
        for key, field in read.items()
    )


@pytest.mark.parametrize(
    'module, name',
    [
        ('xlbench.models.lora', 'Lora'),
        ('xlbench.fewshot.settings', 'Adapt'),
        *sorted({(f'xlbench.models.{f.module}', f.config) for f in models.FAMILIES.values()}),
    ],
)
def test_fields_that_are_read_are_those_that_are_imported(module, name):
    imported = getattr(importlib.import_module(module), name)
    assert same(source.fields(module, name), fields_of(imported))


@pytest.mark.parametrize(
    'package, ending, expected',
    [
        (
            'xlbench.training.objectives', '',
            'classification generation language_model multi_view retrieval tagging',
        ),
        ('xlbench.evaluators', 'Evaluator', 'generation labels retrieval'),
    ],
)  # fmt: skip
def test_what_a_package_s_files_say_is_what_their_classes_say(package, ending, expected):
    assert list(source.catalog(package, ending)) == expected.split()
    for name, class_name in source.catalog(package, ending).items():
        module = f'{package}.{name}'
        found = getattr(importlib.import_module(module), class_name)
        options = importlib.import_module(module).Options
        assert same(source.fields(module, 'Options'), fields_of(options))
        said = source.attributes(module, class_name)
        assert said and said == {key: getattr(found, key) for key in said}


def test_every_objective_keeps_the_contract():
    """Each class has all that contract.py declares, with arguments of the same names."""
    contract = importlib.import_module('xlbench.training.objectives.contract').Objective
    said = set(contract.__annotations__)
    methods = [name for name, value in vars(contract).items() if inspect.isfunction(value)]
    methods = [name for name in methods if not name.startswith('_')]
    assert {'view', 'trains', 'evaluator'} <= said and {'loss', 'weight'} <= set(methods)
    for name in config_lib.objectives():
        assert set(config_lib.about_objective(name)) >= said, name
        made = objectives.build(name)
        for method in methods:
            if method == 'row_losses' and name == 'retrieval':  # A loss of the whole batch.
                continue
            ours = inspect.signature(getattr(made, method)).parameters
            theirs = list(inspect.signature(getattr(contract, method)).parameters)
            assert list(ours) == theirs[1:], (name, method)


# ---------------------------------------------------------------------------------------------
# Every field can be set.


def test_fields_that_a_config_leaves_to_defaults_can_be_set():
    config = parse(
        '--config=mtg_mt5', '--config.model.num_encoder_layers=4', '--config.model.remat=full',
        '--noconfig.model.shared_dropout', '--config.stages.stage1.optimizer.momentum=0.9',
        '--config.batches.prefetch=2', '--config.evals.test.decoding.num_beams=4',
        '--config.evals.test.decoding.method=beam', '--config.lora.also_train=head.*',
    ).config  # fmt: skip
    assert config.model.num_encoder_layers == 4
    assert (config.model.remat, config.model.shared_dropout) == ('full', False)
    assert config.stages.stage1.optimizer.momentum == 0.9
    assert config.evals.test.decoding.to_dict() == {'num_beams': 4, 'method': 'beam'}
    assert (config.batches.prefetch, config.lora.also_train) == (2, ('head.*',))
    config_lib.check_names(config)
    model = models.config(**config.model.to_dict() | {'vocab_size': 64})
    assert (model.num_encoder_layers, model.num_decoder_layers) == (4, 2)
    adapt = parse('--config=fewshot', '--config.source.model.num_layers=1').config
    assert adapt.source.model.num_layers == 1
    with pytest.raises(UserError, match=r"config\.model 'num_layer'; nearest: scan_layers, num_"):
        parse('--config=mtg_mt5', '--config.model.num_layer=4')
    with pytest.raises(UserError, match="layers is 'four'; it must be a whole number"):
        parse('--config=mtg_mt5', '--config.model.num_encoder_layers=four')


# ---------------------------------------------------------------------------------------------
# Tasks and mixtures.


def test_names_of_tasks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv('XLBENCH_TASKS', raising=False)

    def check(name):
        config_lib.check_task(name, 'task', 'data', 'sample')

    for name in ('mtg_qg_en_de', 'mtg_multi_qg.equal', 'mrs_mt_retrieval_de'):
        check(name)
    for name in ('mtg_qg_en_dd', 'my_task', '', '../mtg', 7, ('mtg_qg_en_de',)):
        with pytest.raises(UserError, match=r'^unknown task'):
            check(name)
    (tmp_path / 'tasks').mkdir()
    (tmp_path / 'tasks' / 'my.py').write_text('import seqio')  # Which nothing is imported for.
    check('my_task')
    assert 'xlbench_user_tasks.my' not in sys.modules
    (tmp_path / 'data' / 'prepared' / 'sample').mkdir(parents=True)
    (tmp_path / 'data' / 'prepared' / 'sample' / 'other_mixture.json').write_text('{}')
    check('other_mixture')
    monkeypatch.setenv('XLBENCH_TASKS', 'nowhere')
    with pytest.raises(UserError, match='XLBENCH_TASKS=nowhere is not a folder'):
        check('my_task')


def test_a_stage_and_an_evaluation_of_one_name_are_told_apart():
    config = config_lib.parse_command(['train', '--config=mtg_mt5'])[0]
    with config.unlocked():
        config.evals = {'stage1': 3}
    with pytest.raises(UserError, match=r'^config\.evals\.stage1 is 3; it must be a block'):
        config_lib.check_names(config)


def test_checkpoints_have_numbers(tmp_path):
    (tmp_path / 'config.json').write_text('{"config": {"stages": {}}}')
    for name in ('8', '12', '²', '٣', 'tmp'):
        (tmp_path / 'checkpoints' / name).mkdir(parents=True)
    config_lib.check_checkpoint(str(tmp_path), '--workdir', '12')
    for step in ('²', '٣', '7'):
        with pytest.raises(UserError, match=r'it has best, last, 8, 12$'):
            config_lib.check_checkpoint(str(tmp_path), '--workdir', step)


# ---------------------------------------------------------------------------------------------
# Workdirs where another thing is meant.


def test_a_home_that_nobody_has_is_no_folder():
    for check in (config_lib.check_checkpoint, config_lib.check_source):
        with pytest.raises(UserError, match='there is no folder ~nobody-has-this/run'):
            check('~nobody-has-this/run', 'model')


def test_a_sweep_s_workdir_is_no_run(tmp_path):
    sweep = {'task': 'udpos', 'source': {}, 'source_workdir': '', 'mesh': {}, 'adapt': {}}
    config_lib.claim_workdir(str(tmp_path / 'sweep'), ConfigDict(sweep), {})
    for ask_for in (
        lambda folder: config_lib.read_config(folder),
        lambda folder: config_lib.check_checkpoint(folder, 'workdir'),
        lambda folder: config_lib.check_source(folder, 'init_from'),
    ):
        with pytest.raises(UserError, match=r'is the workdir of a sweep.*sweep/source'):
            ask_for(str(tmp_path / 'sweep'))
