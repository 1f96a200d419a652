"""The options of a decoder, as a block `decoding` of a config and as flags of a command line."""

import argparse
import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta

from xlbench.system.command_line import flag
from xlbench.system.errors import UserError
from xlbench.system.files import Setting
from xlbench.system.ranges import alternatives, check, check_keys, fields_of, read

# Fields that every method reads, and those that some do.
_SHARED = (
    'max_length', 'min_length', 'no_repeat_ngram', 'repetition_penalty', 'banned', 'forced_last',
)  # fmt: skip
_OF_METHODS = {
    ('beam', 'diverse_beam'): ('num_beams', 'length_penalty', 'early_stopping'),
    ('sample',): ('temperature', 'top_k', 'top_p', 'seed'),
    ('diverse_beam',): ('num_groups', 'diversity_penalty'),
}


@dataclasses.dataclass(frozen=True)
class Options:
    """The block of a decoder. Lengths count new tokens: the end, but not the start token.

    Attributes:
      method: 'greedy', 'sample', 'beam' or 'diverse_beam' (arXiv:1610.02424).
      max_length: most tokens of a text.
      min_length: fewest tokens of a text.
      num_beams: size of the beam ('beam', 'diverse_beam'); 1 is greedy.
      num_return: texts to return for each input, best first; at most num_beams, or any number of
        samples.
      length_penalty: divides the score of a text by length^length_penalty.
      early_stopping: True: stop when num_beams texts are finished; False: stop when no running text
        has a better score at its present length; 'never': stop only if no longer text could score
        better.
      temperature: divides the logits; only with method=sample.
      top_k: sample from the k likeliest tokens (and ties); 0: all.
      top_p: sample from the likeliest tokens with this total probability; 1: all.
      no_repeat_ngram: no n-gram of this length is repeated; 0: off. The start token counts.
      repetition_penalty: penalises tokens that the text or the start has: their logits (in beams,
        log-probabilities) are multiplied by it if negative, divided if positive (arXiv:1909.05858).
      banned: token ids or sequences that must not be generated.
      forced_last: end every text at max_length with the end token.
      num_groups: groups of equally many beams ('diverse_beam').
      diversity_penalty: subtracted from a token's log-probability for each beam of an earlier group
        that chooses it at the same step.
      seed: seed of the samples.
    """

    method: Literal['greedy', 'sample', 'beam', 'diverse_beam'] = 'greedy'
    max_length: Annotated[int, Meta(ge=1, le=2**20)] = 128
    min_length: Annotated[int, Meta(ge=0)] = 0
    num_beams: Annotated[int, Meta(ge=1, le=2**12)] = 1
    num_return: Annotated[int, Meta(ge=1, le=2**16)] = 1
    length_penalty: float = 1.0
    early_stopping: Literal['never'] | bool = False
    temperature: Annotated[float, Meta(gt=0)] = 1.0
    top_k: Annotated[int, Meta(ge=0)] = 0
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    no_repeat_ngram: Annotated[int, Meta(ge=0)] = 0
    repetition_penalty: Annotated[float, Meta(gt=0)] = 1.0
    banned: Sequence[int | Sequence[int]] = ()
    forced_last: bool = False
    num_groups: Annotated[int, Meta(ge=1)] = 1
    diversity_penalty: Annotated[float, Meta(ge=0)] = 0.0
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] = 0

    def __post_init__(self):
        for name, field in FIELDS.items():
            value = getattr(self, name)
            if not hasattr(value, 'aval'):  # What jax traces has no value: one program for many.
                value = value.item() if hasattr(value, 'item') else value  # NumPy's.
                check(field.type, value, f'decoding.{name}')
        banned = tuple((b,) if isinstance(b, int) else tuple(b) for b in self.banned)
        object.__setattr__(self, 'banned', banned)
        beams, groups = self.num_beams, self.num_groups
        for name, allowed, what in (
            ('min_length', self.min_length <= self.max_length, f'0 to {self.max_length}'),
            ('banned', all(banned), 'ids and sequences of ids that are not empty'),
            ('num_groups', beams % groups == 0, f'a divisor of num_beams={beams}'),
        ):
            if not allowed:
                raise UserError(f'decoding: {name}={getattr(self, name)!r}; allowed: {what}')
        most = {'greedy': 1, 'sample': self.num_return}.get(self.method, beams)
        if not 1 <= self.num_return <= most:
            raise UserError(
                f'decoding: num_return={self.num_return}; {self.method} gives 1 to {most} texts'
            )
        if self.method == 'diverse_beam' and groups == 1:
            raise UserError('decoding: diverse_beam needs num_groups of 2 or more; or take beam')
        for methods, names in _OF_METHODS.items():
            for name in names if self.method not in methods else ():
                if getattr(self, name) != FIELDS[name].default:
                    raise UserError(
                        f'decoding: {name} is for {" and ".join(methods)}, and the method is '
                        f'{self.method}. Set method, or leave {name} out.'
                    )

    def changed(self, changes: Mapping[str, Setting]) -> 'Options':
        """Changes some fields; the method follows from them where it is not among them.

        Example: Options(max_length=64).changed({'num_beams': 4}) ->
          Options('beam', max_length=64, num_beams=4)

        Another method starts from the defaults, but keeps the lengths and rules that every method
        has.
        """
        check_keys(changes, (), 'decoding', FIELDS)
        changes = dict(changes)
        method = changes.setdefault('method', self._method_for(changes))
        if method == self.method:
            return dataclasses.replace(self, **changes)
        return Options(**{name: getattr(self, name) for name in _SHARED} | changes)

    def _method_for(self, changes: Mapping[str, Setting]) -> str:
        if changes.get('num_groups', 1) > 1:
            return 'diverse_beam'
        if 'num_beams' in changes:
            if changes['num_beams'] == 1:
                return 'greedy'
            return self.method if self.method == 'diverse_beam' else 'beam'
        if self.method == 'greedy' and changes.keys() & {'temperature', 'top_k', 'top_p', 'seed'}:
            return 'sample'
        return self.method

    @property
    def eager(self) -> bool:
        """True if an example ends as soon as its pool is full."""
        return self.early_stopping is True

    @property
    def hopeful(self) -> bool:
        """True if the reachable score of a text is taken at max_length."""
        return self.early_stopping == 'never'

    @property
    def hypotheses(self) -> int:
        """Rows of the model's cache for each example."""
        return self.num_return if self.method == 'sample' else self.num_beams


FIELDS = fields_of(Options)


def make(block: Mapping[str, Setting] | None, max_length: int | None = None) -> Options:
    """Returns the checked options of a block `decoding`, with `max_length` if it has none."""
    block = block or {}
    check_keys(block, (), 'decoding', FIELDS)
    return Options(**({'max_length': max_length} if max_length else {}) | dict(block))


def given_options(args: argparse.Namespace) -> dict[str, Setting]:
    """The fields of `Options` that a command line with FLAGS names."""
    return {name: getattr(args, name) for name in FIELDS if name in args}


def _descriptions() -> dict[str, str]:
    """{field: its lines in the docstring of `Options`}."""
    lines = re.split(r'\n  (?=\w+: )', (inspect.getdoc(Options) or '').partition('Attributes:')[2])
    pairs = (line.partition(': ') for line in lines[1:])
    return {name: ' '.join(text.split()) for name, _, text in pairs}


def _reader(name: str) -> Callable[[str], Setting]:
    def parse(text: str) -> Setting:
        kind = FIELDS[name].type
        value = read(text, alternatives(kind), f'--{name}')
        check(kind, value, f'--{name}')
        return value

    return _ids if name == 'banned' else parse


def _ids(text: str) -> tuple[tuple[int, ...], ...]:
    """Token ids, with + between those of a sequence. Example: '7,8+9' -> ((7,), (8, 9))."""
    if not re.fullmatch(r'\d+([,+]\d+)*', text):
        raise argparse.ArgumentTypeError(f'{text!r} is not ids like 7,8+9')
    return tuple(tuple(int(i) for i in part.split('+')) for part in text.split(','))


# A flag for each field of `Options`, with the field's own description.
FLAGS = tuple(
    flag(
        f'--{field.name}', described.replace('%', '%%'), argparse.SUPPRESS,
        type=_reader(field.name), metavar=field.name.upper(), group='decoding',
    )
    for field, described in zip(dataclasses.fields(Options), _descriptions().values(), strict=True)
)  # fmt: skip
