r"""Prints a script for shell completion of programs, flags, files and configs.

  xlbench completion bash > ~/.local/share/bash-completion/completions/xlbench
  xlbench completion zsh > ~/.zfunc/_xlbench     # a folder of $fpath
  xlbench completion fish > ~/.config/fish/completions/xlbench.fish

The script knows the flags of this version; write it again after an update.
"""

import argparse
import re
import runpy
import sys
from collections.abc import Sequence

import shtab

from xlbench import __main__ as command
from xlbench.config import config_files
from xlbench.config.checks import BLOCKS
from xlbench.settings.blocks import Run
from xlbench.settings.ranges import fields_of
from xlbench.system import errors
from xlbench.system.command_line import ArgumentParser, CommandLine, flag
from xlbench.system.machine import quietly

SHELLS = ('bash', 'zsh', 'fish')

# What `--config` takes: names of ours, and files.
_FUNCTIONS = {
    'bash': """
_xlbench_config_files() {
  compgen -W 'CONFIGS' -- "$1"
  compgen -f -X '!*.py' -- "$1"
  compgen -d -- "$1"
}
""",
    'zsh': """
_xlbench_config_files() {
  _alternative 'configs:config:(CONFIGS)' 'files:file:_files -g "*.py"'
}
""",
}
# Bash takes --config=FILE for three words.
_BASH_END = """
_xlbench() {
  local i cword=$COMP_CWORD words=()
  for i in "${!COMP_WORDS[@]}"; do
    if [[ ${COMP_WORDS[i]} != '=' ]]; then
      words+=("${COMP_WORDS[i]}")
    elif (( i == COMP_CWORD )); then
      words+=('')
    elif (( i < COMP_CWORD )); then
      (( cword -= 1 ))
    fi
  done
  local COMP_WORDS=("${words[@]}") COMP_CWORD=$cword
  _shtab_xlbench
}
complete -o filenames -F _xlbench xlbench
"""


class _Parser(BaseException):
    """Brings a program's parser to the caller; no program catches it."""


def script(shell: str) -> str:
    """The script for one of `SHELLS`."""
    root = argparse.ArgumentParser('xlbench')
    root.add_argument('--version', action='store_true', help='print the version')
    programs = root.add_subparsers()
    for name in command.PROGRAMS:
        parser = parser_of(name, '--help')
        if '--config' in parser._option_string_actions:
            _add_config(parser)
        _complete_files(parser)
        programs.add_parser(name, help=command.about(name))
        programs.choices[name] = parser
    functions = _FUNCTIONS.get(shell, '').replace('CONFIGS', ' '.join(config_files()))
    text = shtab.complete(root, shell, preamble=functions)
    if shell == 'zsh':  # An option whose value may stand behind =, too.
        text = re.sub(r'(?m)^(  "--[\w.]+)(?=\[.*\]:)', r'\1=', text)
    return text + _BASH_END if shell == 'bash' else text


def parser_of(program: str, *arguments: str) -> ArgumentParser:
    """Gets the parser of a program: starts it with arguments, and stops it before it parses."""

    def stop(parser: argparse.ArgumentParser) -> None:
        raise _Parser(parser)

    argv = sys.argv
    ArgumentParser.before_parsing, sys.argv = stop, [program, *arguments]
    try:
        with quietly():  # A few import TensorFlow, and those with a config ask for one.
            try:
                runpy.run_module(f'xlbench.{program}', run_name='__main__', alter_sys=True)
            except _Parser as asked:
                parser = asked.args[0]
    finally:
        ArgumentParser.before_parsing, sys.argv = None, argv
    for choices in commands_of(parser):
        for name, inner in choices.items():
            if inner.is_elsewhere:
                choices[name] = parser_of(program, name, '--help')
    return parser


def commands_of(parser: argparse.ArgumentParser) -> list[dict[str, ArgumentParser]]:
    """The commands of a program that has some, by their names: one dict, or none."""
    return [a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)]


def _add_config(parser: argparse.ArgumentParser) -> None:
    """Completes the config of a program that reads one, and adds its keys."""
    vars(parser._option_string_actions['--config'])['complete'] = {
        'bash': '_xlbench_config_files',
        'zsh': '_xlbench_config_files',
        'fish': f"(printf '%s\\n' {' '.join(config_files())}; __fish_complete_suffix .py)",
    }
    parser._remove_action(parser._option_string_actions.pop('--config.KEY'))
    for prefix, block in {'': Run, **{f'{key}.': block for key, block in BLOCKS.items()}}.items():
        for key in fields_of(block):
            parser.add_argument(f'--config.{prefix}{key}', help=f'sets config.{prefix}{key}')


def _complete_files(parser: argparse.ArgumentParser) -> None:
    """Completes texts as files, unless there are choices; most of them are files or folders."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _complete_files(inner)
        elif action.nargs != 0 and not action.choices and not hasattr(action, 'complete'):
            vars(action)['complete'] = shtab.FILE


def main(argv: Sequence[str]) -> None:
    """The command line, the program's name first."""
    line = CommandLine('completion', __doc__, (flag('shell', 'which one', choices=SHELLS),))
    print(script(line.parse(argv[1:]).shell), end='')


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
