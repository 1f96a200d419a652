"""Prepared data of made-up pairs of texts as xlbench.prepare writes it, without TensorFlow."""

import pathlib
from collections.abc import Iterable, Sequence

import sentencepiece

from xlbench.data import prepared, tokenizers
from xlbench.system.files import Json


def train_vocabulary(root: pathlib.Path, texts: Iterable[str]) -> tokenizers.Tokenizer:
    """Trains the SentencePiece model `sample` of a root, with about 120 pieces."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_prefix=str(root / 'sample'),
        vocab_size=120,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
        character_coverage=1.0,
        hard_vocab_limit=False,
        minloglevel=2,
    )  # fmt: skip
    (root / 'sample.vocab').unlink()
    return tokenizers.load('sample', str(root))


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
    """Writes a split of a task.

    Args:
      root: of the data.
      tokenizer: of the texts.
      task: its name, which ends with its languages.
      split: its name.
      pairs: (input, target) texts.
      about: what the manifest says besides, the metrics at least.
      shard_examples: examples of a file.
      fields: what the record of each pair holds besides; () for nothing.
    """
    source, target = task.split('_')[-2:]
    manifest = {
        'task': task,
        'split': split,
        'features': {n: {'pad_id': 0, 'eos_id': tokenizer.eos_id} for n in ('inputs', 'targets')},
        'vocabulary': tokenizer.manifest(),
        'source_lang': source,
        'target_lang': target,
        'inputs': [],
        'data': 'sample',
        'skipped': [],
        **about,
    }
    ids = [
        [[*row.tolist(), tokenizer.eos_id] for row in tokenizer.encode_batch(side)]
        for side in zip(*pairs, strict=True)
    ]
    records = [
        {
            'inputs': inputs,
            'targets': targets,
            'inputs_pretokenized': text,
            'targets_pretokenized': answer,
            **more,
        }
        for (text, answer), inputs, targets, more in zip(
            pairs, *ids, fields or [{}] * len(pairs), strict=True
        )
    ]
    place = prepared.folder(str(root), 'sample', task, split)
    with prepared.Writer(place, manifest=manifest, shard_examples=shard_examples) as writer:
        writer.write_batch(records)
