"""A relay to jax's coordination service that hides when process 0 has gone.

jax aborts a process within a millisecond when its connection to process 0 closes, with a stack
trace (xlbench/parallel/peers.py has what it does). Through the relay it hears nothing of that, so
that the process can say in one line what was lost, and end with the right code.
"""

import asyncio
import contextlib


async def relay(address: str) -> str:
    """Relays connections to host:port; gives the address of this machine at which it does so."""
    host, _, port = address.rpartition(':')
    # Connections stay open when the far side has gone, and nobody hears of it; those that nothing
    # refers to would be closed.
    kept: list[asyncio.StreamWriter] = []

    async def accept(near: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        try:
            far, requests = await asyncio.open_connection(host.strip('[]'), int(port))
        except OSError:  # Not there yet; who asked asks again.
            answers.close()
            return
        kept.append(answers)
        await asyncio.gather(_pump(near, requests, last=True), _pump(far, answers, last=False))

    server = await asyncio.start_server(accept, '127.0.0.1', 0)
    return f'127.0.0.1:{server.sockets[0].getsockname()[1]}'


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, last: bool) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
        if last:
            sink.write_eof()
