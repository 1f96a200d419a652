r"""Compares the attention of [CLS] before and after adaptation (arXiv:2012.15682, table 5).

  python -m xlbench.fewshot.attention RUNS/marc --lang=de --shots=1 --bucket=0 --from=2 --to=1

RUNS/marc is the workdir of a sweep over texts (config.adapt.keep_params=1 keeps the parameters of
bucket 0 of every group). For the test examples that the source-trained model labels correctly (2)
and the model adapted to the bucket labels incorrectly (1), it shows which tokens [CLS] attends to
more, and which less, in the topmost layer after adaptation, averaged over all heads, in percentage
points. The paper does not say how it aggregates tokens. Here the changes at all positions of a
token in an example are added, and the mean is taken over all these examples, so that the changes of
all tokens add up to 0; a frequent token with a small change counts like a rare one with a large
change. A CSV file has every token, also with its change per position.

Without --from and --to, examples of all labels count. Attention is computed in float32.
"""

import sys
from collections.abc import Sequence

from xlbench import commands
from xlbench.fewshot import command_lines

if __name__ == '__main__':  # A slip is answered before the imports below, which take seconds.
    commands.check_first(command_lines.attention, sys.argv, __doc__)

from xlbench import errors, files, locks
from xlbench.errors import UserError
from xlbench.fewshot.analysis import attention
from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.reporting import render


def main(argv: Sequence[str]) -> None:
    """The command line, the program's name first."""
    flags = command_lines.attention(argv, __doc__)
    sweep = Sweep.read(flags.workdir)
    task, language = sweep.task, flags.lang
    languages = list(dict.fromkeys(row.language for row in sweep.rows))
    if language not in languages:
        raise errors.unknown(f'language of {flags.workdir}', language, languages)
    asked = (language, flags.shots, flags.bucket, flags.right, flags.wrong)
    output = flags.output or sweep.workdir / (
        f'attention-{task}-{language}-{flags.shots}-{flags.bucket}.csv'
    )
    files.check_own(output, 'a table of this program', heads=['token,id,change,'])
    with locks.file(output) if flags.output else locks.folder(sweep.workdir):
        found = attention.of_bucket(sweep, *asked)
        if found is None:
            raise UserError(
                'no test example gets these labels from the two models; leave out --from or --to'
            )
        attention.write_csv(output, found.made, found.names)
    pairs = sorted(found.pairs.items(), key=lambda pair: -pair[1])
    kinds = (f'{right} -> {wrong}: {n}' for (right, wrong), n in pairs)
    print(
        f'{task} {language}, {flags.shots}-shot, bucket {flags.bucket}: '
        f'{sum(found.pairs.values())} test '
        f'examples that only the adapted model gets wrong ({", ".join(kinds)})\n'
    )
    print(render.screen(attention.table(found.made, found.names, flags.top)))
    print(f'all tokens: {output}')


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
