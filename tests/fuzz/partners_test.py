"""What programs keep between two starts, and what engines answer, while it is harmed."""

import http.server
import json
import pathlib
import random
import shlex
import threading

import pytest
import workdir_files

from xlbench.benchmarks.experiments import RECIPES
from xlbench.reproduce import steps
from xlbench.reproduce.state import State
from xlbench.tracking import unsent
from xlbench.translation import engines, memory, programs, servers
from xlbench.zoo import __main__ as zoo, page

from . import cases, mutate

TEXTS = [f'text {i}' for i in range(30)]


def test_a_cache_of_translations(tmp_path):
    right = {text: f'Satz {text}' for text in TEXTS}
    with memory.Memory(str(tmp_path), 'engine') as kept:
        kept.add(right)
    path = tmp_path / memory.FILE
    whole = path.read_bytes()
    with cases.reader('a cache of translations', 60) as reader:
        for seed in reader.seeds:
            _put(path, whole)
            said = mutate.file(path, random.Random(seed))
            with reader.case(seed, said) as case, memory.Memory(str(tmp_path), 'engine') as kept:
                found = kept.get(TEXTS)
                kept.add({'new': 'neu'})
            if case.accepted and not found.items() <= right.items():
                reader.fail(seed, said, 'it has other translations')


def test_rows_that_were_not_sent(tmp_path):
    kept, path = unsent.Unsent(tmp_path), tmp_path / unsent.FILE
    for step in range(8):
        kept.add('wandb', unsent.Row(step, {'loss': 1 / (step + 1)}, {'eval': [('a', 'b', 'c')]}))
    whole = path.read_bytes()
    with cases.reader('rows that were not sent', 40) as reader:
        for seed in reader.seeds:
            _put(path, whole)
            said = mutate.file(path, random.Random(seed))
            with reader.case(seed, said):
                kept.rows(5, lambda line: None)
                kept.replace('wandb', [])


def test_the_state_of_reproduce(tmp_path):
    every = steps.steps(
        RECIPES['clidsum'], ['BART + Trans-WMT'], steps.Settings(str(tmp_path), 'sample')
    )
    state = State(str(tmp_path), every)
    for step in every:
        state.note(step, 3.0, finished=True)
    with cases.reader('the state of reproduce', 30) as reader:
        for seed in reader.seeds:
            rng = random.Random(seed)
            step = every[rng.randrange(len(every))]
            path = state.folder / 'commands' / f'{step.name}.json'
            whole = path.read_bytes()
            said = mutate.file(path, rng)
            with reader.case(seed, said), cases.as_a_program():
                for one in every:
                    state.is_done(one), state.seconds(one), state.failure(one)
                state.note(step, 1.0, finished=False, failed='x')
            _put(path, whole)


def test_a_page_of_the_zoo(tmp_path):
    run = workdir_files.write_workdir(tmp_path / 'run', lambda *_: 40.0)
    zoo.main([str(run), f'--output={tmp_path / "zoo.md"}'])
    whole = (tmp_path / 'zoo.md').read_bytes()
    assert page.read(whole, 'zoo.md')
    with cases.reader('a page of the zoo', 60) as reader:
        for seed in reader.seeds:
            said, data = mutate.harmed(whole, random.Random(seed))
            with reader.case(seed, said):
                page.read(data, 'zoo.md')


class Answers(http.server.BaseHTTPRequestHandler):
    """Sends what it is given."""

    body = b''

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(200)
        self.send_header('Content-Length', str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)


@pytest.fixture
def address():
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f'http://127.0.0.1:{server.server_port}'
        server.shutdown()


def test_answers_of_a_server(address, monkeypatch):
    monkeypatch.setattr(servers, '_PAUSES', ())
    engine = servers.LibreTranslate(address)
    whole = json.dumps({'translatedText': ['eins', 'zwei', 'drei']}).encode()
    with cases.reader('answers of a server', 60) as reader:
        for seed in reader.seeds:
            said, Answers.body = mutate.harmed(whole, random.Random(seed))
            with reader.case(seed, said) as case:
                answers = engine.translate(TEXTS[:3], 'en', 'de')
            if case.accepted:
                _check(reader, seed, said, answers)


def test_answers_of_a_program(tmp_path):
    whole = ''.join(f'Satz {i}\n' for i in range(3)).encode()
    path = tmp_path / 'answers'
    script = f'/bin/sh -c {shlex.quote(f"cat > {tmp_path}/asked; cat {path}")}'
    with cases.reader('answers of a program', 30) as reader:
        for seed in reader.seeds:
            said, data = mutate.harmed(whole, random.Random(seed))
            path.write_bytes(data)
            with reader.case(seed, said) as case:
                answers = programs.Program(script).translate(TEXTS[:3], 'en', 'de')
            if case.accepted:
                _check(reader, seed, said, answers)


def _check(reader: cases.Reader, seed: int, said: str, answers: list) -> None:
    """An answer is a text that says something, or a failure, and there is one for each text."""
    texts = [one for one in answers if not isinstance(one, engines.Failure)]
    if len(answers) != 3 or not all(isinstance(one, str) and one.strip() for one in texts):
        reader.fail(seed, said, f'no answers: {answers!r:.100}')


def _put(path: pathlib.Path, whole: bytes) -> None:
    """Puts a file there, in place of what the case before has left."""
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    path.unlink(missing_ok=True)
    path.write_bytes(whole)
