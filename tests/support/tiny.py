"""A tiny prepared data root and configs for it, for tests of whole runs, without TensorFlow."""

import contextlib
import json
import pathlib
import random
from collections.abc import Sequence
from unittest import mock

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import optax
import prepared_files
import references

from xlbench import models
from xlbench.configs import mtg_mt5
from xlbench.data import batches, features, prepared
from xlbench.parallel import partitioning
from xlbench.training import objectives, optimizers, tracking, train_step

MIXTURE = 'mtg_multi_qg'
QUESTIONS = ('mtg_qg_en_en', 'mtg_qg_de_de')
TITLES = ('mtg_tg_en_en', 'mtg_tg_de_de')
TASKS = (*QUESTIONS, *TITLES)
# Nothing here is a round number, so that no batch size divides it.
SIZES = {'rough_train': 53, 'train': 41, 'validation': 31, 'test': 33}
LENGTHS = {'inputs': 24, 'targets': 8}
_WORDS = {
    'en': 'when the old bridge opened many people walked over it in light rain to a market',
    'de': 'als die alte Brücke eröffnet wurde gingen viele Leute im leichten Regen zum Markt',
}
# Of eight devices; runs with the same mesh find each other's compiled programs.
ALL_AXES = dict(data=2, fsdp=2, tensor=2)
_FIRST = {'qg': {'en': 'who', 'de': 'wer'}, 'tg': {'en': 'news', 'de': 'neues'}}


def examples(task: str, split: str) -> list[tuple[str, str]]:
    """(input, target) texts; the target repeats a word of the input, so that it can be learnt."""
    _, kind, source, lang = task.split('_')
    rng = random.Random(f'{task} {split}')
    rows = []
    for _ in range(SIZES[split]):
        words = rng.choices(_WORDS[source].split(), k=rng.randint(2, 7))
        rows.append((f'<{lang}> {" ".join(words)}', f'{_FIRST[kind][lang]} {words[0]}'))
    return rows


@prepared_files.by_no_code()
def write_root(root: pathlib.Path, others: Sequence[str] = ()) -> None:
    """Trains a vocabulary; writes tasks, `others` that nothing is trained on, and the mixture."""
    texts = [text for task in TASKS for pair in examples(task, 'train') for text in pair]
    tokenizer = prepared_files.train_vocabulary(root, texts)
    for split in SIZES:
        for task in (*TASKS, *others):
            prepared_files.write_pairs(
                root, tokenizer, task, split, examples(task, split),
                about={'metrics': metrics(task)}, shard_examples=25,
            )  # fmt: skip
        rates = {task: float(SIZES[split]) for task in QUESTIONS}
        prepared.write_mixture(str(root), 'sample', MIXTURE, split, rates)


def metrics(task: str) -> list[dict]:
    """The metrics of a task, as a manifest names them."""
    return [
        {'metric': 'xlbench.metrics.rouge:MultilingualRouge', 'kwargs': {'lang': task[-2:]}},
        {'metric': 'xlbench.metrics.distinct:Distinct', 'kwargs': {}},
    ]


def tiny_config(root: pathlib.Path, **overrides) -> ml_collections.ConfigDict:
    """configs/mtg_mt5.py:sample on the tiny root, for seconds on a CPU; batches__batch_size=8."""
    c = mtg_mt5.get_config('sample')
    c.data = dict(root=str(root), vocabulary='sample', sample=False)
    c.model.update(
        emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32, num_encoder_layers=1,
        num_decoder_layers=1, dropout_rate=0.1,
    )  # fmt: skip
    c.batches.update(batch_size=8, lengths=LENGTHS)
    for stage, steps in zip(c.stages.values(), (7, 6), strict=True):
        stage.mixture, stage.num_steps = MIXTURE, steps
        stage.optimizer = dict(
            name='adamw',
            learning_rate=1e-2,
            schedule='linear',
            warmup_steps=2 / steps,  # A share, for tests of other lengths.
            clip_norm=1.0,
        )
    c.evals.dev.update(tasks=QUESTIONS, every=4, num_examples=20, batch_size=24, lengths=LENGTHS)
    c.evals.test.update(tasks=QUESTIONS, batch_size=40, lengths=LENGTHS)
    c.checkpoints.update(every=3, keep=1)
    c.log_every = 1
    return prepared_files.changed(c, overrides)


def brief_config(root: pathlib.Path, **overrides) -> ml_collections.ConfigDict:
    """`tiny_config` with one stage of 6 steps and few programs; no batch divides what is scored."""
    c = tiny_config(root, checkpoints__every=2, baselines=(), evals__dev__every=3)
    del c.stages['stage2']
    c.stages.stage1.num_steps = 6
    for block in c.evals.values():
        block.update(batch_size=16, lengths=dict(inputs=8, targets=8))
    return prepared_files.changed(c, overrides)


def write_config(path: pathlib.Path, config: ml_collections.ConfigDict) -> str:
    """Writes a config file that gives `config`; its path."""
    text = json.dumps(config.to_dict())
    path.write_text(
        'import json\n\nimport ml_collections\n\n\n'
        f'def get_config():\n    return ml_collections.ConfigDict(json.loads({text!r}))\n',
        encoding='utf-8',
    )
    return str(path)


def rows(workdir: pathlib.Path, kind: str = 'train') -> list[tuple[int, str, dict]]:
    """(step, name, values) of metrics.jsonl, without what depends on the clock."""
    found = []
    for line in (pathlib.Path(workdir) / 'metrics.jsonl').read_text().splitlines():
        row = json.loads(line)
        if row['kind'] == kind:
            timed = ('tokens_per_second', 'examples_per_second', 'input_wait', 'mfu')
            values = {key: v for key, v in row['values'].items() if key not in timed}
            found.append((row['step'], row['name'], values))
    return found


def results(workdir: pathlib.Path) -> dict[str, str]:
    """{path below eval/: content} of all result files; without the seconds that they took."""
    found = {}
    folder = pathlib.Path(workdir) / 'eval'
    for path in sorted(folder.rglob('*.json*')):
        text = path.read_text(encoding='utf-8')
        if path.name == 'metrics.json':
            content = json.loads(text)
            del content['seconds']
            text = json.dumps(content)
        found[str(path.relative_to(folder))] = text
    return found


def tiny_model(**overrides):
    """A T5 of one layer in each stack, 128 ids."""
    fields = dict(
        vocab_size=128, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32, num_encoder_layers=1,
        num_decoder_layers=1, dropout_rate=0.0,
    )  # fmt: skip
    return models.build('mt5', 'sample', **fields | overrides)


def tiny_retriever(**overrides):
    """A dual encoder of two layers, 128 ids."""
    fields = dict(
        vocab_size=128, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32, num_layers=2,
        max_positions=32, dropout_rate=0.0, attention_dropout_rate=0.0,
    )  # fmt: skip
    return models.build('dual_encoder', **fields | overrides)


def tiny_language_model(family='gpt2', **overrides):
    """A decoder of two layers, 128 ids."""
    fields = dict(
        vocab_size=128, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32, num_layers=2,
        max_positions=64, dropout_rate=0.0, attention_dropout_rate=0.0,
    )  # fmt: skip
    return models.build(family, 'sample', **fields | overrides)


def pair_batches(count: int, num_rows: int = 32, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Batches of made-up messages and replies: some replies are equal, the fifth row is empty."""
    rng = np.random.default_rng(seed)
    conventions = features.Conventions(pad_id=0, eos_id=1, decoder_start_id=0, vocab_size=128)

    def text(low: int, high: int) -> np.ndarray:
        return np.append(rng.integers(2, 128, rng.integers(low, high)), 1).astype(np.int32)

    replies = [text(1, 8) for _ in range(num_rows // 2)]
    found = []
    for _ in range(count):
        rows = [
            [{'inputs': text(2, 24), 'targets': replies[rng.integers(len(replies))]}]
            for _ in range(num_rows)
        ]
        rows[4] = []
        found.append(features.retrieval(rows, features.Layout(LENGTHS, conventions)))
    return found


def packed_batches(root: pathlib.Path, count: int, **options) -> list[dict[str, np.ndarray]]:
    """The first batches of the mixture: 8 rows, several examples in each."""
    tasks, rates = prepared.open_mixture(str(root), 'sample', MIXTURE, 'rough_train')
    options = dict(batch_size=8, lengths=LENGTHS, seed=0, prefetch=0) | options
    with batches.TrainBatches(tasks, rates, **options) as feed:
        return [next(feed) for _ in range(count)]


class _Stopped(Exception):
    pass


def train_until(step: int, config: ml_collections.ConfigDict, workdir: pathlib.Path) -> None:
    """Trains in this process until a step has been noted."""
    from xlbench import train

    write = tracking.Log.write

    def write_until(log, number, *rest):
        write(log, number, *rest)
        if number == step:
            raise _Stopped

    with mock.patch.object(tracking.Log, 'write', write_until), contextlib.suppress(_Stopped):
        train.train(config, str(workdir))


class Training:
    """A tiny model, its state, step and metrics on any mesh; `fresh`: as its own drawing has it."""

    def __init__(
        self,
        mesh: jax.sharding.Mesh,
        *,
        optimizer: dict | None = None,
        objective: dict | None = None,
        model: dict | None = None,
        trainable: tuple[str, ...] = ('.*',),
        fresh: bool = False,
        **options,
    ):
        self.mesh = mesh
        kinds = {'retrieval': tiny_retriever, 'language_model': tiny_language_model}
        kind = kinds.get((objective or {}).get('name'), tiny_model)
        self.model = kind(**model or {})
        self.objective = objectives.build(**objective or {})
        initialise = train_step.Initialiser(self.model, self.objective, mesh, None)
        self.shardings = initialise.shardings
        self.mask = optimizers.trainable_mask(initialise.shapes, trainable)
        if fresh:
            params = initialise(jax.random.key(0))
        else:
            params = jax.device_put(references.like(initialise.shapes), self.shardings)
        optimizer = optimizer or dict(name='adamw', weight_decay=0.0)
        tx, schedule = optimizers.build(**optimizer, schedule='constant', num_steps=10)
        tx = optax.chain(_keep_gradients(), tx)
        self.state = train_step.init_state(tx, params, self.mask)
        step = train_step.make_train_step(
            self.model, self.objective, tx, schedule, self.mask, **options
        )
        self.step = train_step.TrainStep(step, jax.random.key(1))
        self.metrics: list[dict] = []

    def run(self, numpy_batches) -> 'Training':
        """One step for each batch."""
        for batch in numpy_batches:
            placed = partitioning.put_batch(batch, self.mesh)
            self.state, metrics = self.step(self.state, placed)
            self.metrics.append(jax.device_get(metrics))
        return self

    @property
    def gradients(self) -> dict[str, np.ndarray]:
        """Of the last step, by parameter name."""
        return jax.device_get(self.state.opt_state[0])

    def losses(self) -> list[float]:
        """Per target token, of each step."""
        return [float(m['loss'] / m['weight']) for m in self.metrics]


def assert_close(one, other, rtol: float = 1e-4, atol: float | None = None) -> None:
    """Trees are near each other; `atol` is a share of an array's largest number, as sums cancel."""

    def close(path, left, right):
        floor = (rtol if atol is None else atol) * max(np.abs(left).max(), 1e-3)
        np.testing.assert_allclose(left, right, rtol=rtol, atol=floor, err_msg=str(path))

    jax.tree_util.tree_map_with_path(close, one, other)


def assert_same_training(one: Training, other: Training, rtol: float = 1e-4) -> None:
    """Two trainings have the same losses, sums and gradients."""
    np.testing.assert_allclose(one.losses(), other.losses(), rtol=1e-5)
    for name in ('weight', 'tokens', 'examples', 'positions', 'accuracy'):
        assert [m[name] for m in one.metrics] == [m[name] for m in other.metrics], name
    norms = [[m['grad_norm'] for m in training.metrics] for training in (one, other)]
    np.testing.assert_allclose(*norms, rtol=1e-4)
    assert_close(one.gradients, other.gradients, rtol)
    assert max(np.abs(g).max() for g in one.gradients.values()) > 1e-2


def _keep_gradients() -> optax.GradientTransformation:
    """Changes nothing; its state is the newest gradient."""
    return optax.GradientTransformation(
        lambda params: jax.tree.map(jnp.zeros_like, params),
        lambda gradients, state, params=None: (gradients, gradients),
    )
