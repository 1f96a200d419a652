"""Blocks that many configs share, as the plain dicts of a config: a config says what differs."""

from collections.abc import Callable
from typing import Any

from ml_collections import ConfigDict

from xlbench.benchmarks import RATES, Scenario, get, parse_task
from xlbench.config.flags import variant
from xlbench.settings import epochs
from xlbench.system import errors
from xlbench.system.files import Block, Setting

# Scores that choose the best checkpoint.
LOSS = 'dev/mean/loss'

TEXT_BASELINES = ('copy_input', 'best_constant', 'nearest_input')
TRANSLATION_BASELINES = ('copy_input', 'word_by_word', 'nearest_input')
SUMMARY_BASELINES = ('first_sentences', 'longest_utterance', 'best_constant', 'nearest_input')
REPLY_BASELINES = ('most_frequent', 'best_constant', 'nearest_input')


def choose(
    text: str,
    sizes: tuple[str, ...],
    scenario_of: Callable[..., Scenario],
    **defaults: str | tuple[str, ...] | None,
) -> tuple[Any, ...]:
    """Reads the scenario of a benchmark and the size from what follows the colon of --config.

    The benchmark's method `scenario` takes the keys of `defaults`, `corpus` as its task, besides
    `rate`, and those of the config's own, whose defaults are tuples; see `variant`.

    Returns:
      The scenario, the size, and the value of each key of the config's own.

    Raises:
      UserError: an unknown size, key, scenario, task, language or rate.
    """
    chosen = variant(text, sizes, **defaults)
    size, rate = chosen.pop('size'), chosen.pop('rate', RATES[0])
    own = [chosen.pop(key) for key, value in defaults.items() if isinstance(value, tuple)]
    if 'corpus' in chosen:
        chosen['task'] = chosen.pop('corpus')
    return scenario_of(chosen.pop('scenario'), **chosen).with_rate(rate), size, *own


def sample_data(vocabulary: str) -> dict[str, Setting]:
    """The embedded sample corpora."""
    return dict(root='data/sample', vocabulary=vocabulary, sample=True)


def fresh_model(family: str, **fields: Setting) -> dict[str, Setting]:
    """A model of a few million fresh parameters, without dropout, in float32."""
    small = dict(family=family, size='sample', vocab_size=0, dropout_rate=0.0, dtype='float32')
    return small | fields


def public_model(family: str, size: str, **fields: Setting) -> dict[str, Setting]:
    """A model that begins from public parameters, in half precision.

    `remat` 'dots' or 'full' take less memory, and more time.
    """
    public = dict(vocab_size=0, dropout_rate=0.1, dtype='bfloat16', remat='none')
    return dict(family=family, size=size) | public | fields


def brought_model(family: str, **fields: Setting) -> dict[str, Setting]:
    """A model that --config.model.from names, with its sizes and weights, in float32."""
    return dict(family=family, dtype='float32') | {'from': ''} | fields


def dual_encoder(**fields: Setting) -> dict[str, Setting]:
    """The fields of one encoder for both sides, whose vectors are means of length 1."""
    unit = dict(shared=True, pooling='mean', projection_dim=0, normalize=True, has_pooler=False)
    return dict(family='dual_encoder') | unit | fields


def epoch_steps(scenario: Scenario, batch_size: int) -> int:
    """The steps of an epoch of the scenario's official data, in batches without packing.

    Each task is rounded up by itself, as the parts of a curriculum do not share a batch.
    """
    steps = 0
    for name in map(parse_task, scenario.train):
        size = get(name.benchmark).official_size(name.task, scenario.split, name.source)
        if size is None:
            raise errors.UserError(f'{name.benchmark} publishes no size of {name.task}')
        steps += -(-size // batch_size)
    return steps


def unpacked(batch_size: int, lengths: dict[str, int], **options: Setting) -> dict[str, Setting]:
    """Batches with one example in each row, all of one shape unless `options` say otherwise."""
    rows = dict(batch_size=batch_size, lengths=lengths, packing=False, length_buckets=1)
    return rows | options


def generation(label_smoothing: float = 0.0, z_loss: float = 0.0) -> dict[str, Setting]:
    """The objective of models that write texts."""
    return dict(name='generation', label_smoothing=label_smoothing, z_loss=z_loss)


def language_model(loss_on: str = 'targets') -> dict[str, Setting]:
    """The objective of models without an encoder."""
    return dict(name='language_model', loss_on=loss_on, label_smoothing=0.0, z_loss=0.0)


def retrieval_by_cosine() -> dict[str, Setting]:
    """The objective of a dual encoder with vectors of length 1.

    Cosines lie between -1 and 1: without a scale no softmax over them gets sharp.
    """
    return dict(name='retrieval', loss='sym_paper', scale=20.0, mask_duplicates=True, chunk_rows=0)


def adamw(learning_rate: float, warmup_steps: float, **options: Setting) -> dict[str, Setting]:
    """AdamW with a warm-up, a linear decay to 0 and gradients of norm 1 at most."""
    common = dict(name='adamw', schedule='linear', clip_norm=1.0)
    return common | dict(learning_rate=learning_rate, warmup_steps=warmup_steps) | options


def evaluate(
    c: ConfigDict,
    scenario: Scenario,
    every: int | str,
    best: str,
    *,
    dev: Block | None = None,
    test: Block | None = None,
    **both: Setting,
) -> None:
    """Sets the evaluations of a config, its checkpoints, and the score that chooses the best one.

    The evaluation 'dev' runs `every` so many steps or epochs, and a checkpoint is saved with it. A
    higher score `best` is better, unless it is a loss. `dev` and `test` are options of the
    evaluation in training, which does not decode by default, and of the final one. The lengths are
    by default those of training.
    """
    if 'lengths' not in both:
        both['lengths'] = c.batches.lengths.to_dict()
    if c.objective.name in ('generation', 'language_model', 'multi_view'):
        dev = dict(decode=False) | dict(dev or {})
    c.evals = scenario.evals(every, dev=dev, test=test, **both)
    c.best.update(score=best, mode='min' if best.endswith('/loss') else 'max')
    epochs.put(c, 'checkpoints.every', every)
