"""A tiny prepared data root and configs for it, for tests of whole runs, without TensorFlow."""

import json
import pathlib
import random

import ml_collections
import sentencepiece

from configs import mtg_mt5
from xlbench import prepared, tokenizers

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
_FIRST = {'qg': {'en': 'who', 'de': 'wer'}, 'tg': {'en': 'news', 'de': 'neues'}}


def examples(task: str, split: str) -> list[tuple[str, str]]:
    """(input, target) texts; the target repeats a word of the input, so that it can be learnt."""
    _, kind, _, lang = task.split('_')
    rng = random.Random(f'{task} {split}')
    rows = []
    for _ in range(SIZES[split]):
        words = rng.choices(_WORDS[lang].split(), k=rng.randint(2, 7))
        rows.append((f'<{lang}> {" ".join(words)}', f'{_FIRST[kind][lang]} {words[0]}'))
    return rows


def write_root(root: pathlib.Path) -> None:
    """Trains a vocabulary, and writes every task and the mixture as xlbench.prepare would."""
    texts = [text for task in TASKS for pair in examples(task, 'train') for text in pair]
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
    tokenizer = tokenizers.load('sample', str(root))
    for split in SIZES:
        for task in TASKS:
            _write_task(str(root), tokenizer, task, split)
        rates = {task: float(SIZES[split]) for task in QUESTIONS}
        prepared.write_mixture(str(root), 'sample', MIXTURE, split, rates)


def _write_task(root: str, tokenizer: tokenizers.Tokenizer, task: str, split: str) -> None:
    lang = task.split('_')[-1]
    manifest = {
        'task': task,
        'split': split,
        'features': {n: {'pad_id': 0, 'eos_id': tokenizer.eos_id} for n in ('inputs', 'targets')},
        'vocabulary': tokenizer.manifest(),
        'source_lang': lang,
        'target_lang': lang,
        'metrics': [
            {'metric': 'xlbench.metrics.rouge:MultilingualRouge', 'kwargs': {'lang': lang}},
            {'metric': 'xlbench.metrics.distinct:Distinct', 'kwargs': {}},
        ],
        'inputs': [],
        'data': 'sample',
        'skipped': [],
    }
    pairs = examples(task, split)
    ids = [
        [[*row.tolist(), tokenizer.eos_id] for row in tokenizer.encode_batch(side)]
        for side in zip(*pairs, strict=True)
    ]
    place = prepared.folder(root, 'sample', task, split)
    with prepared.Writer(place, manifest=manifest, shard_examples=25) as writer:
        writer.write_batch(
            [
                {
                    'inputs': inputs,
                    'targets': targets,
                    'inputs_pretokenized': source,
                    'targets_pretokenized': target,
                }
                for (source, target), inputs, targets in zip(pairs, *ids, strict=True)
            ]
        )


def tiny_config(root: pathlib.Path, **overrides) -> ml_collections.ConfigDict:
    """configs/mtg_mt5.py:sample on the tiny root, small enough for seconds on a CPU.

    Args:
      root: what `write_root` has filled.
      **overrides: keys with dots written as double underscores: batches__batch_size=8.
    """
    c = mtg_mt5.get_config('sample')
    c.data = dict(root=str(root), vocabulary='sample', sample=False)
    c.model.update(
        emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32, num_encoder_layers=1,
        num_decoder_layers=1, dropout_rate=0.1,
    )  # fmt: skip
    c.batches.update(batch_size=8, lengths=LENGTHS)
    for stage, steps in zip(c.stages.values(), (7, 6), strict=True):
        stage.mixture, stage.num_steps = MIXTURE, steps
        stage.optimizer.update(warmup_steps=2, learning_rate=1e-2)
    c.evals.dev.update(tasks=QUESTIONS, every=4, num_examples=20, batch_size=24, lengths=LENGTHS)
    c.evals.test.update(tasks=QUESTIONS, batch_size=40, lengths=LENGTHS)
    c.checkpoints.every = 3
    c.log_every = 1
    with c.unlocked():
        c.update_from_flattened_dict({k.replace('__', '.'): v for k, v in overrides.items()})
    return c


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
