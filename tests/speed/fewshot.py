r"""Times few-shot adaptations of a head against PyTorch's on the same machine, each side in turn.

    pip install torch==2.13.0 numpy      # into an environment of its own
    python tests/speed/fewshot.py --torch_python=TORCH_ENV/bin/python
    python tests/speed/fewshot.py --torch_python=TORCH_ENV/bin/python --method=fc_pooler

A frozen encoder of mBERT's width has read all shots before, on both sides: the features are given.
A step adapts one head to each of 40 buckets, in 50 steps of Adam over the whole bucket. PyTorch
takes one bucket after the other; xlbench runs its adapter as a sweep does, without a dev set.
Nothing is dropped..
"""

import argparse
import sys

import interleaved

DIM, LABELS, RATE = 768, 8, 1e-3


def made_up(args: argparse.Namespace):
    """Features [buckets, shots, DIM] and labels [buckets, shots]."""
    import numpy as np

    rng = np.random.default_rng(0)
    shape = (args.buckets, args.shots)
    features = rng.standard_normal((*shape, DIM), dtype=np.float32)
    return features, rng.integers(0, LABELS, shape)


def torch_step(args: argparse.Namespace):
    """A function that adapts a head to every bucket with PyTorch."""
    import torch

    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    features, labels = (torch.from_numpy(x).to(args.device) for x in made_up(args))

    def head():
        layers = [torch.nn.Linear(DIM, DIM), torch.nn.Tanh()] if args.method != 'fc' else []
        return torch.nn.Sequential(*layers, torch.nn.Linear(DIM, LABELS)).to(args.device)

    start = head().state_dict()

    def step():
        predicted = []
        for x, y in zip(features, labels, strict=True):
            model = head()
            model.load_state_dict(start)
            optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
            for _ in range(args.epochs):
                loss = torch.nn.functional.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            predicted.append(model(features[0, :1]).argmax().item())
        return sum(predicted) / len(predicted)

    return step


def xlbench_step(args: argparse.Namespace):
    """A function that adapts a head to every bucket with xlbench."""
    import types

    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import numpy as np

    from xlbench import models
    from xlbench.fewshot import adaptation, lanes as lanes_lib
    from xlbench.parallel import partitioning
    from xlbench.training import objectives

    features, labels = made_up(args)
    segments = np.zeros((*labels.shape, 1), np.int32)
    shots = {
        'encoder_input_tokens': features,
        'encoder_segment_ids': segments,
        'labels': labels.astype(np.int32),
        'row_weights': np.ones(labels.shape, np.float32),
    }
    one = {name: x[:1, :1] for name, x in shots.items()}
    shots['examples'] = np.full(args.buckets, args.shots, np.int32)
    test = lanes_lib.Eval((one,), np.zeros(1, np.int32), np.zeros(1, np.int32))
    # The encoder itself is never run.
    sizes = dict(vocab_size=8, num_layers=1, num_labels=LABELS, classifier_dropout_rate=0.0)
    model = models.build('sequence_classifier', 'mbert', **sizes)
    init = jax.jit(lambda key: nn.unbox(model.init(key, jnp.zeros((1, 8), jnp.int32))['params']))
    params = init(jax.random.key(0))
    corpus = types.SimpleNamespace(
        labels=[str(i) for i in range(LABELS)], dev=lambda shots: None, test=None
    )
    frozen = types.SimpleNamespace(params=params, shots=lambda *_: shots, evaluated=lambda *_: test)
    adapter = adaptation.Adapter(
        model,
        objectives.build('classification'),
        params,
        corpus,
        partitioning.make_mesh(devices=jax.devices()[:1]),
        lanes_lib.Recipe(args.method, epochs=args.epochs),
        frozen,
    )
    lanes = [lanes_lib.Lane(bucket, RATE, 0) for bucket in range(args.buckets)]
    at_once = args.at_once or adapter.lanes_at_once(args.shots, len(lanes))

    def step():
        results = list(adapter.run(args.shots, lanes, at_once))
        return sum(int(result.predicted[0]) for result in results) / len(results)

    return step


STEPS = {'torch': torch_step, 'xlbench': xlbench_step}


def main() -> None:
    """The command line."""
    parser = interleaved.parser(__doc__, STEPS, rounds=7)
    parser.add_argument('--torch_python', default='', help='an interpreter that has PyTorch')
    parser.add_argument('--method', choices=('fc', 'fc_pooler'), default='fc')
    parser.add_argument('--buckets', type=int, default=40)
    parser.add_argument('--shots', type=int, default=32, help='examples of a bucket')
    parser.add_argument('--epochs', type=int, default=50)
    parser.add_argument('--at_once', type=int, default=0, help="xlbench's; 0: its own choice")
    parser.add_argument('--device', default='cpu', help="PyTorch's: cpu or cuda")
    parser.add_argument('--threads', type=int, default=0, help="PyTorch's; 0: its own choice")
    args = parser.parse_args()
    if args.side:
        interleaved.serve(STEPS[args.side], args, warmups=2)
    elif args.torch_python:
        pythons = {'torch': args.torch_python, 'xlbench': sys.executable}
        seconds, _ = interleaved.compare(pythons, args.rounds)
        interleaved.print_ratios(seconds)
    else:
        parser.error('--torch_python is needed')


if __name__ == '__main__':
    main()
