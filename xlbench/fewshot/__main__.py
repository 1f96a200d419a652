r"""Runs a few-shot sweep: adapts a source model to each language, bucket and K.

  python -m xlbench.fewshot --config=configs/fewshot.py
  python -m xlbench.fewshot --config=configs/fewshot.py:mbert,task=xnli,methods=full+fc \
      --workdir=RUNS/fewshot_xnli --config.source_workdir=RUNS/xnli
  python -m xlbench.fewshot report RUNS/fewshot_xnli                      # tables and figures
  python -m xlbench.fewshot attention RUNS/marc --lang=de                 # table 5 of the paper

If it is interrupted, the same command continues where it was, and ends with the same results.csv.
The config file documents its settings; each of them can be set on the command line. --report=FOLDER
writes the tables and figures of `xlbench fewshot report` at the end. --dry_run only prints what the
command would do.
"""

import sys
from collections.abc import Sequence

from xlbench.config import commands
from xlbench.fewshot import command
from xlbench.system import errors

if __name__ == '__main__':  # A slip is answered before the imports below, which take seconds.
    if sys.argv[1:2] and sys.argv[1] in command.COMMAND.commands:
        sys.exit(errors.run_main(command.COMMAND.main, sys.argv))
    commands.check_first(command.read, sys.argv)

from xlbench.fewshot import report, sweep
from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.parallel import cluster
from xlbench.plan import dry_run
from xlbench.system import machine


def main(argv: Sequence[str]) -> None:
    """Runs a command line, the program's name first."""
    config, workdir, args = command.read(argv)
    machine.share_one_heap()  # Before jax has threads.
    joined = cluster.join()
    if args.dry_run:
        for line in (*sweep.in_advance(config, workdir, joined), dry_run.LAST):
            print(line)
        return
    cluster.keep_programs()
    sweep.sweep(config, workdir, joined)
    if args.report:
        print('\n'.join(report.write([Sweep(workdir)], args.report)))


if __name__ == '__main__':
    sys.exit(cluster.run_main(main, sys.argv))
