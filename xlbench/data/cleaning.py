r"""Filters pairs of texts: normalised, each once, without those that break a rule.

  python -m xlbench.data clean --source_lang=en --target_lang=de --output=train.tsv \
      memory.tmx pairs.tsv.gz news.en,news.de

It reads TMX, tables with TABs (pairs.tsv:2,1 has the source text in its second column) and two
files whose lines belong together, all of them also packed (.gz). It says what each rule dropped.
"""

from collections.abc import Sequence

from xlbench.data import bitext
from xlbench.system.command_line import CommandLine, flag
from xlbench.system.flags import whole

FLAGS = (
    flag('inputs', 'FILE.tmx, FILE.tsv, FILE.tsv:2,1 or FILE,FILE', nargs='+', metavar='INPUT'),
    flag('--source_lang', 'ISO code, such as en', metavar='CODE', required=True),
    flag('--target_lang', 'ISO code, such as de', metavar='CODE', required=True),
    flag('--output', 'new file: source TAB target', metavar='FILE', required=True),
    flag('--max_length', 'most words of a text', bitext.Rules.max_length, metavar='N'),
    flag(
        '--max_ratio', 'largest ratio of both lengths, each plus five words',
        bitext.Rules.max_ratio, metavar='N', type=float,
    ),
    flag('--any_language', 'keep texts in other languages', False),
    flag('--workers', 'processes (default: 1)', 1, metavar='N', type=whole(1)),
)  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """The command line, the program's name first."""
    flags = CommandLine('data clean', __doc__, FLAGS).parse(argv[1:])
    rules = bitext.Rules(
        flags.source_lang,
        flags.target_lang,
        flags.max_length,
        flags.max_ratio,
        identify=not flags.any_language,
    )
    inputs = [bitext.Input.parse(text) for text in flags.inputs]
    report = bitext.clean(inputs, flags.output, rules, flags.workers)
    for line in report.lines():
        print(line)
    print(f'-> {flags.output}, and {flags.output}.about.json')
    return 0
