"""Tiny prepared data as xlbench.prepare writes it, without TensorFlow, and tiny configs for it."""

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from unittest import mock

from ml_collections import ConfigDict

from xlbench.data import prepared, tokenizers
from xlbench.system.files import Json


def by_no_code():
    """Data that is written in this block, or in a function that this decorates, has no code."""
    return mock.patch.object(prepared.freshness, 'code_fingerprint', lambda name: None)


def train_vocabulary(
    root: pathlib.Path, texts: Iterable[str], size: int = 120, **ids: int
) -> tokenizers.Tokenizer:
    """Trains the SentencePiece model `sample` of a root; ids of special pieces are T5's."""
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_prefix=str(root / 'sample'), vocab_size=size,
        **{'pad_id': 0, 'eos_id': 1, 'unk_id': 2, 'bos_id': -1, **ids},
        character_coverage=1.0, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    (root / 'sample.vocab').unlink()
    return tokenizers.load('sample', str(root))


def changed(config: ConfigDict, overrides: Mapping[str, object]) -> ConfigDict:
    """Sets keys whose dots are written as double underscores: batches__batch_size=8."""
    with config.unlocked():
        config.update_from_flattened_dict({k.replace('__', '.'): v for k, v in overrides.items()})
    return config


def make_encoder_tiny(
    c: ConfigDict, root: pathlib.Path, lengths: Mapping[str, int], num_steps: int, **of_evals: Json
) -> None:
    """Makes an encoder's config of one stage small enough for seconds on a CPU."""
    c.data = dict(root=str(root), vocabulary='sample', sample=False)
    with c.unlocked():
        c.model.update(
            emb_dim=32, num_heads=2, head_dim=16, mlp_dim=64, num_layers=1, max_positions=32
        )
    c.batches.update(batch_size=16, lengths=lengths)
    (stage,) = c.stages.values()
    stage.num_steps = num_steps
    stage.optimizer.update(learning_rate=1e-2, warmup_steps=4 / num_steps)
    for name, every in (('dev', 20), ('test', 0)):
        c.evals[name].update(every=every, batch_size=16, lengths=lengths, **of_evals)
    c.log_every = 1


def write(
    root: pathlib.Path,
    task: str,
    split: str,
    records: Sequence[Mapping[str, Json]],
    *,
    name: str = 'sample',
    eos_id: int = 1,
    shard_examples: int = 60,
    **about: Json,
) -> prepared.Prepared:
    """Writes a split of a task, whose name ends with its languages.

    `about` is what the manifest says besides: vocabulary and metrics, at least."""
    source, target = task.split('_')[-2:]
    manifest = {
        'task': task, 'split': split, 'source_lang': source, 'target_lang': target,
        'features': {side: {'pad_id': 0, 'eos_id': eos_id} for side in ('inputs', 'targets')},
        'inputs': [], 'data': 'sample', 'skipped': [], **about,
    }  # fmt: skip
    place = prepared.folder(str(root), name, task, split)
    with (
        by_no_code(),
        prepared.Writer(place, manifest=manifest, shard_examples=shard_examples) as writer,
    ):
        writer.write_batch(records)
    return prepared.open_task(str(root), name, task, split)


def write_pairs(
    root: pathlib.Path,
    tokenizer: tokenizers.Tokenizer,
    task: str,
    split: str,
    pairs: Sequence[tuple[str, str]],
    *,
    about: dict[str, Json],
    shard_examples: int,
    fields: Sequence[dict[str, Json]] = (),
) -> None:
    """Writes a split of (input, target) texts; `fields` are what each record holds besides."""
    ids = [
        [[*row.tolist(), tokenizer.eos_id] for row in tokenizer.encode_batch(side)]
        for side in zip(*pairs, strict=True)
    ]
    records = [
        {
            'inputs': inputs, 'targets': targets, 'inputs_pretokenized': text,
            'targets_pretokenized': answer, **more,
        }
        for (text, answer), inputs, targets, more in zip(
            pairs, *ids, fields or [{}] * len(pairs), strict=True
        )
    ]  # fmt: skip
    about = {'vocabulary': tokenizer.manifest(), **about}
    write(
        root, task, split, records, eos_id=tokenizer.eos_id, shard_examples=shard_examples, **about
    )
