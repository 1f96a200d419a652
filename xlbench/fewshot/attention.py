r"""What adapting to a bucket makes the first token look at (arXiv:2012.15682, table 5).

  python -m xlbench.fewshot.attention RUNS/marc --lang=de --shots=1 --bucket=0 --from=2 --to=1

RUNS/marc is the workdir of a sweep over texts (config.adapt.keep_params=1 keeps the parameters of
bucket 0 of every group). Of the test examples that the source-trained model labels right (2) and
the model adapted to the bucket wrong (1), it shows which tokens [CLS] attends to more, and which
less, in the topmost layer after adapting: all heads averaged, in percent points. The paper does not
say how it adds up tokens. Here the changes at all places of a token in an example are added, and
the mean is taken over all those examples, so that the changes of all tokens add up to 0; a frequent
token with a small change counts like a rare one with a large change. A CSV has every token, also
with its change at a single place.

Without --from and --to, examples of all labels count. Attention is computed in float32.
"""

import collections
import dataclasses
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from xlbench import commands
from xlbench.fewshot import command_lines

if __name__ == '__main__':  # A slip is answered before the imports below, which take seconds.
    commands.check_first(command_lines.attention, sys.argv, __doc__)

import jax
import numpy as np
from flax import traverse_util

from xlbench import config as config_lib, errors, files, locks, runs
from xlbench.benchmarks import topics
from xlbench.data import features, prepared, tokenizers
from xlbench.errors import UserError
from xlbench.fewshot.results import Row, Sweep
from xlbench.models import bert
from xlbench.reporting import render
from xlbench.training import checkpoints
from xlbench.training.objectives.classification import type_ids

BATCH_SIZE = 32
# `Row.key` behind the task, as config.json of kept parameters has it.
_KEY = ('language', 'shots', 'method', 'start', 'learning_rate', 'bucket', 'seed')


@dataclasses.dataclass(frozen=True)
class Change:
    """How the attention to one token changes.

    Attributes:
        token: Its id.
        change: Percent points of an example's attention, summed over the token's places, the mean
            over all examples.
        each: Percent points at one place, the mean over all places.
        places: How often it is there, in all examples.
        examples: How many it is in.
    """

    token: int
    change: float
    each: float
    places: int
    examples: int


def changes(tokens: np.ndarray, before: np.ndarray, after: np.ndarray) -> list[Change]:
    """The change of every token that occurs, the largest increase first.

    Args:
        tokens: [examples, length] ids, -1 on padding.
        before: [examples, length], the share of attention of each place, 0 to 1.
        after: [examples, length], likewise.
    """
    rows, columns = np.nonzero(tokens >= 0)
    found, number = np.unique(tokens[rows, columns], return_inverse=True)
    difference = 100.0 * (after - before)[rows, columns].astype(np.float64)
    total, places = np.bincount(number, difference), np.bincount(number)
    examples = np.bincount(np.unique(np.stack([number, rows]), axis=1)[0])
    order = np.lexsort((found, -total))
    return [
        Change(
            int(found[i]),
            float(total[i] / len(tokens)),
            float(total[i] / places[i]),
            int(places[i]),
            int(examples[i]),
        )
        for i in order
    ]


def spoilt(gold: np.ndarray, zero_shot: np.ndarray, adapted: np.ndarray) -> np.ndarray:
    """Numbers of the examples that zero-shot labels right and the adapted model wrong.

    Args:
        gold: [examples], labels.
        zero_shot: [examples].
        adapted: [examples].
    """
    return np.flatnonzero((zero_shot == gold) & (adapted != gold))


def first_attention(
    encoder: bert.Bert, params: Any, batches: Sequence[Mapping[str, np.ndarray]]
) -> np.ndarray:
    """[rows of all batches, length]: the first token's attention, the mean over heads."""

    @jax.jit
    def of_batch(params, batch):
        weights = encoder.apply(
            {'params': params},
            batch['encoder_input_tokens'],
            batch['encoder_segment_ids'],
            **type_ids(encoder, batch),
            method='first_attention',
        )
        return weights.mean(1)

    return np.concatenate([of_batch(params, batch) for batch in batches])


def kept(sweep: Sweep) -> dict[tuple, pathlib.Path]:
    """`Row.key` of each adaptation whose parameters are there -> their workdir."""
    paths = {}
    for path in sorted(sweep.workdir.glob('adapted/*/*/config.json')):
        about = files.read_json(path, dict[str, Any]).get('adapted')
        values = [about.get(name) for name in _KEY] if isinstance(about, dict) else [None]
        if all(isinstance(value, str | int | float) for value in values):
            paths[tuple(values)] = path.parent
    return {row.key: paths[row.key[1:]] for row in sweep.rows if row.key[1:] in paths}


def find(
    sweep: Sweep, task: str, language: str, shots: int, bucket: int
) -> tuple[Row, pathlib.Path]:
    """The adaptation of the whole model with the reported learning rate, and its workdir.

    Raises:
        UserError: it was not kept; with those that were.
    """
    rate, paths = sweep.learning_rate(task, language, shots), kept(sweep)
    there = [row for row in sweep.rows if row.key in paths and _is_plain(row)]
    for row in there:
        if (row.language, row.shots, row.bucket, row.learning_rate) == (
            language, shots, bucket, rate
        ):  # fmt: skip
            return row, paths[row.key]
    names = dict.fromkeys(f'{row.language} {row.shots}-shot bucket {row.bucket}' for row in there)
    raise UserError(
        f'{sweep.workdir} keeps no adapted model of {language} {shots}-shot bucket {bucket}; '
        + (f'it keeps {", ".join(names)}' if names else 'run it with config.adapt.keep_params=1')
    )


def _is_plain(row: Row) -> bool:
    return (row.method, row.start) == ('full', 'source')


def read_encoder(workdir: str) -> dict[str, Any]:
    """The parameters of the encoder alone, from the best checkpoint."""
    step = checkpoints.find_step(workdir, 'best')
    names = [n for n in checkpoints.param_shapes(workdir, step) if n.startswith('encoder/')]
    found = checkpoints.read_params(workdir, step, names)
    return traverse_util.unflatten_dict(found, sep='/')['encoder']


def token_names(tokenizer: tokenizers.Tokenizer, ids: Sequence[int]) -> list[str]:
    """What to call tokens, special ones as BERT does. Example: [102, 10226] -> '[SEP]', 'nicht'."""
    special = {
        tokenizer.bos_id: '[CLS]', tokenizer.eos_id: '[SEP]', tokenizer.unk_id: '[UNK]'
    }  # fmt: skip
    texts = tokenizer.decode_batch([[number] for number in ids])
    return [special.get(n) or text or f'[{n}]' for n, text in zip(ids, texts, strict=True)]


# ---------------------------------------------------------------------------------------------


def main(argv: Sequence[str]) -> None:
    """The command line, the program's name first."""
    flags = command_lines.attention(argv, __doc__)
    sweep = Sweep.read(flags.workdir)
    task, language = sweep.config['task'], flags.lang
    languages = list(dict.fromkeys(row.language for row in sweep.rows))
    if language not in languages:
        raise errors.unknown(f'language of {flags.workdir}', language, languages)
    row, workdir = find(sweep, task, language, flags.shots, flags.bucket)
    labels, gold = sweep.labels(task, language), sweep.gold(task, language)
    for label in filter(None, (flags.right, flags.wrong)):
        if label not in labels:
            raise errors.unknown(f'label of {task}', label, labels)
    predicted = sweep.predicted(row)
    numbers = [
        i
        for i in spoilt(gold, sweep.zero_shot(task, language), predicted).tolist()
        if flags.right in (None, labels[gold[i]]) and flags.wrong in (None, labels[predicted[i]])
    ]
    if not numbers:
        raise UserError(
            'no test example is labelled so by these two models; leave out --from, --to'
        )
    output = flags.output or sweep.workdir / (
        f'attention-{task}-{language}-{flags.shots}-{flags.bucket}.csv'
    )
    with locks.file(output) if flags.output else locks.folder(sweep.workdir):
        found, tokenizer = compare(sweep, task, language, numbers, workdir)
        names = token_names(tokenizer, [change.token for change in found])
        write_csv(output, found, names)
    pairs = collections.Counter((labels[gold[i]], labels[predicted[i]]) for i in numbers)
    kinds = (f'{right} -> {wrong}: {n}' for (right, wrong), n in pairs.most_common())
    print(
        f'{task} {language}, {flags.shots}-shot, bucket {flags.bucket}: {len(numbers)} test '
        f'examples that adapting spoils ({", ".join(kinds)}); change of attention from the first '
        'token, topmost layer, percent points'
    )
    print(table(found, names, flags.top))
    print(f'all tokens: {output}')


def compare(
    sweep: Sweep, task: str, language: str, numbers: Sequence[int], adapted: pathlib.Path
) -> tuple[list[Change], tokenizers.Tokenizer]:
    """The changes from the source model to an adapted one, over some test examples.

    Args:
        sweep: Both are from.
        task: Of the benchmark.
        language: ISO code.
        numbers: Of the test examples.
        adapted: Workdir of the adapted model.

    Raises:
        UserError: the prepared test set is not the one that the sweep predicted.
    """
    data, limit = sweep.source_data, sweep.config['adapt']['lengths']['inputs']
    name = topics.task_name(task, language)
    prepared.ensure([(name, 'test')], **data)
    test = prepared.open_task(data['root'], data['vocabulary'], name, 'test')
    gold = sweep.gold(task, language)
    examples = test.read(numbers)
    if len(test) != len(gold) or [e['targets'][0] for e in examples] != gold[numbers].tolist():
        raise UserError(f'the prepared test set {test.folder} is not that of the results')
    source = sweep.source_workdir
    vocabulary = test.manifest['vocabulary']['size']
    block = dict(config_lib.read_config(str(source)).model) | {'dtype': 'float32'}
    model = runs.build_model(block, vocabulary, test.manifest['labels'])
    encoder = bert.Bert(dataclasses.replace(model.config, matmul_dtype=None))
    rows = [*examples, *[[]] * (-len(examples) % BATCH_SIZE)]
    batches = [
        features.classification(
            rows[i : i + BATCH_SIZE],
            lengths={'inputs': limit},
            conventions=features.Conventions.of(test.manifest),
        )
        for i in range(0, len(rows), BATCH_SIZE)
    ]
    before, after = (
        first_attention(encoder, read_encoder(str(workdir)), batches)[: len(examples)]
        for workdir in (source, adapted)
    )
    tokens, segments = (
        np.concatenate([batch[f'encoder_{key}'] for batch in batches])[: len(examples)]
        for key in ('input_tokens', 'segment_ids')
    )
    tokenizer = tokenizers.of_workdir(source, config_lib.read_about(str(source)))
    return changes(np.where(segments > 0, tokens, -1), before, after), tokenizer


def table(found: Sequence[Change], names: Sequence[str], top: int) -> str:
    """The `top` tokens that gain most attention, and those that lose most, as text."""
    rows = list(zip(names, found, strict=True))
    gains = [row for row in rows[:top] if row[1].change > 0]
    losses = [row for row in rows[::-1][:top] if row[1].change < 0]
    lines = ['  change  places  examples  token']
    lines += [
        f'{change.change:+8.2f}  {change.places:6}  {change.examples:8}  {name}'
        for name, change in [*gains, *losses]
    ]
    return '\n'.join(lines)


def write_csv(path: str | pathlib.Path, found: Sequence[Change], names: Sequence[str]) -> None:
    """Every token, in the order given."""
    head = ('token', 'id', 'change', 'change_each', 'places', 'examples')
    rows = (
        (name, c.token, c.change, c.each, c.places, c.examples)
        for name, c in zip(names, found, strict=True)
    )
    files.write(path, render.comma_separated(head, rows, decimals=6))


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
