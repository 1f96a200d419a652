r"""Trains the same model on the same data with the usual tool and with xlbench: scores and costs.

    pip install torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0 accelerate
    python tools/speed/parity.py topics --torch_python=TORCH_ENV/bin/python --model=FOLDER
    python tools/speed/parity.py replies --torch_python=TORCH_ENV/bin/python --model=FOLDER

`topics` classifies sentences of SIB-200, against Trainer of transformers; `replies` is a dual
encoder of messages and replies of XDailyDialog, against sentence-transformers with its multiple
negatives. Both sides start from the encoder in FOLDER (by default all-minilm-l6-v2 below
XLBENCH_DEV_MODELS) and have the same examples, steps, batch, rate, schedule, decay and clipping;
they draw the order of the examples and dropout from their own seeds. Data is read below --data (by
default XLBENCH_DEV_DATA): sib200/eng_Latn, xdailydialog.

Each command is a process of its own, so that seconds and memory hold what a user waits for: all of
it, from the start of Python to the test score. The sides take turns, a seed each.
"""

import argparse
import csv
import gzip
import itertools
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import contest
import interleaved

TASKS = """from xlbench import pipeline

pipeline.register_classification_task(
    'parity_topics_en',
    files={'train': 'topics/train.jsonl', 'test': 'topics/test.jsonl'},
    text='text', label='label', lang='en',
)
pipeline.register_dialogue_tasks(
    'parity', 'en', files={'train': 'replies/train.txt', 'test': 'replies/test.txt'}
)
"""
CANDIDATES = 500  # The true reply among them is ranked.
MINI_LM = 'all-minilm-l6-v2'


class Work(NamedTuple):
    """One training: mixture and objective are xlbench's, score is what both sides are asked for."""

    mixture: str
    objective: str
    score: str
    peer: str
    steps: int
    batch_size: int
    rate: float


WORKS = {
    'topics': Work(
        'parity_topics_en', 'classification', 'accuracy', 'Trainer of transformers', 100, 16, 5e-5
    ),
    'replies': Work(
        'parity_retrieval_en_en', 'retrieval', 'mrr', 'sentence-transformers', 60, 64, 5e-5
    ),
}
LENGTH = 64  # Tokens of a text; no longer one is read whole.
WARM_UP, DECAY, CLIP = 0.1, 0.01, 1.0


def opened(path: pathlib.Path):
    """A text file, perhaps packed."""
    packed = path.with_name(path.name + '.gz')
    if packed.exists():
        return gzip.open(packed, 'rt', encoding='utf-8')
    return path.open(encoding='utf-8', newline='')


def write(folder: pathlib.Path, data: pathlib.Path) -> None:
    """Writes what both sides read, and the tasks of ours."""
    (folder / 'tasks').mkdir()
    (folder / 'tasks' / 'parity.py').write_text(TASKS, encoding='utf-8')
    for work in WORKS:
        (folder / 'data' / work).mkdir(parents=True)
    for split in ('train', 'test'):
        with opened(data / 'sib200' / 'eng_Latn' / f'{split}.tsv') as stream:
            rows = list(csv.DictReader(stream, delimiter='\t', quoting=csv.QUOTE_NONE))
        lines = [json.dumps({'text': row['text'], 'label': row['category']}) for row in rows]
        write_lines(folder / 'data' / 'topics' / f'{split}.jsonl', lines)
    pairs = list(dict.fromkeys(turns(data / 'xdailydialog' / 'en_dev_human.txt')))
    known = {reply for _, reply in pairs} | {message for message, _ in pairs}
    held_out, replies = [], set()
    for message, reply in turns(data / 'xdailydialog' / 'en_test_human.txt'):
        if reply not in replies and not {message, reply} & known:
            replies.add(reply)
            held_out.append((message, reply))
    random.Random(0).shuffle(held_out)
    for split, chosen in (('train', pairs), ('test', held_out[:CANDIDATES])):
        lines = [' __eou__ '.join(pair) for pair in chosen]
        write_lines(folder / 'data' / 'replies' / f'{split}.txt', lines)


def turns(path: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Each utterance of a dialogue, and the next."""
    with opened(path) as stream:
        for line in stream:
            texts = [text.strip() for text in line.split('__eou__') if text.strip()]
            yield from itertools.pairwise(texts)


def write_lines(path: pathlib.Path, lines: Sequence[str]) -> None:
    """Writes lines into a new file."""
    path.write_text(''.join(f'{line}\n' for line in lines), encoding='utf-8')


# ------------------------------------------------------------------------------------- their side


def their_score(args: argparse.Namespace) -> float:
    """Trains with the peer, and returns its score on the test set."""
    contest.begin_torch(args)
    return {'topics': trainer_score, 'replies': sentence_transformers_score}[args.work](args)


def trainer_score(args: argparse.Namespace) -> float:
    """The accuracy of Trainer's model."""
    import numpy as np
    import transformers

    texts = {
        split: [json.loads(line) for line in opened(args.folder / 'topics' / f'{split}.jsonl')]
        for split in ('train', 'test')
    }
    names = sorted({row['label'] for row in texts['train']})
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
    data = {
        split: [
            tokenizer(row['text'], truncation=True, max_length=LENGTH)
            | {'labels': names.index(row['label'])}
            for row in rows
        ]
        for split, rows in texts.items()
    }
    kind = transformers.AutoModelForSequenceClassification
    model = kind.from_pretrained(args.model, num_labels=len(names))
    trainer = transformers.Trainer(
        model, training_arguments(args), train_dataset=data['train'],
        data_collator=transformers.DataCollatorWithPadding(tokenizer),
    )  # fmt: skip
    trainer.train()
    found = trainer.predict(data['test'])
    return 100 * float(np.mean(found.predictions.argmax(-1) == found.label_ids))


def training_arguments(args: argparse.Namespace, kind=None, **more):
    """Trainer's settings: those of ours, and otherwise its own."""
    from transformers import TrainingArguments

    work = WORKS[args.work]
    return (kind or TrainingArguments)(
        str(args.folder / 'trainer'), per_device_train_batch_size=work.batch_size,
        max_steps=args.steps or work.steps, learning_rate=work.rate, weight_decay=DECAY,
        max_grad_norm=CLIP, lr_scheduler_type='linear', warmup_steps=WARM_UP, seed=args.seed,
        save_strategy='no', logging_strategy='no', **(contest.TRAINER | more),
    )  # fmt: skip


def sentence_transformers_score(args: argparse.Namespace) -> float:
    """The mean reciprocal rank of true replies among all, by cosine."""
    import datasets
    import numpy as np
    import sentence_transformers as st
    from sentence_transformers import losses

    pairs = {}
    for split in ('train', 'test'):
        lines = opened(args.folder / 'replies' / f'{split}.txt')
        pairs[split] = [line.strip().split(' __eou__ ') for line in lines]
    model = st.SentenceTransformer(args.model, device='cpu')
    model.max_seq_length = LENGTH
    names = ('message', 'reply')
    columns = dict(zip(names, map(list, zip(*pairs['train'], strict=True)), strict=True))
    settings = training_arguments(
        args, st.SentenceTransformerTrainingArguments, remove_unused_columns=True
    )
    st.SentenceTransformerTrainer(
        model, settings, train_dataset=datasets.Dataset.from_dict(columns),
        loss=losses.MultipleNegativesRankingLoss(model),
    ).train()  # fmt: skip
    left, right = (
        model.encode([pair[side] for pair in pairs['test']], normalize_embeddings=True)
        for side in (0, 1)
    )
    scores = left @ right.T
    ranks = 1 + (scores > np.diag(scores)[:, None]).sum(axis=1)
    return 100 * float(np.mean(1 / ranks))


# --------------------------------------------------------------------------------------- our side


def our_command(args: argparse.Namespace, folder: pathlib.Path, seed: int) -> list[str]:
    """The command line of ours."""
    work = WORKS[args.work]
    variant = (
        f'finetune:encoder,objective={work.objective},mixture={work.mixture},validation=,'
        f'steps={args.steps or work.steps},batch_size={work.batch_size},'
        f'inputs={LENGTH},targets={LENGTH}'
    )
    optimizer = dict(learning_rate=work.rate, warmup_steps=WARM_UP, weight_decay=DECAY)
    flags = [f'--config.stages.train.optimizer.{key}={value}' for key, value in optimizer.items()]
    if work.objective == 'retrieval':
        objective, test = '--config.objective', '--config.evals.test'
        flags += [f'{objective}.loss=softmax', f'{objective}.mask_duplicates=False']
        flags += [f'{test}.responses=', f'{test}.candidates={CANDIDATES}']
    return [
        sys.executable, '-m', 'xlbench.train', f'--config={variant}', f'--config.seed={seed}',
        f'--config.model.from={args.model}', f'--workdir={folder}/run-{seed}',
        '--config.baselines=()', *flags,
    ]  # fmt: skip


def our_score(args: argparse.Namespace, folder: pathlib.Path, seed: int) -> float:
    """The score that a run of ours left."""
    (found,) = (folder / f'run-{seed}' / 'eval').rglob('metrics.json')
    return json.loads(found.read_text(encoding='utf-8'))['scores'][WORKS[args.work].score]


# ------------------------------------------------------------------------------------------- turns


def measured(
    command: Sequence[str], folder: pathlib.Path, log: pathlib.Path
) -> tuple[float, float]:
    """The seconds and the MiB at most of a command; ends the script with its log if it fails."""
    tasks = {'XLBENCH_TASKS': str(folder / 'tasks')}
    start = time.perf_counter()
    with log.open('w', encoding='utf-8') as stream:
        process = subprocess.Popen(
            command, cwd=folder, stdout=stream, stderr=subprocess.STDOUT, env=os.environ | tasks
        )
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(log.read_text(encoding='utf-8')[-3000:])
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def compare(args: argparse.Namespace) -> list:
    """Trains with both sides in turn; returns the rows of the record."""
    work, seeds = WORKS[args.work], range(1, args.rounds + 1)
    scores: dict[str, list[float]] = {'torch': [], 'xlbench': []}
    seconds: dict[str, list[float]] = {'torch': [], 'xlbench': []}
    memory: dict[str, list[float]] = {'torch': [], 'xlbench': []}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write(folder, pathlib.Path(args.data))
        for seed in seeds:
            theirs = [
                args.torch_python, sys.argv[0], args.work, '--side=torch', f'--seed={seed}',
                f'--model={args.model}', f'--folder={folder}/data', f'--steps={args.steps}',
                f'--threads={args.threads}',
            ]  # fmt: skip
            theirs[1] = str(pathlib.Path(theirs[1]).resolve())
            commands = {'torch': theirs, 'xlbench': our_command(args, folder, seed)}
            for side in list(commands)[:: 1 if seed % 2 else -1]:
                log = folder / f'{side}-{seed}.log'
                took, most = measured(commands[side], folder, log)
                if side == 'torch':
                    score = json.loads(log.read_text(encoding='utf-8').splitlines()[-1])
                else:
                    score = our_score(args, folder, seed)
                for kept, number in ((scores, score), (seconds, took), (memory, most)):
                    kept[side].append(number)
                print(
                    f'seed {seed}: {side} {work.score} {score:.1f}, {took:.1f} s, {most:,.0f} MiB',
                    flush=True,
                )
    parts = [
        f'{side} {statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}'
        if len(values) > 1
        else f'{side} {values[0]:.1f}'
        for side, values in scores.items()
    ]
    most = ', '.join(f'{side} {max(values):,.0f} MiB' for side, values in memory.items())
    note = f'{work.score} of {len(seeds)} seeds: {", ".join(parts)}; at most {most}'
    print(note)
    interleaved.print_ratios(seconds)
    done = f'{args.steps or work.steps} steps of {work.batch_size} {args.work}, all of the command'
    return interleaved.rows(done, seconds, {'torch': work.peer}, note)


def main() -> None:
    models, data = (os.environ.get(f'XLBENCH_DEV_{name}', '') for name in ('MODELS', 'DATA'))
    parser = interleaved.parser(__doc__, ('torch',), rounds=3)
    parser.add_argument('work', choices=tuple(WORKS))
    parser.add_argument('--torch_python', default='', help='an interpreter that has the peers')
    parser.add_argument('--model', default=f'{models}/{MINI_LM}' if models else '')
    parser.add_argument('--data', default=data)
    parser.add_argument('--folder', type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument('--seed', type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument('--steps', type=int, default=0, help='0: those of the work')
    parser.add_argument('--threads', type=int, default=0, help="PyTorch's; 0: its own choice")
    args = parser.parse_args()
    if args.side:
        print(json.dumps(their_score(args)))
        return
    for name in ('torch_python', 'model', 'data'):
        if not getattr(args, name):
            parser.error(f'name it with --{name}')
    interleaved.write(args.json, compare(args))


if __name__ == '__main__':
    main()
