"""Hugging Face checkpoints: read, checked, written; from the hub; loaded by transformers."""

import copy
import functools
import json
import random
import threading
from unittest import mock

import edits
import fake_hub
import huggingface_hub.constants
import huggingface_hub.errors
import jax
import numpy as np
import pytest
import references
import safetensors.numpy
from nightly import by_day

from xlbench import models
from xlbench.huggingface import checkpoint, hub
from xlbench.huggingface.mapping import Entry
from xlbench.system import errors

SIZES = dict(emb_dim=32, num_heads=4, head_dim=8, mlp_dim=48, vocab_size=61, dropout_rate=0.0)
FAMILIES = tuple(family for family in models.FAMILIES if family != 'mvbart')  # It has no form.
# What Marian's own files say of a model is not a config.json; marian_files_test has them.
WITH_CONFIG = tuple(family for family in FAMILIES if family != 'marian_ssru')
OF_EACH_KIND = ('t5', 'bart', 'gpt2', 'llama', 'bert', 'encoder_decoder', 'dual_encoder')
GENERATORS = ('t5', 't5_1_1', 'mt5', 'bart', 'mbart', 'pegasus', 'marian', 'encoder_decoder')
IDS = dict(pad_id=0, eos_id=1, bos_id=2, decoder_start_id=0)


@functools.cache
def tiny(family):
    more = {'shared': False} if family == 'dual_encoder' else {}
    return models.build(family, 'sample', **SIZES, **more)


@functools.cache
def random_params(family):
    return references.random_params(tiny(family))


def save(folder, family, **options):
    """A folder as another program would have written it."""
    checkpoint.save(folder, family, tiny(family).config, random_params(family), IDS, (), **options)
    return folder


def assert_same(left, right):
    jax.tree.map(np.testing.assert_array_equal, left, right)


def edit(folder, change, name='model.safetensors'):
    """Applies `change` to the dict of a folder's tensors."""
    arrays = safetensors.numpy.load_file(str(folder / name))
    change(arrays)
    safetensors.numpy.save_file(arrays, str(folder / name))


def loaded(folder):
    return checkpoint.load_params(checkpoint.open(str(folder)))


def edit_config(folder, **changes):
    with edits.edited(folder / 'config.json') as config:
        config |= changes


# ----------------------------------------------------------------------------------- read and write


@pytest.mark.parametrize('family', WITH_CONFIG)
def test_round_trip_is_bit_exact(tmp_path, family):
    one = save(tmp_path / 'one', family)
    found = checkpoint.open(str(one))
    assert models.config(**found.model) == tiny(family).config
    assert found.family == family
    params = checkpoint.load_params(found)
    assert_same(params, random_params(family))
    assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(params))
    config = models.config(**found.model)
    checkpoint.save(tmp_path / 'two', family, config, params, IDS, ())
    assert edits.content(one) == edits.content(tmp_path / 'two')


def test_shapes_of_tensors_whatever_a_config_asks_for():
    most = (3, 2**40, 2**20)  # Of query, key and value, the heads' features and emb_dim.
    assert Entry(('q', 'k', 'v')).shape(most) == most[1:]
    assert Entry(('qkv',), 'joined').shape(most) == (2**20, 3 * 2**40)
    assert Entry(('qkv',), 'joined').shape((3, 8)) == (24,)
    assert Entry(('a',), 'transposed').shape((2, 5)) == (5, 2)
    assert Entry(('a',), 'row').shape((5,)) == (1, 5)


def test_tied_tensors_may_be_stored_again(tmp_path):
    """Under any of their names, or all; but equal. Others of old files are ignored."""
    folder = save(tmp_path / 'one', 't5')
    copy = 'decoder.embed_tokens.weight'
    old = 'decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight'
    for change in (
        lambda arrays: arrays.update({old: np.zeros((32, 4), np.float32)}),
        lambda arrays: arrays.update({copy: arrays['shared.weight']}),
        lambda arrays: arrays.pop('shared.weight'),
    ):
        edit(folder, change)
        assert_same(loaded(folder), random_params('t5'))
    edit(folder, lambda arrays: arrays.update({'lm_head.weight': np.zeros((61, 32), np.float32)}))
    with pytest.raises(errors.UserError, match=rf'(lm_head|{copy}).* must equal .*to which'):
        loaded(folder)


NORM = 'decoder.block.0.layer.2.layer_norm.weight'


@pytest.mark.parametrize(
    'change, message',
    [
        (lambda a: a.pop(NORM), f'lacks tensors that mt5 models have: {NORM}'),
        (lambda a: a.pop('lm_head.weight'), 'lacks tensors that mt5 models have: lm_head.weight'),
        (lambda a: a.update(dict.fromkeys('xyzw', a[NORM])), 'not have: w, x, y and 1 more'),
        (lambda a: a.update({NORM: a[NORM][:5]}),
         rf'model.safetensors: tensor {NORM} has shape \[5\], but config.json makes it \[32\]'),
        (lambda a: a.update({NORM: a[NORM].astype('f8')}), f'tensor {NORM} is of type float64'),
    ],
)  # fmt: skip
def test_files_that_do_not_fit(tmp_path, change, message):
    folder = save(tmp_path / 'one', 'mt5')
    edit(folder, change)
    with edits.refused(f'{folder}.*{message}'):
        loaded(folder)


_STRANGE = (
    None, True, -1, 0, 1, 3, 10**6, 10**12, 10**40, 0.5, -0.5, 1e300, '', 'x', '²', '1', [], [1],
    {}, {'a': []}, [[[[]]]],
)  # fmt: skip


@pytest.mark.parametrize('family', by_day(OF_EACH_KIND, WITH_CONFIG))
def test_strange_configs_are_one_line(tmp_path, family):
    """Each key with a value from elsewhere: a model of the right sizes, or one plain line."""
    path = save(tmp_path / 'folder', family) / 'config.json'
    if not path.is_file():  # Two encoders, in folders of their own.
        path = tmp_path / 'folder' / 'left' / 'config.json'
    content, draw, refused = json.loads(path.read_text()), random.Random(family), 0
    for _ in range(25):
        changed = copy.deepcopy(content)
        part = draw.choice([changed, *(v for v in changed.values() if isinstance(v, dict) and v)])
        part[draw.choice(sorted(part))] = draw.choice(_STRANGE)
        path.write_text(json.dumps(changed))
        try:
            checkpoint.open(str(tmp_path / 'folder')).check()
        except errors.UserError as error:
            refused += 1
            assert '\n' not in str(error)
    assert refused > 3


@pytest.mark.parametrize(
    'changes, message',
    [
        (dict(model_type='mt55'), "unknown model_type in config.json 'mt55'; nearest: mt5"),
        (dict(model_type=None), 'config.json has no model_type, so the folder holds no model of'),
        (dict(d_ff=None), "lacks 'd_ff'"),
        (dict(feed_forward_proj='gated-silu'), 'supported: relu, gated-gelu'),
        (dict(layer_norm_epsilon=1e-5), 'supported: 1e-06'),
        (dict(num_layers=256, num_decoder_layers=256), r'with \d+ tensors more than the \d+ in'),
    ],
)
def test_configs_that_there_is_no_model_for(tmp_path, changes, message):
    folder = save(tmp_path / 'one', 'mt5')
    edit_config(folder, **changes)
    with pytest.raises(errors.UserError, match=message):
        checkpoint.open(str(folder))


def test_t5_variants_as_versions_of_transformers_write_them(tmp_path):
    """Version 5 says in `scale_decoder_outputs` what version 4 says in `tie_word_embeddings`."""
    old = ('tie_word_embeddings', 'num_decoder_layers', 'dropout_rate', 'feed_forward_proj')
    for family, changes, key, value in (
        ('t5_1_1', dict(tie_word_embeddings=True, scale_decoder_outputs=False), 'gated_mlp', True),
        ('mt5', dict(tie_word_embeddings=True), 'tied_embeddings', False),
        ('t5', dict.fromkeys(old), 'num_decoder_layers', 2),
    ):
        folder = save(tmp_path / family, family)
        edit_config(folder, **changes)
        found = checkpoint.open(str(folder))
        assert (found.family, found.model[key]) == (family, value)


def test_encoders_as_versions_of_transformers_write_them(tmp_path):
    """With and without the model's prefix; norms under TensorFlow's names; other heads' tensors."""
    folder = save(tmp_path / 'one', 'bert')

    def old(arrays):
        for name in list(arrays):
            other = name.replace('LayerNorm.weight', 'LayerNorm.gamma')
            arrays[f'bert.{other.replace("LayerNorm.bias", "LayerNorm.beta")}'] = arrays.pop(name)
        arrays['cls.predictions.bias'] = np.zeros(61, np.float32)
        arrays['bert.embeddings.position_ids'] = np.arange(512)[None]

    edit(folder, old)
    edit_config(folder, architectures=['BertForMaskedLM'])
    found = checkpoint.open(str(folder))
    assert_same(checkpoint.load_params(found), random_params('bert'))
    assert found.surplus() == ['cls.predictions.bias', 'embeddings.position_ids']
    edit(folder, lambda a: [a.pop(name) for name in list(a) if 'pooler' in name])
    assert loaded(folder).keys() == random_params('bert').keys() - {'pooler'}


def test_a_shared_dual_encoder_is_one_encoder(tmp_path):
    config = models.config('dual_encoder', 'sample', **SIZES)
    params = {'left': random_params('bert')}
    checkpoint.save(tmp_path / 'one', 'dual_encoder', config, params, IDS, ())
    found = checkpoint.open(str(tmp_path / 'one'))
    assert found.family == 'bert'
    assert_same(checkpoint.load_params(found), random_params('bert'))


@pytest.mark.parametrize('shared', [True, False])
def test_tensors_that_a_dual_encoder_lacks(tmp_path, shared):
    folder, name = tmp_path / 'one', 'embeddings.word_embeddings.weight'
    save(folder, 'bert' if shared else 'dual_encoder')
    edit(folder if shared else folder / 'right', lambda arrays: arrays.pop(name))
    found = checkpoint.Pair(folder, {'shared': shared})
    lacking = name if shared else f'right/{name}'  # As the files of a shared one have it.
    with pytest.raises(errors.UserError, match=f'one lacks tensors that .* have: {lacking}$'):
        checkpoint.load_params(found)


def test_dual_encoders_of_different_sizes(tmp_path):
    folder = save(tmp_path / 'one', 'dual_encoder')
    edit_config(folder / 'right', layer_norm_eps=1e-5)
    with pytest.raises(errors.UserError, match='are not two encoders of the same size'):
        checkpoint.open(str(folder))


# ------------------------------------------------------------------------------------------ the hub


def test_hub_fetches_named_files_of_one_commit(tmp_path, monkeypatch):
    folder = save(tmp_path / 'one', 'mt5', max_shard=30_000)
    for name in ('modeling.py', 'pytorch_model.bin', 'tf_model.h5', 'spiece.model', 'x.pkl'):
        (folder / name).write_bytes(b'?')
    (folder / 'onnx').mkdir()
    (folder / 'onnx' / 'config.json').write_text('{}')
    fake = fake_hub.FakeHub(folder, monkeypatch)
    found = checkpoint.open('google/mt5-small@main')
    assert_same(checkpoint.load_params(found), random_params('mt5'))
    assert fake.asked == [('google/mt5-small', 'main'), ('google/mt5-small', fake.COMMIT)]
    files = {path.name for path in fake.snapshot.iterdir()}
    shards = {path.name for path in folder.glob('model-*')}
    about = {'config.json', 'generation_config.json', 'spiece.model'}
    assert len(shards) > 1 and files == shards | about | {'model.safetensors.index.json'}
    assert [path.name for path in hub.tokenizer_files(found.folder)] == ['spiece.model']
    checkpoint.open('google/mt5-small@main')
    assert len(fake.asked) == 2  # What is in the cache is not asked for.
    shard = min(shards)
    for place in (folder, fake.snapshot):
        (place / shard).unlink()
    with pytest.raises(errors.UserError, match=f'lacks {shard}, which its index names'):
        checkpoint.open('google/mt5-small@main')


def test_an_index_on_the_hub_names_files_and_no_patterns(tmp_path, monkeypatch):
    folder = save(tmp_path / 'one', 'mt5', max_shard=30_000)
    index = folder / 'model.safetensors.index.json'
    index.write_text('{"weight_map": {"a": "*.bin"}}')
    (folder / 'training_args.bin').write_bytes(b'?')
    fake = fake_hub.FakeHub(folder, monkeypatch)
    with pytest.raises(errors.UserError, match=r'lacks \*.bin, which its index names'):
        checkpoint.open('google/mt5-small')
    assert not list(fake.snapshot.glob('*.bin'))


def test_hub_falls_back_to_bin(tmp_path, monkeypatch):
    import bin_files

    folder = save(tmp_path / 'one', 'mt5')
    arrays = safetensors.numpy.load_file(str(folder / 'model.safetensors'))
    bin_files.save(folder / 'pytorch_model.bin', arrays)
    (folder / 'model.safetensors').unlink()
    fake = fake_hub.FakeHub(folder, monkeypatch)
    found = checkpoint.open('google/mt5-small')
    assert_same(checkpoint.load_params(found), random_params('mt5'))
    checkpoint.open('google/mt5-small')
    assert (fake.snapshot / 'pytorch_model.bin').is_file()


@pytest.mark.parametrize('sends', [0, 99, 100])
def test_a_hub_that_drips_is_given_up(tmp_path, monkeypatch, sends):
    """In each fifth of a second it has to send 100 bytes; the download needs three of them."""
    monkeypatch.setattr(hub, '_PATIENCE', 0.2)
    monkeypatch.setattr(hub, '_LEAST', 100)
    monkeypatch.setattr(huggingface_hub.constants, 'HF_HUB_CACHE', str(tmp_path))
    blobs = tmp_path / 'models--made--up' / 'blobs'
    blobs.mkdir(parents=True)
    measured, given_up = [], threading.Event()

    def size(path, measure=hub._bytes_below):
        measured.append(measure(path))
        (blobs / f'{len(measured)}.incomplete').write_bytes(bytes(sends))
        return measured[-1]

    def download(repository, *, local_files_only=False, **options):
        if local_files_only:
            raise huggingface_hub.errors.LocalEntryNotFoundError('no')
        while len(measured) < 6 and not given_up.wait(0.01):
            pass
        return str(tmp_path)

    monkeypatch.setattr(hub, '_bytes_below', size)
    monkeypatch.setattr(huggingface_hub, 'snapshot_download', download)
    if sends == 100:
        assert hub.fetch('made/up', ['config.json'], [('config.json',)]) == tmp_path
    else:
        with pytest.raises(errors.UserError, match=r'sent less than 100 bytes in 0\.2 s'):
            hub.fetch('made/up', ['config.json'], [('config.json',)])
    given_up.set()  # The thread of the download ends, too.


def test_hub_errors_are_one_line(tmp_path, monkeypatch):
    from huggingface_hub import errors as hub_errors

    folder = save(tmp_path / 'one', 'mt5')
    fake = fake_hub.FakeHub(folder, monkeypatch)
    response = mock.Mock(status_code=404)
    for raised, message in (
        (hub_errors.RepositoryNotFoundError('no', response=response), 'has no open repository'),
        (hub_errors.RevisionNotFoundError('no', response=response), 'has no open repository'),
        (hub_errors.LocalEntryNotFoundError('no'), 'is not in the Hugging Face cache'),
        (OSError('disk full\nand more'), 'cannot be fetched from the hub: disk full'),
    ):
        fake.error = raised
        with edits.refused(message):
            checkpoint.open('google/mt5-small')
    fake.error = None
    (folder / 'model.safetensors').unlink()
    with pytest.raises(errors.UserError, match=r'has no model.safetensors'):
        checkpoint.open('google/mt5-small')
    for place in (folder, fake.snapshot):
        (place / 'config.json').unlink()
    with pytest.raises(errors.UserError, match=r'has no config.json, so it holds no checkpoint'):
        checkpoint.open('google/mt5-small')


@pytest.mark.parametrize(
    'spec', ['', 'nothing', './x', '/no/such', 'a/b/c', '~/x', '../x', 'a b/c']
)
def test_what_is_no_checkpoint(spec, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.UserError, match='is neither a folder nor a hub name'):
        checkpoint.open(spec)


# ------------------------------------------------------------------------------------- transformers

INPUTS = np.array([[5, 9, 33, 60, 7, 1], [8, 12, 1, 0, 0, 0]])
TARGETS = np.array([[0, 4, 44, 21], [0, 17, 3, 0]])


@pytest.mark.parametrize('family', [f for f in GENERATORS if f in FAMILIES])
def test_transformers_gives_the_same_logits(tmp_path, family):
    torch = pytest.importorskip('torch')
    import transformers

    folder = save(tmp_path / 'one', family)
    kind = transformers.AutoModelForSeq2SeqLM
    if family == 'encoder_decoder':
        kind = transformers.EncoderDecoderModel
    model, info = kind.from_pretrained(folder, output_loading_info=True)
    unread = {
        'pegasus': [f'model.{stack}.embed_positions.weight' for stack in ('encoder', 'decoder')],
        'encoder_decoder': ['encoder.pooler.dense.weight', 'encoder.pooler.dense.bias'],
    }
    assert info['missing_keys'] <= set(unread.get(family, ()))  # Computed, and not used.
    assert not info['unexpected_keys']
    mask = (INPUTS > 0).astype(np.int64)
    with torch.no_grad():
        theirs = model.eval()(
            input_ids=torch.tensor(INPUTS),
            attention_mask=torch.tensor(mask),
            decoder_input_ids=torch.tensor(TARGETS),
        ).logits.numpy()
    variables = {'params': random_params(family)}
    ours = jax.jit(tiny(family).apply)(variables, INPUTS, TARGETS, mask.astype(np.int32))
    np.testing.assert_allclose(ours, theirs, atol=1e-4, rtol=0)
    assert_it_comes_back(model, folder, family)


def assert_it_comes_back(model, folder, family):
    """What transformers writes, and what torch.save writes, is as it was."""
    import torch

    again = folder.with_name('two')
    model.save_pretrained(again)
    torch.save(model.state_dict(), folder / 'pytorch_model.bin')
    (folder / 'model.safetensors').unlink()
    for place in (again, folder):
        params = loaded(place)
        params.get('encoder', {}).pop('pooler', None)
        assert_same(params, random_params(family))


def test_transformers_gives_the_same_logits_of_a_decoder_alone(tmp_path):
    torch = pytest.importorskip('torch')
    import transformers

    folder = save(tmp_path / 'one', 'gpt2')
    kind = transformers.AutoModelForCausalLM
    model, info = kind.from_pretrained(folder, output_loading_info=True)
    assert not info['missing_keys'] and not info['unexpected_keys'], info
    text = np.concatenate([INPUTS[:1], TARGETS[:1]], axis=1)
    with torch.no_grad():
        theirs = model.eval()(input_ids=torch.tensor(text)).logits.numpy()
    variables = {'params': random_params('gpt2')}
    ours = jax.jit(tiny('gpt2').apply)(variables, INPUTS[:1], TARGETS[:1])
    np.testing.assert_allclose(ours, theirs[:, INPUTS.shape[1] :], atol=1e-4, rtol=0)
    assert_it_comes_back(model, folder, 'gpt2')


@pytest.mark.parametrize('roberta', [False, True])
@pytest.mark.parametrize(
    'family, kind',
    [
        ('bert', 'AutoModel'),
        ('sequence_classifier', 'AutoModelForSequenceClassification'),
        ('token_classifier', 'AutoModelForTokenClassification'),
    ],
)
def test_transformers_gives_the_same_states(tmp_path, family, kind, roberta):
    torch = pytest.importorskip('torch')
    import transformers

    more = dict(position_offset=2, type_vocab_size=1, norm_epsilon=1e-5) if roberta else {}
    if family != 'bert':
        more |= dict(num_labels=3, has_pooler=family == 'sequence_classifier' and not roberta)
    model = models.build(family, 'sample', **SIZES | more)
    params = references.random_params(model)
    ids = IDS | {'pad_id': 1 if roberta else 0}
    checkpoint.save(tmp_path / 'one', family, model.config, params, ids, ())
    theirs, info = getattr(transformers, kind).from_pretrained(
        tmp_path / 'one', output_loading_info=True
    )
    assert not info['missing_keys'] and not info['unexpected_keys'], info
    text = np.where(INPUTS == 1, 2, INPUTS)  # Without RoBERTa's padding id.
    inputs = np.where(INPUTS > 0, text, ids['pad_id'])
    mask = (INPUTS > 0).astype(np.int64)
    with torch.no_grad():
        out = theirs.eval()(torch.tensor(inputs), attention_mask=torch.tensor(mask))
    ours = jax.jit(model.apply)({'params': params}, inputs, mask.astype(np.int32))
    out = (out.last_hidden_state if family == 'bert' else out.logits).numpy()
    keep = mask.astype(bool) if ours.ndim == 3 else slice(None)
    np.testing.assert_allclose(ours[keep], out[keep], atol=1e-4, rtol=0)
    assert_same(loaded(tmp_path / 'one'), params)
