"""A public encoder that is trained here and exported answers in PyTorch as in its run.

A classifier and a tagger in transformers, a dual encoder in sentence-transformers. Needs PyTorch,
and all-minilm-l6-v2 in the folder that XLBENCH_DEV_MODELS names.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

from xlbench import convert, predict

torch = pytest.importorskip('torch', reason='needs PyTorch, which the lock does not have')
import transformers

PAIRS = (
    ('Anna waters the plants before breakfast.', 'Somebody waters plants.'),
    ('The train to Ulm does not stop here.', 'Every train stops here.'),
    ('Two children play with a red ball in the garden behind the house.', 'They are asleep.'),
    ('It rains.', 'The street may be wet, and nobody knows how long the rain will last today.'),
)
WORDS = tuple([*text.rstrip('.').split(), '.'] for pair in PAIRS for text in pair)
MESSAGES = tuple(first for first, _ in PAIRS)
REPLIES = tuple(second for _, second in PAIRS)


@pytest.fixture(scope='module')
def encoder(dev_model):
    return dev_model('all-minilm-l6-v2')


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    return tmp_path_factory.mktemp('root')


@pytest.fixture
def exported(encoder, root, tmp_path):
    """A function from a config, its stage and settings to (the run's model, its folder)."""

    def make(config, stage, *settings):
        workdir, folder = tmp_path / 'run', tmp_path / 'exported'
        # A process of its own: with the eight fake devices of the tests it would take far longer.
        alone = {key: value for key, value in os.environ.items() if key != 'XLA_FLAGS'}
        subprocess.run([
            sys.executable, '-m', 'xlbench.train', f'--config={config}',
            f'--config.model.from={encoder}', f'--workdir={workdir}',
            f'--config.data.root={root}', f'--config.stages.{stage}.num_steps=6',
            f'--config.stages.{stage}.optimizer.learning_rate=1e-3', '--config.log_every=2',
            '--config.evals.test.num_examples=20', '--config.evals.dev.num_examples=20',
            '--config.batches.batch_size=8', *settings,
        ], check=True, env=alone)  # fmt: skip
        convert.main(['convert', str(workdir), str(folder)])
        return predict.load(str(workdir), batch_size=4), folder

    return make


def test_a_classifier(exported):
    ours, folder = exported('fewshot_source:sample,task=xnli', 'source')
    expected = ours.classify(PAIRS)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    first, second = map(list, zip(*PAIRS, strict=True))
    inputs = tokenizer(first, second, return_tensors='pt', padding=True, truncation=True)
    with torch.no_grad():
        found = model(**inputs).logits.softmax(-1).numpy()
    assert [model.config.id2label[i] for i in found.argmax(-1)] == [one.label for one in expected]
    names = [model.config.id2label[i] for i in range(found.shape[1])]
    values = np.array([[one.probabilities[name] for name in names] for one in expected])
    print(f'classifier: probabilities differ by {np.abs(found - values).max():.1e} at most')
    np.testing.assert_allclose(found, values, atol=1e-5)
    assert np.ptp(values, axis=0).max() > 1e-3  # The texts are told apart.


def test_a_tagger(exported):
    ours, folder = exported('fewshot_source:sample,task=udpos', 'source')
    expected = ours.tag(WORDS)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForTokenClassification.from_pretrained(folder).eval()
    for words, one in zip(WORDS, expected, strict=True):
        inputs = tokenizer(words, is_split_into_words=True, return_tensors='pt')
        with torch.no_grad():
            best = model(**inputs).logits[0].argmax(-1).tolist()
        places = inputs.word_ids()
        last = {place: i for i, place in enumerate(places) if place is not None}
        tags = [model.config.id2label[best[last[number]]] for number in range(len(words))]
        assert tags == list(one.tags)


def test_a_dual_encoder(exported):
    sentence_transformers = pytest.importorskip(
        'sentence_transformers', reason='needs sentence-transformers, which the lock does not have'
    )
    ours, folder = exported('mrs_retriever:sample,scenario=mono,source=en', 'stage1')
    expected = ours.relevance(MESSAGES, REPLIES)
    model = sentence_transformers.SentenceTransformer(str(folder))
    left, right = (model.encode(list(texts)) for texts in (MESSAGES, REPLIES))
    found = ours._opened.objective.scale * np.einsum('nd,nd->n', left, right)
    print(f'dual encoder: relevance differs by {np.abs(found - expected).max():.1e} at most')
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
