"""The processes of a run hear how the others end, and end with them."""

import concurrent.futures
import contextlib
import os
import pathlib
import socket
import subprocess
import threading
import time

import children
import pytest
import quick_compilation
import warm

from xlbench.parallel import peers
from xlbench.parallel.environment import VARIABLES
from xlbench.parallel.peers import Peers, Verdict

PROJECT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def three(monkeypatch):
    """Three Peers in this process; a function that closes the connection of one, as death does."""
    monkeypatch.setattr(Peers, '_give_up', lambda self: None)  # It would end this process.
    monkeypatch.setattr(peers.atexit, 'register', lambda *_: None)
    address = f'127.0.0.1:{children.free_port()}'
    members = [Peers(i, 3) for i in range(3)]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda member: member.call_roll(address, 60), members))

    def die(i):
        def abort():
            lines = [*members[i]._lines.values()]
            members[i]._lines.clear()  # What is dead tells nobody what it hears.
            for line in lines:
                line.transport.abort()

        members[i]._loop.call_soon_threadsafe(abort)

    yield members, die
    for member in members:
        member._loop.call_soon_threadsafe(member._loop.stop)
        member._thread.join()


def test_a_process_that_dies_is_named_to_all_others(three):
    members, die = three
    assert [member.verdict() for member in members] == [None] * 3
    die(2)
    lost = Verdict('lost process 2', 75)
    assert members[0].verdict(60) == members[1].verdict(60) == lost


def test_process_0_dies(three):
    members, die = three
    die(0)
    for member in members[1:]:
        assert member.verdict(60) == Verdict('lost process 0', 75)


@pytest.mark.parametrize('code', [1, 2, 75])
@pytest.mark.parametrize('number', [0, 1])
def test_the_first_that_ends_badly_gives_its_code(three, code, number):
    members, die = three
    others = [member for member in members if member.index != number]
    members[number]._say_goodbye(code)
    assert others[0].verdict(60) == others[1].verdict(60)
    die(number)
    die(2)
    time.sleep(0.2)
    assert others[0].verdict() == Verdict(f'process {number} ended with code {code}', code)


def test_those_who_are_done_wait_for_each_other(three):
    members, die = three
    done = [threading.Thread(target=member.end, args=(0,)) for member in members]
    for thread in done[1:]:
        thread.start()
    time.sleep(0.3)
    assert all(thread.is_alive() for thread in done[1:])
    done[0].start()
    for thread in done:
        thread.join(60)
        assert not thread.is_alive()
    die(1)  # That it goes now is no loss.
    die(0)
    assert [member.verdict(0.2) for member in members] == [None] * 3


def test_what_the_others_do(three):
    members, _ = three
    for i, member in enumerate(members):
        member.tell(f'step {i}')
    deadline = time.monotonic() + 60
    while members[1].ask(60)[2].text != 'step 2':
        assert time.monotonic() < deadline
    told = members[1].ask(60)
    assert {number: news.text for number, news in told.items()} == {0: 'step 0', 2: 'step 2'}
    assert all(0 <= news.age < 60 for news in told.values())
    assert {number: news.text for number, news in members[0].ask().items()} == {
        1: 'step 1',
        2: 'step 2',
    }
    members[2]._say_goodbye(0)  # Who has ended is behind nobody.
    while 2 in members[1].ask(60):
        assert time.monotonic() < deadline


def test_the_relay_hides_that_the_far_side_has_gone():
    with socket.create_server(('127.0.0.1', 0)) as server:
        address = Peers(1, 2).relay(f'127.0.0.1:{server.getsockname()[1]}')
        host, _, port = address.rpartition(':')
        near = socket.create_connection((host, int(port)))
        far, _ = server.accept()
        with near:
            for text in (b'ping', bytes(1 << 20)):
                threading.Thread(target=far.sendall, args=(text,)).start()
                received = b''
                while len(received) < len(text):
                    received += near.recv(1 << 16)
                assert received == text
            near.sendall(b'pong')
            assert far.recv(16) == b'pong'
            far.close()
            near.settimeout(0.5)
            with pytest.raises(TimeoutError):
                near.recv(1)


def test_the_relay_says_that_nobody_is_there_yet():
    host, _, port = Peers(1, 2).relay(f'127.0.0.1:{children.free_port()}').rpartition(':')
    with socket.create_connection((host, int(port)), timeout=60) as near:
        assert near.recv(1) == b''


# -------------------------------------------------------------------------------------------------
# Real processes, whose code os._exit gives.

PROGRAM = """
import os, sys, time
from xlbench.system import errors; from xlbench.parallel import cluster as processes

def main(argv):
    processes.join()
    index = int(os.environ['XLBENCH_PROCESS'])
    print('ready', flush=True)
    {does}

sys.exit(processes.run_main(main, sys.argv))
"""


def run(does: str, count: int = 2) -> list[subprocess.Popen]:
    with socket.create_server(('', 0)) as server:
        port = server.getsockname()[1]
    return [
        subprocess.Popen(
            [warm.python(), '-c', PROGRAM.format(does=does)],
            cwd=PROJECT,
            env=os.environ
            | dict(zip(VARIABLES, (f'127.0.0.1:{port}', str(count), str(i)), strict=True))
            | {'XLA_FLAGS': quick_compilation.xla_flags()},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(count)
    ]


def ends(started: list[subprocess.Popen]) -> list[tuple[int, str]]:
    """(exit code, standard error) of each process."""
    with contextlib.ExitStack() as stack:
        for process in started:
            stack.callback(process.kill)
        errors = [process.communicate(timeout=200)[1] for process in started]
        return [(process.returncode, text) for process, text in zip(started, errors, strict=True)]


def test_one_that_is_killed_takes_the_others_with_it():
    """None of them speaks to a device: only the connection tells that process 0 has died."""
    started = run('time.sleep(300)', count=3)
    for process in started:
        assert process.stdout.readline() == 'ready\n'
    started[0].kill()
    (code, _), *others = ends(started)
    assert code == -9
    assert others == [
        (75, f'error: process {i} of 3: lost process 0; exit code 75\n') for i in (1, 2)
    ]


def test_a_mistake_of_one_process_ends_all():
    (code, said), (other_code, other_said) = ends(
        run("if index == 0: raise errors.UserError('no such thing')\n    time.sleep(300)")
    )
    assert (code, said) == (2, 'error: no such thing\n')
    assert other_code == 2
    assert other_said == 'error: process 1 of 2: process 0 ended with code 2; exit code 2\n'


def test_a_bug_of_one_process_has_its_traceback():
    (code, said), (other_code, other_said) = ends(
        run('if index == 1: raise TypeError("no bug of ours")\n    time.sleep(300)')
    )[::-1]
    assert code == other_code == 1
    assert said.startswith('Traceback') and said.endswith('TypeError: no bug of ours\n')
    assert other_said == 'error: process 0 of 2: process 1 ended with code 1; exit code 1\n'


def test_a_process_that_is_late_at_the_end_is_waited_for():
    assert ends(run('time.sleep(3 * index)')) == [(0, '')] * 2
