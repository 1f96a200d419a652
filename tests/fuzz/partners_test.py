"""What programs keep between two starts, and what others answer, while it is harmed.

Every client of a server is given all hostile servers of tests/support/partners.py, and every engine
that is a program all hostile programs.
"""

import hashlib
import json
import pathlib
import re
import shlex
import time
from concurrent import futures

import huggingface_hub.constants
import partners
import pytest
import workdir_files

from xlbench.benchmarks import RECIPES
from xlbench.data import corpora
from xlbench.huggingface import hub
from xlbench.reproduce import steps
from xlbench.reproduce.running import State
from xlbench.system import errors
from xlbench.system.errors import UserError
from xlbench.translate import engines, external, jobs
from xlbench.zoo import __main__ as zoo

from . import cases, mutate

ROOT = pathlib.Path(__file__).parents[2]
TEXTS = [f'text {i}' for i in range(30)]


def test_a_cache_of_translations(tmp_path):
    right = {text: f'Satz {text}' for text in TEXTS}
    with jobs.Memory(str(tmp_path), 'engine') as kept:
        kept.add(right)
    path = tmp_path / jobs.FILE
    whole = path.read_bytes()
    for case in cases.each('a cache of translations', 60):
        case.harm_file(path, whole)
        with case.run(), jobs.Memory(str(tmp_path), 'engine') as kept:
            found = kept.get(TEXTS)
            kept.add({'new': 'neu'})
        if case.accepted and not found.items() <= right.items():
            case.fail('it has other translations')


def test_the_state_of_reproduce(tmp_path):
    every = steps.steps(
        RECIPES['clidsum'], ['BART + Trans-WMT'], steps.Settings(str(tmp_path), 'sample')
    )
    state = State(str(tmp_path), every)
    for step in every:
        state.note(step, 3.0, finished=True)
    for case in cases.each('the state of reproduce', 30):
        step = every[case.rng.randrange(len(every))]
        path = state.folder / 'commands' / f'{step.name}.json'
        whole = path.read_bytes()
        case.harm_file(path, whole)
        with case.run(), cases.as_a_program():
            for one in every:
                state.is_done(one), state.record(one)
            state.note(step, 1.0, finished=False, failed='x')
        mutate.put(path, whole)


def test_a_page_of_the_zoo(tmp_path):
    run = workdir_files.write_workdir(tmp_path / 'run', lambda *_: 40.0)
    zoo.main([str(run), f'--output={tmp_path / "zoo.md"}'])
    whole = (tmp_path / 'zoo.md').read_bytes()
    assert zoo.of_page(whole, 'zoo.md')
    for case in cases.each('a page of the zoo', 60):
        case.said, data = mutate.harmed(whole, case.rng)
        with case.run():
            zoo.of_page(data, 'zoo.md')


def test_answers_of_a_server(monkeypatch):
    monkeypatch.setattr(external, '_PAUSES', ())
    whole = json.dumps({'translatedText': ['eins', 'zwei', 'drei']}).encode()
    with partners.serving(lambda request: request.send(data)) as address:
        engine = external.LibreTranslate(address)
        for case in cases.each('answers of a server', 60):
            case.said, data = mutate.harmed(whole, case.rng)
            with case.run():
                answers = engine.translate(TEXTS[:3], 'en', 'de')
            if case.accepted:
                _check(case, answers)


def test_answers_of_a_program(tmp_path):
    whole = ''.join(f'Satz {i}\n' for i in range(3)).encode()
    path = tmp_path / 'answers'
    script = f'/bin/sh -c {shlex.quote(f"cat > {tmp_path}/asked; cat {path}")}'
    for case in cases.each('answers of a program', 30):
        case.write(path, whole)
        with case.run():
            answers = external.Program(script).translate(TEXTS[:3], 'en', 'de')
        if case.accepted:
            _check(case, answers)


def _check(case: cases.Case, answers: list) -> None:
    """An answer is a text that says something, or a failure, and there is one for each text."""
    texts = [one for one in answers if not isinstance(one, engines.Failure)]
    if len(answers) != 3 or not all(isinstance(one, str) and one.strip() for one in texts):
        case.fail(f'no answers: {answers!r:.100}')


# -------------------------------------------------------------------- clients of hostile servers


def _download_of_a_file(address, folder):
    file = corpora.File('a.json', hashlib.sha256(b'').hexdigest(), 2000, 'https://here/a')
    _download(address, folder, files=[file])


def _download_of_an_archive(address, folder):
    archive = corpora.Archive('https://here/a.tar', 'x', 'x')
    _download(address, folder, archives=[archive])


def _download(address, folder, files=(), **fields):
    corpus = corpora.Corpus('made_up', 'xquad', 'a corpus', 'https://here', 'none', **fields)
    corpus.__dict__['files'] = list(files)
    try:
        list(corpora.get(corpus, str(folder), address))
    finally:
        left = [path for path in folder.rglob('*') if path.is_file() and path.suffix != '.tar']
        assert not left and sum(path.stat().st_size for path in folder.rglob('*.tar')) <= 100_000


def _translator(address, folder):
    # A busy machine may need more than a second for the answer that is too long.
    return external.LibreTranslate(address, timeout=60 if folder.name == 'overflows' else 1)


def _languages(address, folder):
    _translator(address, folder).check('en', 'de')


def _translations(address, folder):
    answers = _translator(address, folder).translate(['one', 'two'], 'en', 'de')
    assert len(answers) == 2
    raise UserError(' '.join(one.reason for one in answers))


def _hub(address, folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(huggingface_hub.constants, 'ENDPOINT', address)
        patch.setattr(huggingface_hub.constants, 'HF_HUB_OFFLINE', False)
        with pytest.raises(UserError, match='hub'):
            hub.check_name('made/up')
        if folder.name not in _SLOW:  # It is waited for as long as something comes.
            hub.fetch('made/up', ['config.json'], [('config.json',)])
        raise UserError('it is not there')


_SLOW = {
    'hangs', 'drips its head', 'promises', 'drips', 'drips when busy', 'drips behind its end',
    'overflows', 'leads in a circle',
}  # fmt: skip
# What they say, where it is known.
_STALLED = r'it sent less than 1,024 bytes in 1 s'
_DOWNLOADS = {
    'hangs': f'{_STALLED}|timed out', 'drips its head': _STALLED, 'promises': _STALLED,
    'drips behind its end': _STALLED, 'drips': _STALLED, 'packs': 'the server packs it .*gzip',
    'ends early': 'IncompleteRead', 'leads in a circle': 'it leads elsewhere 10 times',
}  # fmt: skip
_LATE = r'gave no answer in 1 tries: it took more than 1 s'
_SERVERS = dict.fromkeys(
    ('drips', 'drips its head', 'drips when busy', 'drips behind its end', 'promises'), _LATE
) | {'overflows': 'wrote more than 100,000 bytes'}
CLIENTS = {
    'xlbench.data.corpora': (
        (_download_of_a_file, _DOWNLOADS | {
            'overflows': 'more than the 2,000 bytes of the published file',
            'has a vast answer': 'has 1,125,899,906,842,624 bytes, and the published file 2,000',
        }),
        (_download_of_an_archive, _DOWNLOADS | {
            'overflows': 'XLBENCH_MAX_DOWNLOAD_BYTES',
            'has a vast answer': 'has 1,125,899,906,842,624 bytes.*XLBENCH_MAX_DOWNLOAD_BYTES',
        }),
    ),
    'xlbench.translate.external': ((_languages, _SERVERS), (_translations, _SERVERS)),
    'xlbench.huggingface.hub': ((_hub, {}),),
}  # fmt: skip


def test_every_client_is_given_the_hostile_servers():
    """Whoever asks a server is in the list; the libraries of trackers have threads of their own."""
    clients = r'^ *import (urllib\.request|requests|http\.client|httpx|huggingface_hub as hub)\b'
    found = {
        '.'.join(path.relative_to(ROOT).with_suffix('').parts)
        for path in (ROOT / 'xlbench').rglob('*.py')
        if re.search(clients, path.read_text(encoding='utf-8'), re.MULTILINE)
    }
    assert {name for name in found if not name.endswith('.web')} == CLIENTS.keys()


@pytest.mark.parametrize(
    ('client', 'known'),
    [row for rows in CLIENTS.values() for row in rows],
    ids=[client.__name__[1:] for rows in CLIENTS.values() for client, _ in rows],
)
def test_hostile_servers(client, known, tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, '_PATIENCE', 1)
    monkeypatch.setattr(external, '_PAUSES', ())
    monkeypatch.setattr(external, '_MOST_BYTES', 100_000)
    monkeypatch.setattr(hub, 'ASK', 0.1)
    monkeypatch.setenv('XLBENCH_MAX_DOWNLOAD_BYTES', '100000')

    def meet(name):
        folder, begin = tmp_path / name, time.monotonic()
        folder.mkdir()
        with partners.serving(partners.SERVERS[name]) as address:
            try:
                client(address, folder)
            except UserError as error:
                said = str(error)
            except Exception as error:
                said = str(errors.plain(error) or f'\n{error!r}')
            else:
                said = '\nnothing is wrong'
        line = said.isprintable() and said and len(said) < cases.LONGEST
        fits = re.search(known.get(name, ''), said) and time.monotonic() - begin < 20
        return '' if line and fits else f'{name}: {said!r}, {time.monotonic() - begin:.1f} s'

    at_once = 1 if client is _hub else len(partners.SERVERS)
    with futures.ThreadPoolExecutor(at_once) as pool:
        wrong = [one for one in pool.map(meet, partners.SERVERS) if one]
    assert not wrong, '\n'.join(wrong)


def test_a_download_that_goes_on_and_on_is_given_up(tmp_path, monkeypatch):
    """Also one that is never slow."""
    monkeypatch.setenv('XLBENCH_MAX_DOWNLOAD_SECONDS', '1')
    head = b'HTTP/1.1 200 OK\r\n\r\n'
    with (
        partners.serving(lambda request: request.repeat(head, bytes(1 << 10), 0.01)) as address,
        partners.one_line(4, 'is slow: at most 1 seconds are allowed'),
    ):
        _download_of_an_archive(address, tmp_path)


@pytest.mark.parametrize('name', partners.PROGRAMS)
def test_hostile_programs(name, monkeypatch):
    monkeypatch.setattr(external, '_MOST_BYTES', 1 << 16)
    command = f'/bin/sh -c {shlex.quote(partners.PROGRAMS[name])}'
    begin = time.monotonic()
    answers = external.Program(command, timeout=1.0).translate(['one', 'two'], 'en', 'de')
    assert len(answers) == 2 and time.monotonic() - begin < 20
    for answer in answers:
        partners.check_line(answer.reason)
