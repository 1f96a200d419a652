"""Tokenises tasks for training, once, and writes them to disk.

xlbench/prepare/command.py has the program; `--help` lists its flags.
"""

import sys

from xlbench.prepare.command import main
from xlbench.system import errors

if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
