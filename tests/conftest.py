"""Fixtures that tests share: a tiny data root, a finished run, optional real data and goldens."""

import atexit
import gc
import importlib
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile

import quick_compilation
import warm

# Before jax is imported anywhere: eight fake devices, so that sharding is tested on any CPU.
os.environ.setdefault('JAX_PLATFORMS', 'cpu')
os.environ['XLA_FLAGS'] = quick_compilation.xla_flags(8, given=os.environ.get('XLA_FLAGS', ''))


def _shared_folder(name: str) -> str:
    """A folder for this session's processes."""
    folder = tempfile.mkdtemp(prefix=f'xlbench-{name}-')
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


# What one test has compiled is there for the others of this session, and for their child processes;
# in a folder that somebody names, also for the next sessions.
if kept := os.environ.get('JAX_COMPILATION_CACHE_DIR', ''):
    bytecode = os.path.abspath(os.path.join(kept, 'bytecode'))
else:
    os.environ['JAX_COMPILATION_CACHE_DIR'] = _shared_folder('compiled')
    os.environ['JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS'] = '0.05'
    os.environ['JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES'] = '-1'
    bytecode = _shared_folder('bytecode')

# Nor does each process compile the thousands of modules that it imports, where Python may not write
# beside them: that takes longer than all else that most children do.
if os.environ.pop('PYTHONDONTWRITEBYTECODE', ''):
    os.environ['PYTHONPYCACHEPREFIX'] = sys.pycache_prefix = bytecode
    sys.dont_write_bytecode = False
    # Not that of temporary folders, in which tests make clones of this project.
    atexit.register(shutil.rmtree, f'{bytecode}{tempfile.gettempdir()}', ignore_errors=True)

warm.belong_to_this_process()

# Tracing makes millions of objects, and each look for garbage goes through all that are there: a
# fifth of the tests' time. Before xlbench is imported, which goes back to what it finds.
gc.set_threshold(*warm.THRESHOLDS)

# What a shell or nohup starts may ignore Ctrl-C or a hangup; programs of the tests would, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

import pytest

# The files that take longest, longest first. A worker takes a file at a time: a long one that began
# last would keep one worker busy while the others have nothing left.
LONGEST = (
    'readme', 'notebooks', 'stranger', 'jobs', 'processes', 'train', 'disk', 'preemption',
    'fewshot', 'samples_clidsum', 'samples', 'lora', 'mixing_train', 'retrieval_train',
    'sharding', 'finetune', 'plan', 'seqio_tasks', 'adaptation', 'package', 'predict',
    'huggingface', 'parity', 'bert', 'exports', 'beam_texts', 'launch',
    'evaluate', 'attacks', 'checkpoints', 'wall', 'beam', 'losses', 'user_metrics',
    'chain', 'distributed',
)  # fmt: skip


def pytest_collection() -> None:
    """Has SeqIO and TensorFlow loaded as programs load them, without Keras: half the seconds."""
    importlib.import_module('xlbench.pipeline.late')


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Orders the files: those of LONGEST come first."""
    rank = {f'{name}_test': i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


@pytest.fixture(scope='module', autouse=True)
def forget_programs():
    """What a file has compiled is of no use to the next one, and slows down all that follows."""
    yield
    if 'jax' in sys.modules:
        sys.modules['jax'].clear_caches()


@pytest.fixture(scope='session')
def tiny_root(tmp_path_factory) -> pathlib.Path:
    """A prepared data root of made-up examples; see support/tiny.py."""
    import tiny

    root = tmp_path_factory.mktemp('tiny_root')
    tiny.write_root(root)
    return root


@pytest.fixture(scope='session')
def tiny_run(tiny_root, tmp_path_factory) -> pathlib.Path:
    """The workdir of `tiny.tiny_config`, trained to its end without interruption."""
    import tiny

    from xlbench import train

    workdir = tmp_path_factory.mktemp('tiny_run') / 'run'
    train.train(tiny.tiny_config(tiny_root), str(workdir))
    return workdir


@pytest.fixture(scope='session')
def replies_root(tmp_path_factory) -> pathlib.Path:
    """A prepared data root of made-up messages and replies; see support/tiny_replies.py."""
    import tiny_replies

    root = tmp_path_factory.mktemp('replies_root')
    tiny_replies.write_root(root)
    return root


@pytest.fixture(scope='session')
def retriever_run(replies_root, tmp_path_factory) -> pathlib.Path:
    """A workdir of `tiny_replies.tiny_config`, with parameters that nothing was trained on."""
    import tiny_replies

    workdir = tmp_path_factory.mktemp('retriever_run') / 'run'
    tiny_replies.write_run(workdir, tiny_replies.tiny_config(replies_root))
    return workdir


@pytest.fixture(scope='module')
def browser():
    """A real Chromium; where there is none, a test of it is skipped."""
    import chromium

    with chromium.launched() as opened:
        yield opened


@pytest.fixture
def open_page(browser):
    """A function that opens a file as a new user; no page may say anything in the console."""
    import chromium

    said, contexts = [], []

    def open_(path: pathlib.Path, viewport: dict[str, int], **settings):
        contexts.append(browser.new_context(viewport=viewport, **settings))
        return chromium.open_file(contexts[-1], path, said)

    yield open_
    for context in contexts:
        context.close()
    assert not said


@pytest.fixture(scope='session')
def dev_data() -> pathlib.Path:
    """The folder of real development data that XLBENCH_DEV_DATA names."""
    folder = os.environ.get('XLBENCH_DEV_DATA', '')
    if not folder or not pathlib.Path(folder).is_dir():
        pytest.skip('needs real data: set XLBENCH_DEV_DATA to a folder of it')
    return pathlib.Path(folder)


@pytest.fixture(scope='session')
def dev_model():
    """A function from a name to the folder of a real model below XLBENCH_DEV_MODELS."""

    def find(name: str) -> pathlib.Path:
        folder = pathlib.Path(os.environ.get('XLBENCH_DEV_MODELS', ''), name)
        if 'XLBENCH_DEV_MODELS' not in os.environ or not folder.is_dir():
            pytest.skip(f'XLBENCH_DEV_MODELS names no folder with {name}')
        return folder

    return find


@pytest.fixture(scope='session')
def golden(dev_data):
    """A function from a name prefix to the golden cases recorded from the official code."""
    cases = []
    for name in ('golden.json', 'golden2.json'):
        path = dev_data.parent / 'specs' / name
        if not path.is_file():
            pytest.skip(f'needs golden values of the official code beside the data: {path.name}')
        cases += json.loads(path.read_text(encoding='utf-8'))

    def select(prefix: str) -> list[dict]:
        chosen = [case for case in cases if case['name'].startswith(prefix)]
        assert chosen, f'no golden case starts with {prefix!r}'
        return chosen

    return select
