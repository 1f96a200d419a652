import csv
import dataclasses
import json
import pathlib

import flax.linen as nn
import jax
import named_weights
import numpy as np
import pytest
import tiny_labels
import tiny_sweep
from edits import edited
from scipy import special

from xlbench import config as config_lib, models
from xlbench.fewshot import attention, results
from xlbench.huggingface import checkpoint
from xlbench.models import bert
from xlbench.system.errors import UserError
from xlbench.training import checkpoints

GOLDEN = dict(np.load(pathlib.Path(__file__).parents[1] / 'goldens' / 'bert.npz'))
HEADS, LAYERS = 4, 2
NAME = 'first_attention'
TASK = tiny_labels.TASKS['classification'][1]


def weight(name):
    return GOLDEN[f'weights/{name}'].astype(np.float64)


def dense(x, name):
    return x @ weight(f'{name}.weight').T + weight(f'{name}.bias')


def norm(x, name):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
    return x * weight(f'{name}.weight') + weight(f'{name}.bias')


def plain(tokens, types):
    """BERT as the paper writes it, with transformers' weights: states, weights of the top layer."""
    x = weight('embeddings.word_embeddings.weight')[tokens]
    x = x + weight('embeddings.position_embeddings.weight')[: tokens.shape[1]]
    x = norm(x + weight('embeddings.token_type_embeddings.weight')[types], 'embeddings.LayerNorm')
    for i in range(LAYERS):
        at = f'encoder.layer.{i}'
        q, k, v = (
            dense(x, f'{at}.attention.self.{part}').reshape(*x.shape[:2], HEADS, -1)
            for part in ('query', 'key', 'value')
        )
        logits = np.einsum('bqhd,bkhd->bhqk', q, k) / np.sqrt(q.shape[-1])
        attention = special.softmax(np.where(tokens[:, None, None] == 0, -np.inf, logits), -1)
        y = np.einsum('bhqk,bkhd->bqhd', attention, v).reshape(x.shape)
        y = dense(y, f'{at}.attention.output.dense')
        x = norm(x + y, f'{at}.attention.output.LayerNorm')
        y = dense(x, f'{at}.intermediate.dense')
        y = dense(y * special.ndtr(y), f'{at}.output.dense')
        x = norm(x + y, f'{at}.output.LayerNorm')
    return x, attention


@pytest.fixture(scope='module')
def encoder():
    model = models.build(
        'bert', vocab_size=61, emb_dim=24, num_heads=HEADS, head_dim=6, mlp_dim=40,
        num_layers=LAYERS, max_positions=40,
    )  # fmt: skip
    weights = {
        name.removeprefix('weights/'): value.astype(np.float32)
        for name, value in GOLDEN.items()
        if name.startswith('weights/')
    }
    return model, named_weights.to_params(checkpoint.names('bert', model.config), weights)


@pytest.mark.parametrize('remat', ['none', 'dots'])
def test_attention_of_the_first_token_equals_plain_bert(encoder, remat):
    model, params = encoder
    model = model.clone(config=dataclasses.replace(model.config, remat=remat))
    tokens, types = GOLDEN['inputs'], GOLDEN['types']
    real = (tokens != 0).astype(np.int32)
    assert 0 in real
    states, expected = plain(tokens, types)
    # The plain one is BERT: its states are those of transformers.
    np.testing.assert_allclose(
        states[:, ::3] * real[:, ::3, None], GOLDEN['states'] * real[:, ::3, None], atol=1e-4
    )
    found = jax.jit(lambda p: model.apply(p, tokens, real, None, types, method=NAME))(
        {'params': params}
    )
    assert found.shape == (3, HEADS, 30)
    np.testing.assert_allclose(found, expected[:, :, 0], atol=1e-5)
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-5)
    assert (found * (1 - real[:, None]) == 0).all()


def test_without_segments_every_token_is_seen(encoder):
    model, params = encoder
    tokens = GOLDEN['inputs'][:, :7]
    seen = np.ones_like(tokens)
    look = jax.jit(lambda segments: model.apply({'params': params}, tokens, segments, method=NAME))
    one, other = look(None), look(seen)
    np.testing.assert_allclose(one, other, atol=1e-6)
    np.testing.assert_allclose(one.sum(-1), 1, atol=1e-5)


# ----------------------------------------------------------------------------------------- table 5


def test_changes_are_summed_in_an_example_and_averaged_over_examples():
    """Token 7 is twice in the first example; token 5 in the second alone; -1 is padding."""
    tokens = np.array([[2, 7, 7, -1], [2, 7, 5, 1]])
    before = np.array([[0.5, 0.25, 0.25, 0], [0.25, 0.25, 0.25, 0.25]], np.float32)
    after = np.array([[0.25, 0.25, 0.5, 0], [0.5, 0.25, 0, 0.25]], np.float32)
    names = {1: 'a', 2: '[CLS]', 5: 'b', 7: 'c'}
    found = attention.changes(tokens, before, after, names)
    # 2: -25 and +25; 7: 0 + 25 and 0; 5: -25 in one of two examples; 1: no change.
    assert found == [
        ('c', 7, 12.5, 3, 2), ('a', 1, 0, 1, 1), ('[CLS]', 2, 0, 2, 2), ('b', 5, -12.5, 1, 1)
    ]  # fmt: skip


@pytest.fixture(scope='module')
def workdir(tmp_path_factory):
    """A sweep of made-up predictions, whose source model and bucket 3 have parameters."""
    folder = tmp_path_factory.mktemp('sweep')
    tiny_labels.write_root(folder)
    config = tiny_labels.tiny_config(folder, 'classification', model__num_layers=2)
    encoder, params = random_encoder(config)
    about = {'adapted': dict(language='de', start='source', method='full', shots=1,
                             bucket=3, learning_rate=1e-3, seed=42)}  # fmt: skip
    adapted = folder / 'adapted' / 'mldoc-de-1-full-source' / '0.001-3-42'
    for path, own, facts in ((folder / 'source', params[0], {}), (adapted, params[1], about)):
        config_lib.claim_workdir(str(path), config, facts)
        own = {'encoder': own, 'classifier': {'bias': np.zeros(3, np.float32)}}
        checkpoints.save_params(str(path), 0, own)
    adapt = {'lengths': {'inputs': 12}}  # Some of the texts are longer.
    content = {'task': 'mldoc', 'source': {'data': config.data.to_dict()}, 'source_workdir': ''}
    (folder / 'config.json').write_text(json.dumps({'config': content | {'adapt': adapt}}))
    records = tiny_labels.records('classification', TASK, 'test')
    gold = np.array([record['targets'][0] for record in records])
    zero = np.where(np.arange(len(gold)) % 5 == 4, (gold + 1) % 3, gold)  # Each fifth is wrong.
    predicted = np.where(np.arange(len(gold)) % 2, (gold + 1) % 3, gold)  # Each second.
    journal = results.Journal(folder)
    journal.add(tiny_sweep.zero_shot('de', 80.0, task='mldoc'), zero)
    for bucket in (2, 3):
        row = tiny_sweep.row('de', 1, bucket, 50.0, None, task='mldoc', learning_rate=1e-3)
        journal.add(row, predicted, 4)
    journal.add_gold('mldoc', 'de', gold, tiny_labels.LABELS['classification'], len(gold))
    return folder, encoder, params, records, gold


def random_encoder(config):
    """A model of two layers and two sets of parameters of it."""
    fields = dict(config.model) | dict(vocab_size=128, num_labels=3)
    encoder = bert.Bert(models.build(**fields).config)
    inputs = np.ones((1, 4), np.int32)
    shapes = nn.unbox(jax.eval_shape(encoder.init, jax.random.key(0), inputs)['params'])
    rngs = (np.random.default_rng(seed) for seed in (0, 1))
    return encoder, [
        jax.tree.map(
            lambda leaf, rng=rng: rng.normal(0, 0.5, leaf.shape).astype(np.float32), shapes
        )
        for rng in rngs
    ]


def run(workdir, *flags):
    attention.main(['attention', str(workdir), *flags])
    with open(workdir / 'attention-mldoc-de-1-3.csv', encoding='utf-8', newline='') as file:
        return list(csv.DictReader(file))


def test_table_of_a_sweep(workdir, capsys):
    folder, encoder, params, records, gold = workdir
    rows = run(folder, '--lang=de', '--shots=1', '--bucket=3', '--from=bad')
    numbers = [i for i in range(len(gold)) if i % 5 != 4 and i % 2 and gold[i] == 0]
    assert len(numbers) >= 3 and any(len(records[i]['inputs']) > 12 for i in numbers)
    # Place by place; that padding changes nothing is tested above.
    tokens = np.zeros((len(numbers), 12), np.int32)
    for own, i in zip(tokens, numbers, strict=True):
        ids = records[i]['inputs'][:12]
        own[: len(ids)] = ids
        own[len(ids) - 1] = 1  # The end stays.
    look = jax.jit(lambda p: encoder.apply(p, tokens, np.sign(tokens), method=NAME))
    one, other = (np.asarray(look({'params': own})).mean(1) for own in params)
    totals = dict.fromkeys(range(50), 0.0)
    for at in zip(*np.nonzero(tokens), strict=True):
        totals[int(tokens[at])] += 100 * float(other[at] - one[at]) / len(numbers)
    for row in rows:
        np.testing.assert_allclose(float(row['change']), totals.pop(int(row['id'])), atol=1e-3)
    assert not any(totals.values())
    changes = [float(row['change']) for row in rows]
    assert changes == sorted(changes, reverse=True) and max(changes) > 0.5
    np.testing.assert_allclose(sum(changes), 0, atol=1e-3)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        f'mldoc de, 1-shot, bucket 3: {len(numbers)} test examples that only the adapted model '
        f'gets wrong (bad -> fair: {len(numbers)})'
    )
    shown = [line.rsplit('|', 2)[1].strip() for line in lines if line.count('|') == 2][2:]
    both = [*(c for c in changes[:10] if c > 0), *(c for c in changes[:-11:-1] if c < 0)]
    assert shown == [f'{change:+.2f}' for change in both]
    assert {row['token'] for row in rows} >= {'[SEP]'}


def test_all_labels_count_by_default(workdir, capsys, monkeypatch, tmp_path):
    """And a relative root starts where the sweep was run."""
    folder, *_, gold = workdir
    with edited(folder / 'config.json') as about:
        root = pathlib.Path(about['config']['source']['data']['root'])
        about['config']['source']['data']['root'], about['cwd'] = root.name, str(root.parent)
    monkeypatch.chdir(tmp_path)
    try:
        run(folder, '--lang=de', '--bucket=3')
    finally:
        with edited(folder / 'config.json') as about:
            about['config']['source']['data']['root'] = str(root)
    number = sum(i % 5 != 4 and i % 2 for i in range(len(gold)))
    assert f' {number} test examples' in capsys.readouterr().out


@pytest.mark.parametrize(
    ('flags', 'message'),
    [
        (['--lang=fr'], "unknown language of .*'fr'; allowed: de"),
        (['--lang=de', '--bucket=2'], 'bucket 2; it has de 1-shot bucket 3'),
        (['--lang=de', '--bucket=3', '--to=great'], "unknown label of mldoc 'great'"),
        (['--lang=de', '--bucket=3', '--from=bad', '--to=good'], 'leave out --from or --to'),
    ],
)
def test_mistakes_are_said(workdir, flags, message):
    with pytest.raises(UserError, match=message):
        run(workdir[0], *flags)


def test_table_5_takes_other_mistakes_where_no_two_stars_become_one(monkeypatch):
    change = attention.Change('nicht', 5, 1.5, 2, 1)
    found = {
        ('2', '1'): ({('2', '1'): 4}, [change]),
        (None, None): ({('3', '1'): 7, ('2', '5'): 2}, [change]),
    }
    monkeypatch.setattr(attention, 'of_bucket', lambda *asked: found.get(asked[-2:], ({}, [])))
    note = '4 German test reviews of 2 stars that become 1 after adaptation to bucket 0 of 1 shot.'
    assert attention.of_paper(None).notes[-1] == note
    del found['2', '1']
    assert attention.of_paper(None).notes[-1].startswith('9 German test reviews that become wrong')
    found.clear()
    assert attention.of_paper(None).missing == 'the bucket makes no test example wrong'
