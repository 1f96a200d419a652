r"""Imports a Hugging Face checkpoint, or exports a workdir.

  python -m xlbench.convert google/mt5-base RUNS/mt5                # hub name or folder -> workdir
  python -m xlbench.convert google/mt5-base RUNS/mt5 --extra_tokens='[summarize]'
  python -m xlbench.convert RUNS/mtg exported --dtype=bfloat16      # workdir -> folder
  python -m xlbench.convert RUNS/adapted adapter --lora=separate    # LoRA alone, for PEFT
  python -m xlbench.convert RUNS/adapters german --step=best:de     # one of several adapters

The workdir holds the parameters in float32 as checkpoint 0, config.json, and the tokenizer's files
in tokenizer/. The folder loads in transformers, with weights as safetensors, and gives the answers
of the run there: its README.md says how. xlbench.predict opens it as well.
"""

import contextlib
import pathlib
import sys
from collections.abc import Sequence

from xlbench.config import commands

if __name__ == '__main__':  # A slip is answered before the imports below, which take seconds.
    commands.check_first(commands.parse_convert, sys.argv)

from xlbench.inference.conversion import to_folder, to_workdir
from xlbench.system import errors, files
from xlbench.system.errors import UserError
from xlbench.training import checkpoints


def main(argv: Sequence[str]) -> None:
    """The command line, the program's name first."""
    args = commands.parse_convert(argv)
    target = pathlib.Path(args.target)
    target.parent.mkdir(parents=True, exist_ok=True)
    export = (pathlib.Path(args.source) / 'checkpoints').is_dir()
    for name in ('extra_tokens',) if export else ('step', 'dtype', 'lora'):
        if getattr(args, name) is not None:
            kind = 'workdir' if export else 'Hugging Face checkpoint'
            raise UserError(f'--{name} has no meaning for {args.source}, which is a {kind}')
    if export:
        name, _, adapter = (args.step or '').partition(':')
        step, dtype = checkpoints.find_step(args.source, name or 'best'), args.dtype or 'float32'
        lines = to_folder(args.source, target, step, dtype, args.lora, adapter)
    else:
        lines = to_workdir(args.source, target, (args.extra_tokens or '').split())
    for line in lines:
        print(line)
    there = []
    with contextlib.suppress(OSError):  # It is whole, even where it cannot be listed.
        there = files.names(target)
    print(f'wrote {target}: {", ".join(there)}')


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
