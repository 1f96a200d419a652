r"""Times few-shot adaptations against PyTorch's on the same machine, each side in turn.

    pip install torch==2.13.0 transformers==5.23.0 numpy      # into an environment of its own
    python tools/speed/fewshot.py --torch_python=TORCH_ENV/bin/python
    python tools/speed/fewshot.py --torch_python=TORCH_ENV/bin/python --method=fc_pooler

Forty buckets of 32 shots (of 8, where the whole model is adapted, as several of these take 10 GB
with 32) are adapted to in 50 steps of Adam over the whole bucket, at the widths of mBERT. PyTorch
takes one bucket after the other, with its fused Adam; xlbench runs its adapter as a sweep does,
without a dev set. Nothing is dropped. The methods:

    fc, fc_pooler  a head on features that a frozen encoder has made before, on both sides
    loop           a head and its pooler; PyTorch runs the frozen encoder at every step, as
                   fsxlt/code does, and xlbench once over all shots
    full           the whole model; every side begins each bucket with the same parameters

An encoder takes minutes for all of it. So loop and full time a share of the work and count it as
often as it fits: `--part` buckets, of full `--part_epochs` steps each, and PyTorch's loop one step.
"""

import argparse
import sys

import contest
import interleaved

DIM, LABELS, VOCAB_SIZE = 768, 8, 119_547
RATES = {'fc': 1e-3, 'fc_pooler': 1e-3, 'loop': 1e-3, 'full': 1e-5}
READS_TOKENS = ('loop', 'full')


def made_up(args: argparse.Namespace):
    """Features [buckets, shots, DIM] or tokens [buckets, shots, length]; labels of the shots."""
    import numpy as np

    rng = np.random.default_rng(0)
    shape = (args.part if args.method in READS_TOKENS else args.buckets, args.shots)
    if args.method in READS_TOKENS:
        inputs = rng.integers(5, VOCAB_SIZE, (*shape, args.length)).astype(np.int32)
    else:
        inputs = rng.standard_normal((*shape, DIM), dtype=np.float32)
    return inputs, rng.integers(0, LABELS, shape)


def torch_step(args: argparse.Namespace):
    """A function that adapts to every bucket with PyTorch."""
    import torch

    contest.begin_torch(args)
    inputs, labels = (torch.from_numpy(x).to(args.device) for x in made_up(args))
    model, features = _torch_model(args, torch)
    start = {name: x.clone() for name, x in model.state_dict().items()}

    def new_optimizer():
        return torch.optim.Adam(model.parameters(), lr=RATES[args.method], fused=True)

    def train(x, y, optimizer):
        with contest.cast(args):
            loss = torch.nn.functional.cross_entropy(model(features(x)).float(), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    def adapt(x, y, epochs):
        model.load_state_dict(start)
        optimizer = new_optimizer()
        for _ in range(epochs):
            train(x, y, optimizer)
        with torch.no_grad(), contest.cast(args):
            return model(features(x[:1])).argmax().item()

    if args.method == 'loop':  # A single step is timed; see `_scale`.
        one = new_optimizer()
        return lambda: train(inputs[0], labels[0], one).item()

    def step():
        epochs = args.part_epochs if args.method == 'full' else args.epochs
        return sum(adapt(x, y, epochs) for x, y in zip(inputs, labels, strict=True))

    return step


def _torch_model(args: argparse.Namespace, torch):
    """What is trained, and what makes its features of an input."""
    nn = torch.nn
    same = lambda x: x  # noqa: E731
    if args.method not in READS_TOKENS:
        layers = [nn.Linear(DIM, DIM), nn.Tanh()] if args.method != 'fc' else []
        return nn.Sequential(*layers, nn.Linear(DIM, LABELS)).to(args.device), same
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=VOCAB_SIZE, num_labels=LABELS, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    config._attn_implementation = 'sdpa'
    whole = BertForSequenceClassification(config).to(args.device)
    if args.method == 'full':

        class Logits(nn.Module):
            def __init__(self):
                super().__init__()
                self.whole = whole.train()

            def forward(self, x):
                return self.whole(input_ids=x).logits

        return Logits(), same
    whole.eval()
    body = whole.bert

    def states(x):
        with torch.no_grad():
            return body.encoder(body.embeddings(x)).last_hidden_state[:, 0]

    head = nn.Sequential(body.pooler.dense, nn.Tanh(), whole.classifier)
    return head, states


def xlbench_step(args: argparse.Namespace):
    """A function that adapts to every bucket with xlbench."""
    import functools
    import types

    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import numpy as np

    from xlbench import models
    from xlbench.fewshot import adaptation, corpus as corpus_lib, lanes, settings
    from xlbench.fewshot.results import Row
    from xlbench.parallel import partitioning
    from xlbench.training import objectives

    inputs, labels = made_up(args)
    reads_tokens = args.method in READS_TOKENS
    places = inputs.shape[2] if reads_tokens else 1
    shots = {
        'encoder_input_tokens': inputs,
        'encoder_segment_ids': np.full((*labels.shape, places), int(reads_tokens), np.int32),
        'labels': labels.astype(np.int32),
        'row_weights': np.ones(labels.shape, np.float32),
    }
    sizes = dict(num_labels=LABELS, dropout_rate=0.0, attention_dropout_rate=0.0,
                 classifier_dropout_rate=0.0, matmul_dtype=args.dtype)  # fmt: skip
    if not reads_tokens:  # The encoder itself is never run.
        sizes |= dict(vocab_size=8, num_layers=1)
    model = models.build('sequence_classifier', 'mbert', **sizes)
    init = jax.jit(lambda key: nn.unbox(model.init(key, jnp.zeros((1, 8), jnp.int32))['params']))
    params = jax.device_get(init(jax.random.key(0)))
    # As fewshot.corpus.Corpus: the ids that occur, numbered anew, 0 for padding.
    ids, numbers = np.unique(inputs, return_inverse=True) if reads_tokens else (np.arange(8), 0)
    if reads_tokens:
        shots['encoder_input_tokens'] = (numbers.reshape(inputs.shape) + 1).astype(np.int32)
        ids = np.append(0, ids)
    one = {name: x[:1, :1] for name, x in shots.items()}
    shots['examples'] = np.full(len(inputs), args.shots, np.int32)
    test = corpus_lib.EvalSet((one,), np.zeros(1, np.int32), np.zeros(1, np.int32))
    corpus = types.SimpleNamespace(
        labels=[str(i) for i in range(LABELS)], dev=lambda shots: None, test=test, token_ids=ids,
        bucket_arrays=lambda *_: shots, ids_of=lambda _: (np.arange(len(ids)), len(ids)),
        num_examples=lambda _: args.shots, of_words=False,
    )  # fmt: skip
    mesh = partitioning.make_mesh(devices=jax.devices()[:1])
    objective = objectives.build('classification')
    if reads_tokens:
        frozen = lanes.FrozenEncoder(model, objective, params, corpus, mesh)
    else:
        frozen = types.SimpleNamespace(
            model=model, objective=objective, corpus=corpus, mesh=mesh, whole=params,
            params=params, shots=lambda *_: shots, evaluated=lambda *_: test)  # fmt: skip
    method = {'loop': 'fc_pooler'}.get(args.method, args.method)
    epochs = args.part_epochs if args.method == 'full' else args.epochs
    adapt = settings.Adapt(languages=(), shots=(), buckets=1, learning_rates=(), epochs=epochs)
    of_method = lanes.Lanes(frozen, adapt, method)
    made = functools.cache(lambda: adaptation.Adapter(of_method, args.shots))
    rate = RATES[args.method]
    rows = [Row('', '', args.shots, i, method, '', rate, 0, metric='') for i in range(len(inputs))]
    at_once = args.at_once or made().lanes_at_once(args.buckets)
    streams = args.streams or made().streams(len(rows), at_once)
    print(f'{at_once} lanes in each of {streams} streams', file=sys.stderr)

    def step():
        if args.method == 'loop':  # The encoder reads all shots again.
            frozen._shots.clear()
            made.cache_clear()
        return sum(int(one.predicted[0]) for one in made().run(rows, at_once, streams=streams))

    return step


STEPS = {'torch': torch_step, 'xlbench': xlbench_step}


def _scale(args: argparse.Namespace) -> float:
    """How many steps of PyTorch's are as much work as one of xlbench's."""
    return args.part * args.epochs if args.method == 'loop' else 1


def _work(args: argparse.Namespace) -> str:
    """What is timed, as the table of all figures says it."""
    methods = {
        'fc': 'of a head on cached features',
        'fc_pooler': 'of a head and its pooler on cached features',
        'loop': 'of a head and its pooler with the encoder in the loop',
        'full': f'of the whole model ({args.dtype})',
    }
    return f'{args.buckets} few-shot adaptations {methods[args.method]}, {args.shots} shots'


def main() -> None:
    flags = (
        ('--method', 'fc', 'see above', tuple(RATES)),
        ('--buckets', 40, 'that are adapted to'),
        ('--part', 2, 'buckets that loop and full time'),
        ('--shots', 0, 'a bucket; 0: 32, and 8 of full'),
        ('--length', 64, 'tokens of an example'),
        ('--epochs', 50, 'of an adaptation'),
        ('--part_epochs', 2, 'that full times'),
        ('--at_once', 0, "xlbench's; 0: its own choice"),
        ('--streams', 0, "xlbench's; 0: its own choice"),
        contest.DTYPE, contest.DEVICE, contest.THREADS,
    )  # fmt: skip
    parser = contest.parser(__doc__, 7, flags)
    args = parser.parse_args()
    args.shots = args.shots or (8 if args.method == 'full' else 32)
    if args.side:
        interleaved.serve(STEPS[args.side], args, warmups=1 if args.method in READS_TOKENS else 2)
        return
    seconds, _ = interleaved.compare(contest.pythons(args), args.rounds)
    seconds['torch'] = [time * _scale(args) for time in seconds['torch']]
    interleaved.print_ratios(seconds)
    against = {'torch': 'PyTorch, one bucket after the other, fused Adam'}
    interleaved.write(args.json, interleaved.rows(_work(args), seconds, against))


if __name__ == '__main__':
    main()
