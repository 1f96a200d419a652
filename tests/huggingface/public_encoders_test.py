"""Two public encoders compute what PyTorch computes: from a file of goldens, and beside PyTorch.

tools/goldens/make_public_encoders.py wrote the file.
"""

import gzip
import json
import pathlib

import jax
import numpy as np
import pytest
import tokenizers as tokenizers_library
from nightly import by_day

from xlbench import models
from xlbench.data import tokenizers
from xlbench.huggingface import checkpoint, sentence_files

NAMES = ('all-minilm-l6-v2', 'multilingual-e5-small-q4')
GOLDEN = pathlib.Path(__file__).parents[1] / 'goldens' / 'public_encoders.npz'


@pytest.fixture(params=NAMES)
def folder(request, dev_model):
    return dev_model(request.param)


def padded(rows, pad_id):
    """(tokens, which of them are real)."""
    tokens = np.full((len(rows), max(map(len, rows))), pad_id, np.int32)
    for row, values in zip(tokens, rows, strict=True):
        row[: len(values)] = values
    return tokens, np.arange(tokens.shape[1]) < np.array([[len(row)] for row in rows])


def split(golden, name):
    ends = np.cumsum(golden[f'{name}_lengths'])
    return [part.tolist() for part in np.split(golden[name], ends[:-1])]


def test_ids_states_and_vectors_equal_pytorch(folder):
    stored = np.load(GOLDEN)
    sentences, pairs = stored['sentences'].tolist(), stored['pairs'].tolist()
    golden = {
        key.partition('/')[2]: stored[key] for key in stored if key.startswith(folder.name)
    }
    tokenizer = tokenizers.load(str(folder), '')
    ids = [row.tolist() for row in tokenizer.encode_inputs(sentences)]
    assert ids == split(golden, 'ids')
    joined = [tokenizer.join_texts(tokenizer.encode_batch(pair)).tolist() for pair in pairs]
    assert joined == split(golden, 'pair_ids')
    opened = checkpoint.open(str(folder))
    model, params = models.build(**opened.model), checkpoint.load_params(opened)
    tokens, real = padded(ids, tokenizer.pad_id)
    lengths, segments = golden['ids_lengths'], real.astype(np.int32)
    states = jax.jit(model.apply)({'params': params}, tokens, segments)
    means = (states * segments[..., None]).sum(1) / lengths[:, None]
    np.testing.assert_allclose(means, golden['means'], atol=1e-4, rtol=0)
    lasts = states[np.arange(len(ids)), lengths - 1]
    np.testing.assert_allclose(lasts, golden['lasts'], atol=1e-4, rtol=0)
    assert opened.model['has_pooler'] == ('pooled' in golden)
    if 'pooled' in golden:
        pooled = model.apply({'params': params}, states, method='pool')
        np.testing.assert_allclose(pooled, golden['pooled'], atol=1e-4, rtol=0)
    _, sentences = sentence_files.read(folder)
    assert (sentences['pooling'], sentences['normalize']) == ('mean', True)


# ---------------------------------------------------------------------------------- on real texts


@pytest.fixture(scope='module')
def texts(dev_data):
    """{language: sentences} of the published buckets of tagged words, each sentence once."""
    found = {}
    for path in sorted(dev_data.glob('fsxlt_buckets/*/*/*.jsonl*')):
        if path.parts[-3] not in ('udpos', 'panx'):
            continue
        opened = gzip.open if path.suffix == '.gz' else open
        with opened(path, 'rt', encoding='utf-8') as lines:
            sentences = [text for line in lines for text in json.loads(line)['data'].split('\n\n')]
        for text in sentences:
            words = [line.partition('\t')[0] for line in text.splitlines()]
            found.setdefault(path.name.partition('.')[0], {})[' '.join(words).strip()] = None
    if len(found) < 20:
        pytest.skip(f'needs the published buckets in 20 languages below {dev_data}')
    return {lang: [text for text in sentences if text] for lang, sentences in found.items()}


@pytest.mark.parametrize('folder', by_day(NAMES[:1], NAMES), indirect=True)
def test_ids_of_real_lines_are_those_of_the_library(folder, texts):
    """10,000 lines in all languages, as the library `tokenizers` cuts them from the same file."""
    share = -(-10_000 // len(texts))
    rest = [text for lang in texts for text in texts[lang][share:]]
    lines = [text for lang in texts for text in texts[lang][:share]]
    lines = (lines + rest)[:10_000]
    assert len(lines) == 10_000
    reference = tokenizers_library.Tokenizer.from_file(str(folder / 'tokenizer.json'))
    reference.no_truncation()
    reference.no_padding()
    expected = [encoding.ids for encoding in reference.encode_batch(lines)]
    ids = [row.tolist() for row in tokenizers.load(str(folder), '').encode_inputs(lines)]
    assert [line for line, a, b in zip(lines, ids, expected, strict=True) if a != b] == []


def test_states_and_vectors_of_real_texts_equal_pytorch(folder, texts):
    """200 texts in 20 languages, padded in both."""
    torch = pytest.importorskip('torch', reason='needs PyTorch, which the lock does not have')
    import transformers

    chosen = [text for lang in sorted(texts)[:20] for text in texts[lang][:10]]
    assert len(chosen) == 200
    tokenizer = tokenizers.load(str(folder), '')
    rows = sorted(tokenizer.encode_inputs(chosen), key=len)
    opened = checkpoint.open(str(folder))
    model, params = models.build(**opened.model), checkpoint.load_params(opened)
    theirs = transformers.AutoModel.from_pretrained(folder).eval()
    apply = jax.jit(model.apply)
    differences = []
    for start in range(0, len(rows), 50):
        batch = rows[start : start + 50]
        tokens, mask = padded(batch, tokenizer.pad_id)
        states = apply({'params': params}, tokens, mask.astype(np.int32))
        with torch.no_grad():
            out = theirs(torch.tensor(tokens), attention_mask=torch.tensor(mask.astype(np.int64)))
        expected = out.last_hidden_state.numpy()
        np.testing.assert_allclose(states[mask], expected[mask], atol=1e-4, rtol=0)
        vectors, pooled = (
            (np.asarray(x) * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
            for x in (states, expected)
        )
        np.testing.assert_allclose(vectors, pooled, atol=1e-4, rtol=0)
        differences.append(np.abs(states[mask] - expected[mask]).max())
        if opened.model['has_pooler']:
            firsts = model.apply({'params': params}, states, method='pool')
            np.testing.assert_allclose(firsts, out.pooler_output.numpy(), atol=1e-4, rtol=0)
    print(f'{folder.name}: states differ by {max(differences):.1e} at most')
