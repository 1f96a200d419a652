"""The scripts of this folder in their configurations, and how one of them is run."""

import datetime
import json
import math
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

import machine
import record

SPEED = pathlib.Path(__file__).resolve().parent
PROJECT = SPEED.parents[1]
VARIABLE = 'XLBENCH_TORCH_PYTHON'
MAX_LOAD = 0.2  # Cores at work beside a timing.
_LACKS = 'import importlib.util as u, sys; print(*(m for m in sys.argv[1:] if not u.find_spec(m)))'


@dataclass(frozen=True)
class Script:
    """A script in one of its configurations."""

    name: str  # Of the run.
    command: str  # The script without its ending, and its arguments.
    peers: tuple[str, ...] = ()  # Modules that the interpreter of the peers must have.
    option: str = ''  # How the script calls that interpreter; '' where it needs none.
    limit: int = 1800  # Seconds after which it is stopped.
    variables: tuple[str, ...] = ()  # Of the environment, where it finds real models and data.

    @property
    def script(self) -> str:
        """Its name without the configuration."""
        return self.command.split()[0]

    def line(self) -> str:
        """The command as one types it, without the interpreter of the peers."""
        name, _, arguments = self.command.partition(' ')
        return f'tools/speed/{name}.py {arguments}'.strip()


def _torch(name: str, command: str, *more: str) -> Script:
    """A script whose peer is PyTorch, with further modules."""
    return Script(name, command, ('torch', *more), '--torch_python')


# Cases of memory.py, and axes of growth_model.py.
MEMORY = {
    'small': 'small:adamw:none,small:adafactor:none',
    'base': 'base:adafactor:none',
    'large': 'large:adafactor:none',
}
GROWING = ('emb_dim', 'layers', 'rows', 'length', 'vocabulary', 'buckets', 'devices')
SCRIPTS = (
    _torch('train_step', 'train_step --rounds=5', 'transformers'),
    _torch('train_step_32k', 'train_step --rounds=5 --vocab_size=32128', 'transformers'),
    _torch('train_step_bf16', 'train_step --rounds=5 --dtype=bfloat16', 'transformers'),
    _torch(
        'train_step_32k_bf16',
        'train_step --rounds=5 --vocab_size=32128 --dtype=bfloat16',
        'transformers',
    ),
    *(Script(f'memory_{size}', f'memory --cases={cases}') for size, cases in MEMORY.items()),
    _torch('dual_encoder', 'dual_encoder --rounds=5', 'transformers'),
    _torch('dual_encoder_bf16', 'dual_encoder --rounds=5 --dtype=bfloat16', 'transformers'),
    Script('attention', 'attention'),
    _torch('beam_search', 'beam_search', 'transformers'),
    _torch('beam_search_32k', 'beam_search --vocab_size=32128', 'transformers'),
    _torch('fewshot_fc', 'fewshot'),
    _torch('fewshot_fc_pooler', 'fewshot --method=fc_pooler'),
    _torch('fewshot_loop', 'fewshot --method=loop --rounds=3', 'transformers'),
    _torch('fewshot_full', 'fewshot --method=full --rounds=3', 'transformers'),
    _torch('epoch_dialogues', 'epoch', 'transformers', 'accelerate'),
    _torch('epoch_long', 'epoch --lengths=long --examples=192', 'transformers', 'accelerate'),
    _torch('evaluation', 'evaluation', 'transformers', 'accelerate'),
    _torch('evaluation_start_up', 'evaluation --start_up', 'transformers', 'accelerate'),
    *(
        Script(
            f'parity_{work}',
            f'parity {work}',
            ('sentence_transformers', 'accelerate'),
            '--torch_python',
            variables=('XLBENCH_DEV_MODELS', 'XLBENCH_DEV_DATA'),
        )
        for work in ('topics', 'replies')
    ),
    Script('start', 'start'),
    Script('search', 'search', option='--faiss_python'),  # Without faiss it has another peer.
    _torch('preparation', 'preparation', 'datasets', 'transformers'),
    *(Script(f'growth_{axis}', f'growth_model {axis}') for axis in GROWING),
    Script('growth_data', 'growth_data --examples=1000,100000,10000000'),
    Script('growth_dumps', 'growth_dumps --comments=10000,100000'),
    Script('answers', 'answers --rounds=3'),
    Script('processes', 'processes --processes=2 --rounds=3'),
)


def chosen(only: str) -> list[Script]:
    """The scripts that `--only` names, as runs or as scripts; all, if it names none."""
    names = {script.name for script in SCRIPTS}
    known = names | {script.script for script in SCRIPTS}
    asked = only.split(',') if only else known
    for name in asked:
        if name not in known:
            raise SystemExit(f'no script is called {name}; choose from: {", ".join(sorted(known))}')
    return [x for x in SCRIPTS if x.name in asked or x.script in set(asked) - names]


def missing(script: Script, torch_python: str) -> str:
    """Why a script cannot run, or ''."""
    if unset := [name for name in script.variables if not os.environ.get(name)]:
        return f'{unset[0]} is not set'
    if not script.peers:
        return ''
    if not torch_python:
        return f'neither --torch_python nor {VARIABLE} names an interpreter'
    command = [torch_python, '-c', _LACKS, *script.peers]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        return f'the interpreter of the peers does not run: {error}'
    return f'{", ".join(answer.split())} missing' if answer.strip() else ''


def figures(script: Script, torch_python: str) -> tuple[list[record.Figure], str]:
    """(what a script measured, why it measured nothing or '')."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / 'rows.json'
        name, *arguments = shlex.split(script.command)
        command = [sys.executable, str(SPEED / f'{name}.py'), *arguments, f'--json={file}']
        if script.option and torch_python:
            command.append(f'{script.option}={torch_python}')
        # A group of its own, so that a script that is stopped takes its sides along.
        with subprocess.Popen(command, cwd=PROJECT, start_new_session=True) as process:
            try:
                code = process.wait(script.limit)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                if isinstance(error, subprocess.TimeoutExpired):
                    return [], f'it took longer than {script.limit} seconds'
                raise
        if code or not file.exists():
            return [], f'it ended with status {code}' + ('' if code else ' and wrote nothing')
        return json.loads(file.read_text(encoding='utf-8')), ''


def run(script: Script, torch_python: str) -> record.Run:
    """Runs a script when the machine is idle, or after a minute."""
    print(f'\n== {script.name}: {script.line()}', flush=True)
    rows: list[record.Figure] = []
    load = began = 0.0
    date = f'{datetime.datetime.now():%Y-%m-%d %H:%M}'
    if not (left_out := missing(script, torch_python)):
        load = machine.wait_until_idle(MAX_LOAD)
        if load > MAX_LOAD:
            print(f'warning: {load:.2f} cores are at work beside this script', flush=True)
        began = time.monotonic()
        rows, left_out = figures(script, torch_python)
    if left_out:
        print(f'left out: {left_out}', flush=True)
    return {
        'name': script.name,
        'command': script.line(),
        'date': date,
        'load': 0.0 if math.isnan(load) else round(load, 2),
        'seconds': round(time.monotonic() - began, 1) if began else 0.0,
        'versions': machine.versions(torch_python if script.option else ''),
        'rows': rows,
        'left_out': left_out,
    }
