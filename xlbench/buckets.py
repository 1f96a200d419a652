"""Checks and draws buckets of shots: `python -m xlbench.buckets check` and `sample`.

See xlbench/data/buckets.py for the formats; `--help` lists the flags.
"""

import sys

from xlbench import errors
from xlbench.data.buckets import main

__all__ = ['main']

if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
