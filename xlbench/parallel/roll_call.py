"""The roll call at the start of a run: who of its processes comes, and who does not.

Part of the protocol at the top of xlbench/parallel/peers.py. jax waits for all processes, too; but
when one does not come it ends the others with a stack trace that names nobody.
"""

import asyncio
import contextlib
import functools
import os
import socket
import time
from collections.abc import AsyncIterator, Callable

START_AGAIN = 75  # EX_TEMPFAIL of sysexits.h.
# Seconds that a process has to end by itself when another has ended; to save with START_AGAIN.
GRACE, SAVING = 5, 60
# Seconds after which a machine that answers nothing is lost.
DEAD = 20
_LONGEST = 1 << 24  # Bytes of a line: the places of thousands of processes.


async def listen(
    address: str, count: int, seconds: float, hear: Callable[[int, str | None], None]
) -> tuple[str, dict[int, asyncio.StreamWriter]]:
    """Calls the roll in process 0, which listens where jax will, a moment later.

    Args:
      address: host:port of this process.
      count: of processes.
      seconds: to wait for all of them.
      hear: called with the number of a process and a line of it, once all are there; None for the
        line when its connection has closed.

    Returns:
      '', or why the run cannot begin, which all that came are told; the connections by number.
    """
    port = int(address.rpartition(':')[2])
    here: dict[int, asyncio.StreamWriter] = {}
    roll: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = lines_of(reader)
        number, refusal = _greeting(await anext(lines, ''), count)
        if number in here:
            refusal = f'two processes say that they are process {number} of {count}'
        if refusal:
            writer.write(ending(refusal, START_AGAIN))
        if refusal or not number or roll.done():
            if number in here and not roll.done():
                roll.set_result(refusal)
            writer.close()
            return
        _keep_alive(writer)
        here[number] = writer
        if len(here) == count - 1:
            roll.set_result('')
        async for line in lines:
            hear(number, line)
        if here.pop(number, None) and roll.done():
            hear(number, None)

    try:
        server = await asyncio.start_server(serve, sock=_server(port), limit=_LONGEST)
    except OSError as error:
        return (
            f'process 0 cannot listen on port {port} ({os.strerror(error.errno)}): another run, '
            'or one that is about to end, has it; set XLBENCH_COORDINATOR to another port'
        ), {}
    try:
        why = await asyncio.wait_for(roll, seconds)
    except TimeoutError:
        why = _missing([i for i in range(1, count) if i not in here], count, address)
    server.close()  # Before the answer: who hears it turns to jax, on the same port.
    for writer in here.values():
        writer.write(ending(why, START_AGAIN) if why else b'all\n')
    if why:
        here.clear()  # That they go is no loss any more.
    return why, here


async def report(
    address: str, index: int, count: int, seconds: float
) -> tuple[str, AsyncIterator[str] | None, asyncio.StreamWriter | None]:
    """Tells process 0 that process `index` is there.

    Returns:
      '', or why the run cannot begin; the lines of process 0, and the connection to it.
    """
    host, _, port = address.rpartition(':')
    connect = functools.partial(socket.create_connection, (host.strip('[]'), int(port)), 10)
    deadline = time.monotonic() + seconds
    reason = ''
    while time.monotonic() < deadline:
        try:
            line = await asyncio.get_running_loop().run_in_executor(None, connect)
            reader, writer = await asyncio.open_connection(sock=line, limit=_LONGEST)
            writer.write(f'hello {count} {index}\n'.encode())
            lines = lines_of(reader)
            # Process 0 may have begun to wait later than this one.
            answer = await asyncio.wait_for(anext(lines, ''), seconds + 30)
            if answer == 'all':
                _keep_alive(writer)
                return '', lines, writer
            writer.close()
            if answer.startswith('end '):
                return answer.split(' ', 3)[3], None, None
        except OSError as failure:
            reason = f' ({failure.strerror or "no answer"})'
        await asyncio.sleep(0.2)
    return (
        f'process {index} of {count} waited {seconds:.0f} s for process 0 at {address}{reason}, '
        'which did not come: see whether it was started and how it ended, whether this machine '
        'may connect to that port, and XLBENCH_COORDINATOR'
    ), None, None


def ending(why: str, code: int) -> bytes:
    """Puts into a line that the run ends: code, seconds that a process has for it, and why."""
    return f'end {code} {SAVING if code == START_AGAIN else GRACE} {why}\n'.encode()


async def lines_of(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    """Reads whole lines until the other side has gone; one that is too long is no line of ours."""
    with contextlib.suppress(OSError, ValueError):
        while (line := await reader.readline()).endswith(b'\n'):
            yield line.decode(errors='replace').rstrip('\n')


def _greeting(line: str, count: int) -> tuple[int, str]:
    """Reads `hello COUNT I`: the number, 0 for a stranger; why it is none of a run of `count`."""
    match line.split():
        case ['hello', said, number] if said == str(count) and number.isdigit():
            return (int(number) if int(number) < count else 0), ''
        case ['hello', said, _]:
            return 0, f'process 0 knows of {count} processes, not of {said:.20}'
    return 0, ''


def _missing(numbers: list[int], count: int, address: str) -> str:
    return (
        f'{"process" if len(numbers) == 1 else "processes"} {", ".join(map(str, numbers))} of '
        f'{count} did not come to {address} in time: see whether each was started and how it '
        'ended, whether its machine may connect to that port, and whether XLBENCH_WAIT leaves it '
        'enough seconds'
    )


def _server(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(
                ('', port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024
            )
    return socket.create_server(('', port), backlog=1024)


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    """A machine that answers nothing closes the connection, too, after DEAD seconds."""
    line = writer.get_extra_info('socket')
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        'TCP_NODELAY': 1,
        'TCP_KEEPIDLE': DEAD // 4,
        'TCP_KEEPINTVL': DEAD // 4,
        'TCP_KEEPCNT': 3,
        'TCP_USER_TIMEOUT': DEAD * 1000,
    }
    for name, value in options.items():
        if hasattr(socket, name):  # Not on every system.
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
