r"""Times preparation against SeqIO's pipeline and against `datasets.map`, each side in turn.

    pip install torch transformers==5.23.0 datasets numpy     # into an environment of its own
    python tools/speed/preparation.py --torch_python=TORCH_ENV/bin/python

All sides read the same made-up texts: articles and their titles, as many words as MTG's have, or
messages and their replies as in MRS. The words are drawn by Zipf's law. xlbench reads, checks,
tokenises, and writes both texts and ids, as `python -m xlbench.prepare` does it. SeqIO's pipeline
of the same steps only makes its examples, or also writes them as the TFRecords of its cache, in
this one process in place of Beam's workers. `datasets.map` has its texts in
memory-mapped Arrow files already, and tokenises in two processes into another such file.

With a SentencePiece model xlbench has the ids of SeqIO; with a vocabulary of Hugging Face's form
those of `datasets.map`. How the sides take turns, and the ratios: interleaved.py. Processor time is
that of all processes and threads of a side.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import sys
import tempfile

import interleaved

PIECES = 8_000
WORD_TYPES = 100_000
MRS_PAIRS = 48_000_000  # arXiv:2106.02017, table 1: English pairs for training.
SENTENCEPIECE, SUBWORDS, WORDPIECES = 'pieces.model', 'unigram', 'wordpiece'
SHOWN = 20  # Examples whose ids the sides return.


def made_up(count: int, words: tuple[int, int], seed: int) -> list[tuple[str, str]]:
    """Pairs of texts with this number of words on average."""
    import numpy as np

    rng = np.random.default_rng(seed)
    sounds = [a + b for a in 'bdfgklmnprstvz' for b in ('a', 'e', 'i', 'o', 'u', 'an', 'ér', 'ö')]
    types = [''.join(rng.choice(sounds, n)) for n in rng.integers(1, 5, WORD_TYPES)]
    chances = 1 / np.arange(1, WORD_TYPES + 1)
    lengths = [np.clip(rng.lognormal(np.log(n), 0.5, count), 2, 300).astype(int) for n in words]
    drawn = iter(rng.choice(WORD_TYPES, int(np.sum(lengths)), p=chances / chances.sum()).tolist())

    def text(length: int) -> str:
        return ' '.join(types[next(drawn)] for _ in range(length)).capitalize() + '.'

    return [(text(a), text(b)) for a, b in zip(*(x.tolist() for x in lengths), strict=True)]


def write_files(folder: pathlib.Path, args: argparse.Namespace) -> None:
    """The texts in the layouts of MTG, MRS and `datasets`, and the vocabularies."""
    import tokenizers as hf

    from xlbench.data import tokenizers

    articles = made_up(args.pairs, (70, 12), seed=0)
    replies = made_up(args.pairs, (12, 8), seed=1)
    place = folder / 'mtg' / 'tg' / 'de'
    place.mkdir(parents=True)
    for side, texts in zip(('src', 'trg'), zip(*articles, strict=True), strict=True):
        (place / f'train.{side}').write_text('\n'.join(texts) + '\n', encoding='utf-8')
    place = folder / 'mrs' / 'train' / 'en'
    place.mkdir(parents=True)
    lines = [f'{message}\t{reply}\tx\tx\n' for message, reply in replies]
    (place / 'pairs.tsv').write_text(''.join(lines), encoding='utf-8')
    with (folder / 'articles.jsonl').open('w', encoding='utf-8') as file:
        for inputs, targets in articles:
            file.write(json.dumps({'inputs': inputs, 'targets': targets}) + '\n')
    sample = [text for pair in articles[:2000] for text in pair]
    model = tokenizers.train_sentencepiece(sample, size=PIECES)
    (folder / SENTENCEPIECE).write_bytes(model)
    (folder / SUBWORDS).mkdir()
    (folder / SUBWORDS / 'spiece.model').write_bytes(model)
    config = {'tokenizer_class': 'T5Tokenizer', 'extra_ids': 0}
    (folder / SUBWORDS / 'tokenizer_config.json').write_text(json.dumps(config))
    whole = tokenizers.load(str(folder / SUBWORDS), str(folder)).with_ends()
    (folder / 'tokenizer.json').write_text(whole, encoding='utf-8')
    trainer = hf.implementations.BertWordPieceTokenizer(lowercase=False)
    trainer.train_from_iterator(sample, vocab_size=PIECES, show_progress=False)
    (folder / WORDPIECES).mkdir()
    trainer.save_model(str(folder / WORDPIECES))
    config = {'tokenizer_class': 'BertTokenizer', 'do_lower_case': False}
    (folder / WORDPIECES / 'tokenizer_config.json').write_text(json.dumps(config))


def cpu_seconds() -> float:
    """Processor time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def xlbench_step(task: str, vocabulary: str):
    """A maker of steps that prepare a task as `python -m xlbench.prepare --force` does."""

    def make(args: argparse.Namespace):
        os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
        from xlbench import pipeline
        from xlbench.data import prepared
        from xlbench.prepare import jobs

        root, spec = args.folder, f'{args.folder}/{vocabulary}'
        pipeline.use_vocabulary(spec, root)

        def step():
            # As in a fresh process: no word is known from the step before.
            vars(pipeline.tokenizer()).pop('_encoder', None)
            began = cpu_seconds()
            job = jobs.Job(task, 'train')
            jobs.prepare_one(job, jobs.Shared.make(), root=root, vocabulary=spec, force=True)
            used = cpu_seconds() - began
            records = prepared.open_task(root, spec, task, 'train').read(range(SHOWN))
            return used, [record['inputs'].tolist() for record in records]

        return step

    return make


def seqio_step(args: argparse.Namespace):
    """A function that makes all examples with SeqIO's own steps, and perhaps writes them."""
    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
    import seqio
    import tensorflow as tf

    vocabulary = seqio.SentencePieceVocabulary(f'{args.folder}/{SENTENCEPIECE}')
    features = {name: seqio.Feature(vocabulary, add_eos=True) for name in ('inputs', 'targets')}

    def read(split, shuffle_files=False, seed=None):
        lines = (tf.data.TextLineDataset(f'{args.folder}/mtg/tg/de/train.{side}')
                 for side in ('src', 'trg'))  # fmt: skip
        return tf.data.Dataset.zip(dict(zip(('inputs', 'targets'), lines, strict=True)))

    def tag(dataset):
        return dataset.map(
            lambda example: example | {'inputs': tf.strings.join(['<de> ', example['inputs']])},
            num_parallel_calls=tf.data.AUTOTUNE,
        )

    task = seqio.Task(
        'articles',
        source=seqio.FunctionDataSource(read, splits=['train']),
        preprocessors=[tag, seqio.preprocessors.tokenize, seqio.preprocessors.append_eos],
        output_features=features,
    )

    def step():
        began, shown = cpu_seconds(), []
        dataset = task.get_dataset(None, 'train', shuffle=False, try_in_mem_cache=False)
        with contextlib.ExitStack() as files:
            if args.side == 'seqio_written':
                path = f'{args.folder}/seqio.tfrecord'
                file = files.enter_context(tf.io.TFRecordWriter(path))
            for example in dataset.as_numpy_iterator():
                if args.side == 'seqio_written':
                    file.write(seqio.dict_to_tfexample(example).SerializeToString())
                if len(shown) < SHOWN:
                    shown.append(example['inputs'].tolist())
        return cpu_seconds() - began, shown

    return step


def datasets_step(args: argparse.Namespace):
    """A function that tokenises with `datasets.map` in two processes."""
    os.environ |= {'HF_HOME': f'{args.folder}/cache', 'HF_HUB_OFFLINE': '1'}
    os.environ |= {'TOKENIZERS_PARALLELISM': 'false', 'HF_DATASETS_DISABLE_PROGRESS_BARS': '1'}
    import datasets
    from transformers import PreTrainedTokenizerFast

    datasets.disable_progress_bars()
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=f'{args.folder}/tokenizer.json')
    texts = datasets.load_dataset(
        'json', data_files=f'{args.folder}/articles.jsonl', split='train'
    )

    def encode(rows):
        inputs = tokenizer(
            [f'<de> {text}' for text in rows['inputs']],
            return_attention_mask=False, return_token_type_ids=False,
        )  # fmt: skip
        targets = tokenizer(
            rows['targets'], return_attention_mask=False, return_token_type_ids=False
        )
        return {'ids': inputs['input_ids'], 'labels': targets['input_ids']}

    def step():
        began = cpu_seconds()
        encoded = texts.map(encode, batched=True, num_proc=2, load_from_cache_file=False)
        used = cpu_seconds() - began
        shown = encoded[:SHOWN]['ids']
        encoded.cleanup_cache_files()
        return used, shown

    return step


ARTICLES, REPLIES = 'mtg_tg_de_de', 'mrs_retrieval_en_en'
STEPS = {
    'seqio': seqio_step, 'seqio_written': seqio_step, 'datasets': datasets_step,
    'sentencepiece': xlbench_step(ARTICLES, SENTENCEPIECE),
    'hugging_face': xlbench_step(ARTICLES, SUBWORDS), 'replies': xlbench_step(REPLIES, WORDPIECES),
}  # fmt: skip


def main() -> None:
    parser = interleaved.parser(__doc__, STEPS, rounds=5)
    parser.add_argument('--torch_python', default='', help='an interpreter that has datasets')
    parser.add_argument('--pairs', type=int, default=20_000)
    parser.add_argument('--sides', default=','.join(STEPS), help='those that are timed')
    parser.add_argument('--folder', default='', help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        return interleaved.serve(STEPS[args.side], args)
    pythons = dict.fromkeys(args.sides.split(','), sys.executable)
    if 'datasets' in pythons:
        pythons['datasets'] = args.torch_python
        if not args.torch_python:
            print('datasets is left out: --torch_python names no interpreter')
            del pythons['datasets']
    with tempfile.TemporaryDirectory() as folder:
        write_files(pathlib.Path(folder), args)
        timed = interleaved.time_sides(pythons, args.rounds, more=[f'--folder={folder}'])
    interleaved.write(args.json, rows(args, timed))


def rows(
    args: argparse.Namespace, timed: interleaved.Timed
) -> list[interleaved.Row | interleaved.Value]:
    """The rows of all comparisons, printed as well."""
    used = {side: [answer[0] for answer in answers] for side, answers in timed.answers.items()}
    works = (
        ('seqio', 'sentencepiece', "SeqIO's pipeline, which writes nothing"),
        ('seqio_written', 'sentencepiece', "SeqIO's pipeline, written as its cache is"),
        ('datasets', 'hugging_face', '`datasets.map`, fast tokenizer, two processes'),
        ('sentencepiece', 'hugging_face', 'xlbench, SentencePiece itself'),
    )
    made: list[interleaved.Row | interleaved.Value] = []
    for theirs, ours, against in works:
        if not {theirs, ours} <= set(used):
            continue
        # Vocabularies of Hugging Face's form give other ids of rare text than SentencePiece does.
        if theirs != 'sentencepiece' and timed.answers[theirs][-1][1] != timed.answers[ours][-1][1]:
            print(f'warning: {theirs} and {ours} differ in the ids of the first {SHOWN} texts')
        form = 'SentencePiece' if ours == 'sentencepiece' else "Hugging Face's form"
        work = f'preparation of {args.pairs:,} articles and titles, vocabulary of {form}'
        for what, numbers in (('', timed.seconds), (', processor time', used)):
            pair = {side: numbers[side] for side in (theirs, ours)}
            interleaved.print_ratios(pair, ours=ours)
            made += interleaved.rows(work + what, pair, {theirs: against}, ours=ours)
    for side in used:
        cost = statistics.median(used[side]) / args.pairs
        print(f'{side}: {1e6 * cost:.1f} microseconds of processor time a pair')
    if 'replies' in used:
        hours = statistics.median(used['replies']) / args.pairs * MRS_PAIRS / 3600
        note = f'computed from {args.pairs:,} made-up pairs; vocabulary of BERT'
        made.append(
            interleaved.value('preparation of the 48 million English pairs of MRS', hours,
                              'hours of a core', note)
        )  # fmt: skip
        print(f'{MRS_PAIRS:,} pairs of MRS: {hours:.2f} hours of a core')
    return made


if __name__ == '__main__':
    main()
