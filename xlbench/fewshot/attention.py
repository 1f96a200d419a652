r"""Compares the attention of [CLS] before and after adaptation (arXiv:2012.15682, table 5).

  python -m xlbench.fewshot attention RUNS/marc --lang=de --shots=1 --bucket=0 --from=2 --to=1

RUNS/marc is the workdir of a sweep over texts (config.adapt.keep_params=1 keeps the parameters of
bucket 0 of every group). For the test examples that the source-trained model labels correctly (2)
and the model adapted to the bucket labels incorrectly (1), it shows which tokens [CLS] attends to
more, and which less, in the topmost layer after adaptation, averaged over all heads, in percentage
points. The paper does not say how it aggregates tokens. Here the changes at all positions of a
token in an example are added, and the mean is taken over all these examples, so that the changes of
all tokens add up to 0; a frequent token with a small change counts like a rare one with a large
change. A CSV file in the workdir has every token.

Without --from and --to, examples of all labels count. Attention is computed in float32.
"""

import collections
import dataclasses
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlbench import config as config_lib
from xlbench.benchmarks import topics
from xlbench.data import features, tokenizers
from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.fewshot.results import Group, Row
from xlbench.reporting import render
from xlbench.reporting.tables import Cell, Column, Row as TableRow, Table
from xlbench.system import command_line, errors, files, locks
from xlbench.system.command_line import CommandLine, flag
from xlbench.system.errors import UserError

BATCH_SIZE = 32
FLAGS = (
    flag('workdir', 'of a finished sweep', type=pathlib.Path, metavar='WORKDIR'),
    flag('--lang', 'code of the language, such as de', required=True),
    flag('--shots', 'K', 1),
    flag('--bucket', 'number of the bucket', 0),
    flag('--from', 'only examples with this true label', dest='right', metavar='LABEL'),
    flag('--to', 'only examples with this wrong prediction', dest='wrong', metavar='LABEL'),
)


class Change(NamedTuple):
    """The change of attention to one token, a row of the CSV file."""

    token: str
    id: int
    # Percent points of an example's attention, summed over the token's places, the mean over all.
    change: float
    places: int  # How often it is there, in all examples.
    examples: int  # How many it is in.


def changes(
    tokens: np.ndarray, before: np.ndarray, after: np.ndarray, names: Mapping[int, str]
) -> list[Change]:
    """Returns the change of every token that occurs, the largest increase first.

    All arrays are [examples, length]: ids, with -1 on padding, and the share of attention of each
    place before and after, 0 to 1.
    """
    rows, columns = np.nonzero(tokens >= 0)
    ids, number = np.unique(tokens[rows, columns], return_inverse=True)
    difference = 100.0 * (after - before)[rows, columns].astype(np.float64)
    total, places = np.bincount(number, difference), np.bincount(number)
    examples = np.bincount(np.unique(np.stack([number, rows]), axis=1)[0])
    order = np.lexsort((ids, -total))
    found = (x[order].tolist() for x in (ids, total / len(tokens), places, examples))
    return [Change(names[token], token, *rest) for token, *rest in zip(*found, strict=True)]


def find(sweep: Sweep, language: str, shots: int, bucket: int) -> Row:
    """Returns the adaptation of the whole model with the reported learning rate.

    Raises:
      UserError: it was not kept; with those that were.
    """
    plain = (row for row in sweep.rows if row.group == Group(*row.group[:2]))
    kept = [row for row in plain if (row.adapted(sweep.workdir) / 'config.json').is_file()]
    asked = sweep.groups.get(Group(language, shots))
    for row in asked.rows if asked else ():
        if row.bucket == bucket and row in kept:
            return row
    names = dict.fromkeys(f'{row.language} {row.shots}-shot bucket {row.bucket}' for row in kept)
    raise UserError(
        f'{sweep.workdir} has no adapted model of {language} {shots}-shot bucket {bucket}; '
        + (f'it has {", ".join(names)}' if names else 'run it with config.adapt.keep_params=1')
    )


def names_of(ids: Sequence[int], tokenizer: tokenizers.Tokenizer) -> dict[int, str]:
    """Names tokens, special ones as BERT does. Example: 102 -> '[SEP]', 10226 -> 'nicht'."""
    texts = tokenizer.decode_batch([[token] for token in ids])
    named = {token: text or f'[{token}]' for token, text in zip(ids, texts, strict=True)}
    special = (tokenizer.bos_id, '[CLS]'), (tokenizer.eos_id, '[SEP]'), (tokenizer.unk_id, '[UNK]')
    return named | {token: name for token, name in special if token is not None}


def compare(
    sweep: Sweep, language: str, numbers: Sequence[int], adapted: pathlib.Path
) -> list[Change]:
    """Returns the changes from the source model of a sweep to an adapted one.

    They are over the test examples with these numbers; `adapted` is the workdir of the model.

    Raises:
      UserError: the prepared test set is not the one that the sweep predicted.
    """
    import jax  # For seconds, which --help and a slip need not wait.
    from flax import traverse_util

    from xlbench import runs
    from xlbench.models import bert
    from xlbench.training import checkpoints
    from xlbench.training.objectives.classification import about_tokens

    test = sweep.open_prepared(language, 'test')
    gold, predicted = sweep.gold(language), sweep.test_numbers(len(test))
    examples = test.read([predicted[i] for i in numbers if i < len(predicted)])
    if len(predicted) != len(gold) or [e['targets'][0] for e in examples] != gold[numbers].tolist():
        raise UserError(f'the prepared test set {test.folder} is not the one that was scored')
    source = sweep.source_workdir
    vocabulary = test.manifest['vocabulary']['size']
    block = dict(config_lib.read_config(str(source)).model) | {'dtype': 'float32'}
    model = runs.build_model(block, vocabulary, test.manifest['labels'])
    encoder: Any = bert.Bert(dataclasses.replace(model.config, matmul_dtype=None))
    rows: list[features.Example | list[features.Example]]
    rows = [*examples, *[[]] * (-len(examples) % BATCH_SIZE)]
    conventions = features.Conventions.of(test.manifest)
    layout = features.Layout({'inputs': sweep.max_tokens}, conventions)
    batches = [
        features.classification(rows[i : i + BATCH_SIZE], layout)
        for i in range(0, len(rows), BATCH_SIZE)
    ]

    @jax.jit
    def look(params, batch):  # [rows, length]: the first token's attention, the mean over heads.
        inputs = batch['encoder_input_tokens'], batch['encoder_segment_ids']
        about = about_tokens(encoder, batch)
        weights = encoder.apply({'params': params}, *inputs, **about, method='first_attention')
        return weights.mean(1)

    def of_workdir(workdir: str) -> np.ndarray:
        step = checkpoints.find_step(workdir, 'best')
        names = [n for n in checkpoints.param_shapes(workdir, step) if n.startswith('encoder/')]
        params = checkpoints.read_params(workdir, step, names)
        params = traverse_util.unflatten_dict(params, sep='/')['encoder']
        return np.concatenate([look(params, batch) for batch in batches])[: len(examples)]

    before, after = map(of_workdir, (str(source), str(adapted)))
    tokens, segments = (
        np.concatenate([batch[f'encoder_{key}'] for batch in batches])[: len(examples)]
        for key in ('input_tokens', 'segment_ids')
    )
    tokenizer = tokenizers.of_workdir(source, config_lib.read_about(str(source)))
    names = names_of(np.unique(tokens).tolist(), tokenizer)
    return changes(np.where(segments > 0, tokens, -1), before, after, names)


def of_bucket(
    sweep: Sweep, language: str, shots: int, bucket: int, right: str | None, wrong: str | None
) -> tuple[collections.Counter[tuple[str, str]], list[Change]]:
    """Compares the model of a bucket with the source model, over the test examples that it spoilt.

    `right` is the true label of all examples, and `wrong` the adapted model's; None is any.

    Returns:
      (True label, wrong prediction) -> number of examples, and the changes, the largest increase
      first; both empty if it spoilt no such example.
    """
    row = find(sweep, language, shots, bucket)
    labels, gold = sweep.test_set(language).labels, sweep.gold(language)
    for label in filter(None, (right, wrong)):
        errors.check_known(f'label of {sweep.task}', label, labels)
    predicted, zero_shot = sweep.predicted(row), sweep.zero_shot(language)
    pairs = {
        i: (labels[gold[i]], labels[predicted[i]])
        for i in np.flatnonzero((zero_shot == gold) & (predicted != gold)).tolist()
        if right in (None, labels[gold[i]]) and wrong in (None, labels[predicted[i]])
    }
    made = compare(sweep, language, list(pairs), row.adapted(sweep.workdir)) if pairs else []
    return collections.Counter(pairs.values()), made


def of_paper(sweep: Sweep) -> Table:
    """Makes table 5: German reviews of two stars that one shot of bucket 0 turns into one star.

    Where no review is turned so, all that the model of the bucket gets wrong instead.
    """
    what = 'of 2 stars that become 1'
    pairs, made = of_bucket(sweep, 'de', 1, 0, '2', '1')
    if not pairs:
        what, (pairs, made) = 'that become wrong', of_bucket(sweep, 'de', 1, 0, None, None)
    if not pairs:
        return Table('Change of attention', missing='the bucket makes no test example wrong')
    count = sum(pairs.values())
    note = f'{count} German test reviews {what} after adaptation to bucket 0 of 1 shot.'
    return dataclasses.replace(table(made, top=3), notes=(note,))


def table(made: Sequence[Change], top: int = 10) -> Table:
    """Returns the `top` tokens that gain most attention, and as many of those that lose most."""
    gains = [one for one in made[:top] if one.change > 0]
    losses = [one for one in made[::-1][:top] if one.change < 0]
    return Table(
        'Change of attention from the first token, topmost layer, percent points',
        (Column('percent points', 'change'), Column('occurs', 'places'),
         Column('occurs', 'examples')),
        tuple(
            TableRow(one.token, kind, (
                Cell(one.change, decimals=2, sign='+'),
                Cell(text=str(one.places)),
                Cell(text=str(one.examples)),
            ))
            for kind, part in (('gain', gains), ('loss', losses))
            for one in part
        ),
        'token',
    )  # fmt: skip


def main(argv: Sequence[str]) -> None:
    """Runs a command line, the program's name first."""
    flags = CommandLine('fewshot attention', __doc__, FLAGS).parse(argv[1:])
    sweep = Sweep(flags.workdir)
    task, language = sweep.task, flags.lang
    if topics.is_tagging(task):
        raise UserError(f'{flags.workdir} has the task {task}, which labels words instead of [CLS]')
    languages = list(dict.fromkeys(row.language for row in sweep.rows))
    errors.check_known(f'language of {flags.workdir}', language, languages)
    output = sweep.workdir / f'attention-{task}-{language}-{flags.shots}-{flags.bucket}.csv'
    with locks.folder(sweep.workdir):
        found, made = of_bucket(
            sweep, language, flags.shots, flags.bucket, flags.right, flags.wrong
        )
        if not found:
            raise UserError(
                'no test example gets these labels from the two models; leave out --from or --to'
            )
        files.write(output, render.comma_separated(Change._fields, made, decimals=6))
    kinds = (f'{right} -> {wrong}: {n}' for (right, wrong), n in found.most_common())
    print(
        f'{task} {language}, {flags.shots}-shot, bucket {flags.bucket}: {sum(found.values())} test '
        f'examples that only the adapted model gets wrong ({", ".join(kinds)})\n'
    )
    print(render.screen(table(made)))
    print(f'all tokens: {output}')


if __name__ == '__main__':
    command_line.former('fewshot.attention', sys.argv[1:])
