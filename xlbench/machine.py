"""What this machine has; needs Python alone, as xlbench.doctor runs where packages are missing."""

import os
import pathlib


def memory() -> int | None:
    """Bytes of memory this process may use: the machine's, or a container's smaller limit."""
    try:
        total = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
    except (AttributeError, OSError, ValueError):
        return None
    for name in ('memory.max', 'memory/memory.limit_in_bytes'):  # cgroups 2 and 1
        try:
            text = pathlib.Path('/sys/fs/cgroup', name).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total
