"""Servers and programs of a test; and a set of hostile ones, which every client is given.

SERVERS, also as mirrors of downloads; PROGRAMS as engines of translation; TRACKERS.

with partners.serving(lambda request: request.send(b'all is well')) as address:
    ...
with partners.serving(partners.SERVERS['endless']) as address, partners.one_line(seconds=3):
    client(address)

A new client of a server gets a line in tests/fuzz/partners_test.py, where the hostile ones are
tried; a test there finds the modules that have none.
"""

import contextlib
import gzip
import http.server
import json
import threading
import time
import types

import pytest

from xlbench.system.errors import UserError


class Request(http.server.BaseHTTPRequestHandler):
    """A request with its body, and the ways to answer it."""

    behave = None  # Of the server's own class: called with the request.

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        with contextlib.suppress(OSError):  # The client has enough.
            type(self).behave(self)

    do_HEAD = do_POST = do_GET

    def send(self, content=b'', status=200, length=None, **headers):
        """Sends all of an answer; values that are no bytes become JSON."""
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header('Content-Length', str(len(data) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace('_', '-'), value)
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(data)

    def repeat(self, first, block, pause=0.005):
        """Sends bytes as they are, and then others for some seconds, or until the client leaves."""
        until = time.monotonic() + 5
        self.wfile.write(first)
        while time.monotonic() < until:
            self.wfile.write(block)
            time.sleep(pause)


@contextlib.contextmanager
def serving(behave):
    """The address of a server that behaves so to each request."""
    kind = type('Server', (Request,), {'behave': staticmethod(behave)})
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), kind) as server:
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f'http://127.0.0.1:{server.server_port}'
        finally:
            server.shutdown()


_OK = b'HTTP/1.1 200 OK\r\n'
_STEERS = '\x1b]0;mine\x07\x9b2J\u202e'
SERVERS = {
    'hangs': lambda request: time.sleep(5),
    'says nothing': lambda request: None,
    'speaks no HTTP': lambda request: request.wfile.write(b'\0\xff no HTTP\x1b]0;x\x07\r\n\r\n'),
    'drips its head': lambda request: request.repeat(_OK + b'X: ', b'x'),
    'has a head without end': lambda request: request.repeat(_OK, b'X: y\r\n' * 100, 0),
    'promises': lambda request: request.repeat(b'', b'HTTP/1.1 100 Continue\r\n\r\n'),
    'drips': lambda request: request.repeat(_OK + b'\r\n', b'x', 0.02),
    'drips when busy': lambda request: request.repeat(b'HTTP/1.1 503 Busy\r\n\r\n', b'x', 0.02),
    'drips behind its end': lambda request: request.repeat(
        _OK + b'Transfer-Encoding: chunked\r\n\r\n0\r\n', b'a: b\r\n'
    ),
    'overflows': lambda request: request.repeat(_OK + b'\r\n', bytes(1 << 16), 0),
    'has a vast answer': lambda request: request.send(bytes(1000), length=1 << 50),
    'packs': lambda request: request.send(gzip.compress(bytes(1 << 20)), Content_Encoding='gzip'),
    'leads in a circle': lambda request: request.repeat(
        b'HTTP/1.1 302 Found\r\nLocation: /again\r\n\r\n', bytes(1 << 10)
    ),
    'ends early': lambda request: request.send(bytes(1000), length=2000),
    'has no answer': lambda request: request.send(),
    'nests': lambda request: request.send(b'[' * 100_000),
    'has other text': lambda request: request.send(b'{"a": "\xff\xfe"}'),
    'steers': lambda request: request.send({'error': _STEERS}, status=400),
}
# Commands that an engine may name.
PROGRAMS = {
    'hangs': 'sleep 1000', 'leaves others': 'sleep 1000 & wait', 'says nothing': 'cat > /dev/null',
    'has empty answers': "sed 's/.*//'", 'overflows': 'yes', 'complains without end': 'yes >&2',
    'has other text': r"sed 's/.*/\xff/'", 'fails': 'exit 3', 'kills itself': 'kill -9 $$',
    'has more answers': 'sed p', 'steers': r"printf '\033]0;mine\007' >&2; exit 1",
}  # fmt: skip


def _hang(*_):
    time.sleep(5)


def _fail(*_):
    raise ConnectionError(_STEERS)


def _leave(*_):
    raise SystemExit(_STEERS)


# Methods of a tracker in place of those that do well.
TRACKERS = {
    f'{name} at its {place}': {method: work}
    for name, work in {'hangs': _hang, 'fails': _fail, 'leaves': _leave}.items()
    for place, method in {'start': 'start', 'rows': 'write', 'end': 'close'}.items()
} | {
    'says nothing': {'start': lambda *_: None},
    'steers': {'start': lambda *_: types.SimpleNamespace(identity='7', place=_STEERS)},
    'lies about its name': {
        'start': lambda *_: types.SimpleNamespace(identity='../x\n' * 1000, place='')
    },
}


@contextlib.contextmanager
def one_line(seconds, match=None, refused=UserError):
    """What is inside ends in time, with one line that steers no terminal."""
    begin = time.monotonic()
    with pytest.raises(refused, match=match) as caught:
        yield caught
    check_line(str(caught.value))
    assert time.monotonic() - begin < seconds


def check_line(text):
    """A line for a person: not empty, and nothing in it steers a terminal."""
    assert text and text.isprintable(), text
