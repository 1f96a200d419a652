"""What a command says in advance, and the sizes that are refused because nothing holds them."""

import json
import pathlib

import pytest
import tiny
from edits import refused
from ml_collections import ConfigDict

from xlbench import config as config_lib, metrics, runs, train
from xlbench.data import prepared, tokenizers
from xlbench.fewshot import __main__ as fewshot, command as fewshot_command
from xlbench.parallel import partitioning
from xlbench.plan import dry_run
from xlbench.settings import source
from xlbench.system import errors, ranges
from xlbench.system.errors import UserError
from xlbench.training import memory, messages


def everything(*folders: pathlib.Path) -> set[tuple[pathlib.Path, int]]:
    """Every file and folder below some folders, with the time of its change."""
    return {(p, p.stat().st_mtime_ns) for folder in folders for p in (folder, *folder.rglob('*'))}


def say(program, capsys, *arguments):
    """The lines of a dry run."""
    code = errors.run_main(program.main, ['program', *arguments, '--dry_run'])
    screen = capsys.readouterr()
    assert (code, screen.err) == (0, '')
    lines = screen.out.splitlines()
    assert lines[-1] == dry_run.LAST
    return lines


def test_a_run_is_described_and_not_begun(tiny_root, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(prepared, 'ensure', None)  # Nothing is prepared.
    path = tiny.write_config(tmp_path / 'tiny_run.py', tiny.tiny_config(tiny_root))
    workdir = tmp_path / 'run'
    before = everything(tiny_root)
    lines = say(train, capsys, f'--config={path}', f'--workdir={workdir}', '--config.seed=7')
    assert everything(tiny_root) == before and not workdir.exists()
    assert 'config.seed = 7' in lines and "config.model.size = 'sample'" in lines
    assert f'workdir {workdir}: new' in lines
    task = tiny.QUESTIONS[0]
    for split, number in tiny.SIZES.items():
        assert f'  {task:<28} {split:<12} {number:>10,} examples' in lines
    assert any(line.startswith('stage1: ') and line.endswith(', 7 steps') for line in lines)
    assert any(line.startswith('  batches of 8 rows x (') for line in lines)
    assert not any('would prepare' in line or 'to download' in line for line in lines)
    parts = runs.build(tiny.tiny_config(tiny_root))
    said = messages.introduction('', parts, 'alone')  # By the run itself.
    assert next(line for line in said if ' parameters (' in line) in lines
    assert f'{parts.num_parameters / 1e3:.3g}k parameters (' in '\n'.join(lines)
    [held] = [line for line in lines if line.startswith('parameters ')]
    # AdamW's moments are twice the parameters.
    count = 4 * parts.num_parameters
    assert f'parameters {count / 1e3:.3g}kB, gradients {count / 1e3:.3g}kB' in held
    assert f'optimizer state {2 * count / 1e3:.3g}kB on each device, of ' in held


def test_what_metrics_lack_is_said(tiny_root, monkeypatch):
    monkeypatch.setattr(metrics.Suite, 'missing', lambda suite: ['x needs y: fetch y'])
    block = tiny.tiny_config(tiny_root).data
    lines = list(dry_run.data_lines(block, [(tiny.QUESTIONS[0], 'test')]))
    assert lines.count('TO DO before the first evaluation: x needs y: fetch y') == 1


def test_what_a_dry_run_would_make(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(prepared, 'ensure', None)
    lines = say(train, capsys, '--config=mtg_mt5:sample,scenario=mono,task=qg,source=de')
    [first] = [line for line in lines if line.startswith('would prepare ')]
    assert first.startswith('would prepare 5 of 5 splits, from the embedded sample corpora in ')
    assert f'  {"mtg_qg_de_de":<28} validation, test, train' in lines
    assert 'stage1: mtg_mono_qg_de, split rough_train, 900 steps' in lines
    lines = say(
        train, capsys, '--config=mtg_mt5:small', '--config.init_from=', '--config.mesh.fsdp=8'
    )
    assert 'to download: vocabulary google/mt5-base, from the Hugging Face hub' in lines
    assert any('vocabulary of 250,112 (config.model.vocab_size)' in line for line in lines)
    lines = say(fewshot, capsys, '--config=fewshot', '--config.adapt.languages=de')
    assert any(line.startswith('udpos: 6 groups of 12 adaptations = 72; ') for line in lines)
    assert any(line.startswith('would prepare 10 of 10 splits') for line in lines)
    own = '--config=finetune:tiny,objective=generation,mixture=mtg_qg_de_de'
    lines = say(train, capsys, own)
    assert f'  {"mtg_qg_de_de":<28} train, validation, test' in lines
    assert any('is made of the training data)' in line for line in lines)
    assert not any('to download' in line for line in lines)
    lines = say(train, capsys, '--config=mtg_mt5')
    assert '1.84M parameters (7.35MB in float32), 1.84M of them trained' in lines
    assert 'vocabulary of 4,000 (of the embedded sample corpora)' in lines
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_refuses_a_split_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = ['--config=mtg_mt5:sample,scenario=mono,task=qg,source=de', '--dry_run']
    said = r"task mtg_qg_de_de \(in mixture mtg_mono_qg_de\) has no split 'dev'; it has rough"
    with pytest.raises(UserError, match=said):
        train.main(['train', *flags, '--config.stages.stage1.split=dev'])
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_that_would_grow(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(prepared, 'ensure', None)
    command = ['--config=fewshot', '--config.adapt.languages=de', '--workdir=sweep']
    begun = config_lib.parse_command(['fewshot', *command])[0]
    about = {'source_model': '', 'manifests': {}, 'contents': {}, 'examples': {}}
    fewshot_command.claim_workdir('sweep', begun, about)
    (tmp_path / 'sweep' / 'DONE').write_text('0\n')  # Of what was asked for then.
    before = everything(tmp_path)
    lines = say(fewshot, capsys, *command, '--config.adapt.buckets=(0, 7)')
    assert 'workdir sweep: begun; continues' in lines
    assert any(line.startswith('udpos: 6 groups of 14 adaptations = 84; ') for line in lines)
    assert everything(tmp_path) == before


def test_a_run_that_was_begun(tiny_root, tiny_run, tmp_path, capsys):
    path = tiny.write_config(tmp_path / 'tiny_run.py', tiny.tiny_config(tiny_root))
    before = everything(tiny_run)
    lines = say(train, capsys, f'--config={path}', f'--workdir={tiny_run}')
    assert f'workdir {tiny_run}: finished; its tables would be printed again' in lines
    assert everything(tiny_run) == before


# ---------------------------------------------------------------------------------------------
# Sizes that nobody has.


def config(*overrides: str, file: str = 'mtg_mt5') -> ConfigDict:
    argv = ['train', f'--config={file}', *overrides]
    return config_lib.parse_command(argv)[0]


DECODED = 'evals.test.decoding.method=beam evals.test.decoding.num_beams=4000 '


@pytest.mark.parametrize(
    'overrides, message',
    [
        ('model.emb_dim=1000000', 'its optimizer state needs at least 16.4GB on'),
        ('model.num_encoder_layers=256', 'config.model has 258 layers; at most 256 are'),
        ('model.num_encoder_layers=1000', 'num_encoder_layers is 1000; it must be 1 to'),
        ('model.vocab_size=60000000', 'a model of 7.68G parameters'),
        ('batches.batch_size=1000000000', 'a batch of 1,000,000,000 rows of 192 tokens'),
        ('batches.lengths.inputs=1000000000', 'a batch of 8 rows of 1,000,000,000'),
        ('evals.test.lengths.targets=1000000', 'decoding 64 texts of 1,000,000 tokens'),
        (
            f'{DECODED}evals.test.lengths.targets=1000',
            'decoding 256,000 texts of 1,000 tokens at once, in config.evals.test,',
        ),
    ],
)
def test_sizes_that_nothing_holds_are_refused(overrides, message, monkeypatch):
    monkeypatch.setattr(memory.machine, 'memory', lambda: 8 * 5_000_000_000)
    monkeypatch.setattr(runs, '_open_data', None)  # It does not come to that.
    with refused(message):
        runs.build(config(*(f'--config.{override}' for override in overrides.split())))


@pytest.mark.parametrize(
    'file', ['mtg_mt5', 'mrs_retriever', 'mrs_generator', 'fewshot_source', 'xquad_mt5:sample']
)
def test_what_is_shipped_for_a_laptop_is_let_through(file, monkeypatch):
    monkeypatch.setattr(memory.machine, 'memory', lambda: 8 * 1_000_000_000)
    chosen = config(file=file)
    memory.check(chosen, partitioning.make_mesh(**chosen.mesh))


def test_more_devices_hold_more(monkeypatch):
    monkeypatch.setattr(memory.machine, 'memory', lambda: 8 * 2_000_000_000)
    chosen = config('--config.model.size=large', '--config.model.vocab_size=250112')
    with pytest.raises(UserError, match=r'on each device, which has 2GB; '):
        memory.check(chosen, partitioning.make_mesh(data=8))
    memory.check(chosen, partitioning.make_mesh(data=1, fsdp=8))


def test_what_is_counted_is_there(tiny_root):
    """Never more parameters than the model has, of every family."""
    for block in (
        {'family': 'mt5'}, {'family': 't5'}, {'family': 'bart'}, {'family': 'marian'},
        {'family': 'pegasus'}, {'family': 'bert'}, {'family': 'encoder_decoder'},
        {'family': 'dual_encoder', 'projection_dim': 8}, {'family': 'sequence_classifier'},
        {'family': 'token_classifier', 'head': 'cosine'},
    ):  # fmt: skip
        block = {'size': 'sample', 'vocab_size': 640, **block}
        counted = memory.least_parameters(memory.config_of(block))
        there = parameters(block)
        assert 0.4 * there < counted <= there, block


def parameters(block) -> int:
    """Of a model, all of them."""
    import jax

    from xlbench import models
    from xlbench.training import objectives, train_step

    family = block['family']
    objective = objectives.build(config_lib.trainers(family)[0])
    model = models.build(**block)
    if family == 'bert':
        shapes = jax.eval_shape(
            model.init, jax.random.key(0), jax.numpy.zeros((1, 4), int), jax.numpy.ones((1, 4), int)
        )
    else:
        shapes, _ = train_step.params_like(model, objective, partitioning.make_mesh(data=8))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def test_the_config_is_said_whole():
    lines = list(dry_run.settings(config()))
    assert len(lines) == len(set(lines)) > 60
    keys = {line.partition(' = ')[0] for line in lines}
    assert {'config.stages.stage1.optimizer.name', 'config.evals.test.lengths.inputs'} <= keys
    assert json.dumps(config_lib.to_dict(config()))


def test_a_vocabulary_that_is_there_is_read(tiny_root):
    """That of the samples lies in the data root, and bytes need no file."""
    asked = tiny.tiny_config(tiny_root)
    size = tokenizers.load('sample', str(tiny_root)).vocab_size
    assert dry_run._vocabulary_size(asked, {}) == (size, 'sample')
    asked.data.vocabulary = 'bytes'
    assert dry_run._vocabulary_size(asked, {}) == (384, 'bytes')


def test_one_limit_of_layers():
    for module, name in (('t5', 'T5Config'), ('bart', 'BartConfig'), ('bert', 'BertConfig')):
        fields = source.fields(f'xlbench.models.{module}', name)
        limits = [field.type for key, field in fields.items() if key.endswith('_layers')]
        assert limits and all(f'to {memory.MOST_LAYERS}' in ranges.limits(x) for x in limits)
