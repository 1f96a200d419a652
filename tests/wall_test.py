"""Who may import what, seen in fresh interpreters; and a whole run where TensorFlow cannot be."""

import os
import pathlib
import pkgutil
import subprocess
import sys

import children
import pytest
import quick_compilation
import tiny

import xlbench
from xlbench import train

PROJECT = pathlib.Path(__file__).parent.parent
TENSORFLOW = {'tensorflow', 'seqio', 'tensorflow_datasets', 'tensorflow_text', 'keras', 't5'}
SLOW = {'torch', 'transformers'}  # Nobody needs them to start.
# What training imports after its first step, what only some of its parts need.
LATER = {'orbax', 'tensorstore', 'nltk', 'matplotlib', 'tensorboardX'}
BEYOND_THE_WALL = ('xlbench.prepare.beam',)
WITHOUT_JAX = (
    'xlbench.metrics', 'xlbench.benchmarks', 'xlbench.config', 'xlbench.reporting',
    'xlbench.system.errors', 'xlbench.system.files', 'xlbench.settings', 'xlbench.config.commands',
    'xlbench.report', 'xlbench.annotate', 'xlbench.judgement', 'xlbench.score',
    'xlbench.prepare', 'xlbench.pipeline',
    'xlbench.data.baselines', 'xlbench.data.buckets', 'xlbench.data.conllu',
    'xlbench.data.corpora', 'xlbench.data.labelled',
    'xlbench.data.outputs', 'xlbench.data.postprocess', 'xlbench.data.prepared',
    'xlbench.data.readers', 'xlbench.data.rows', 'xlbench.data.tokenizers',
    'xlbench.data.vocabularies', 'xlbench.plan.hlo', 'xlbench.retrieval.response_set',
)  # fmt: skip


def modules() -> list[str]:
    """Every module of the package."""
    return [module.name for module in pkgutil.walk_packages(xlbench.__path__[:1], 'xlbench.')]


def within(name: str, places: tuple[str, ...]) -> bool:
    """Whether a module is one of these, or inside one of them."""
    return any(name == place or name.startswith(f'{place}.') for place in places)


def imported(*lines: str) -> set[str]:
    """The top-level packages that a fresh interpreter has after these lines."""
    code = '\n'.join([*lines, 'import sys', 'print(" ".join(sys.modules))'])
    run = subprocess.run(
        [sys.executable, '-c', code], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return {name.partition('.')[0] for name in run.stdout.splitlines()[-1].split()}


def test_all_but_the_pipeline_start_without_tensorflow():
    names = [name for name in modules() if not within(name, BEYOND_THE_WALL)]
    assert {'xlbench.train', 'xlbench.evaluators.generation', 'xlbench.models.t5'} <= set(names)
    names += ['xlbench.tasks.samples.mtg', 'xlbench.configs.mtg_mt5']
    found = imported(
        'import sys, xlbench.train, xlbench.evaluators.generation',
        'early = {name.partition(".")[0] for name in sys.modules}',
        f'assert not early & {LATER}, early',
        f'import {", ".join(names)}',
    )
    assert 'jax' in found
    assert not found & (TENSORFLOW | SLOW)


def test_declaring_all_tasks_needs_neither_seqio_nor_jax():
    """What a user pays who declares one; and SeqIO has them all as soon as it is imported."""
    words = sorted(path.stem for path in (PROJECT / 'tasks').glob('[a-z]*.py'))
    found = imported(
        'import xlbench.pipeline',
        *(f'import xlbench.tasks.{word}' for word in words),
        'names = xlbench.pipeline.registry.names()',
        'assert {"mtg_qg_en_de", "fewshot_udpos_ta_ta", "xquad_multi_qg.equal"} < names, names',
    )
    assert not found & (TENSORFLOW | SLOW | {'jax', 'nltk', 'apache_beam'})


def test_texts_scores_and_tables_need_no_jax(tiny_root):
    names = [
        name
        for name in modules()
        if within(name, WITHOUT_JAX)
        and not within(name, (*BEYOND_THE_WALL, 'xlbench.metrics.learned'))  # Models themselves.
    ]
    assert len(names) > len(WITHOUT_JAX)
    found = imported(
        'import sys, xlbench.metrics',
        'assert not {"nltk", "jieba"} & set(sys.modules)',
        f'import {", ".join(names)}',
        'import xlbench.tasks.samples.mtg',
        # Nor does using them.
        'from xlbench.metrics import bleu, distinct, rouge',
        'rouges = [rouge.MultilingualRouge(x, stem=True) for x in ("de", "zh", "ja", "th")]',
        'for metric in (*rouges, bleu.SacreBleu(), distinct.Distinct()):',
        '    assert metric(["ein Haus am See"], ["ein Haus am Fluss"])',
        f'tokenizer = xlbench.data.tokenizers.load("sample", {str(tiny_root)!r})',
        'assert tokenizer.decode_batch(tokenizer.encode_batch(["old bridge"])) == ["old bridge"]',
        'from xlbench.data import prepared',
        f'task = prepared.open_task({str(tiny_root)!r}, "sample", "mtg_qg_en_en", "test")',
        'assert task[3]["inputs"].size',
    )
    assert not found & (TENSORFLOW | SLOW | {'jax', 'flax', 'optax'})


def test_the_tests_of_the_wall_can_fail():
    assert 'seqio' in imported('import sys, types', 'sys.modules["seqio"] = types.ModuleType("s")')
    with pytest.raises(AssertionError, match='no_such_module'):
        imported('import no_such_module')


WALLED = """
import importlib.machinery
import sys

asked = []

class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in BLOCKED:  # To look whether it is installed is no import.
            return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec):
        asked.append(spec.name)
        raise ImportError(f'{spec.name} is behind the wall')

    def exec_module(self, module):
        pass

sys.meta_path.insert(0, Wall())
from xlbench import train; from xlbench.system import errors

code = errors.run_main(train.main, sys.argv)
sys.exit(f'{asked} were asked for' if asked else code)
"""


def test_a_whole_run_without_tensorflow_repeats_the_run_of_this_process(tiny_root, tmp_path):
    """Compiled anew, in another process: the same numbers to the last bit, the same files."""
    script = tmp_path / 'walled.py'
    # tensorboardX looks for PyTorch as well, for other formats of its arguments.
    blocked = repr(TENSORFLOW | {'transformers'})
    script.write_text(WALLED.replace('BLOCKED', blocked), encoding='utf-8')
    config = tiny.brief_config(tiny_root, checkpoints__every=6, baselines=('nearest_input',))
    workdir, here = tmp_path / 'run', tmp_path / 'here'
    with children.on_devices(1):
        train.train(config, str(here))
    config = tiny.write_config(tmp_path / 'tiny_run.py', config)
    alone = {'JAX_ENABLE_COMPILATION_CACHE': 'false', 'XLA_FLAGS': quick_compilation.xla_flags()}
    run = subprocess.run(
        [sys.executable, str(script), f'--config={config}', f'--workdir={workdir}'],
        cwd=PROJECT, env=os.environ | alone, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, '')
    for kind in ('train', 'eval'):
        assert tiny.rows(workdir, kind) == tiny.rows(here, kind)
    assert tiny.results(workdir) == tiny.results(here)
