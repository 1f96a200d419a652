"""Ends with a table of how the cases of each reader ended."""

from . import cases


def pytest_terminal_summary(terminalreporter):
    """A line for each reader."""
    if not cases.COUNTS:
        return
    write = terminalreporter.write_line
    terminalreporter.section('cases')
    write(f'{"reader":28}{"cases":>8}{"refused":>9}{"accepted":>10}{"slowest":>10}{"failures":>10}')
    for reader in cases.COUNTS:
        write(
            f'{reader.name:28}{reader.run:8}{reader.refused:9}{reader.accepted:10}'
            f'{reader.slowest:8.2f} s{len(reader.failures):10}'
        )
    write(f'{"all":28}{sum(reader.run for reader in cases.COUNTS):8}')
