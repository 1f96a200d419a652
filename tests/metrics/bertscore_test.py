"""BERTScore: numbers of the package bert-score, and what packing and several references change."""

import pathlib
import types

import encoder_folders
import numpy as np
import pytest
import tokenizer_files

from xlbench.data import tokenizers
from xlbench.evaluators import generation
from xlbench.metrics import Distinct, Suite, suite as suite_lib, to_spec
from xlbench.metrics.learned import BertScore, bertscore, token_vectors
from xlbench.system import errors

ABS = 1e-5
CANDIDATES = [
    'the ferry left the harbour at dawn', "  We don't sell bread on Mondays.", '',
    'Snow fell all night 雪', 'the old mill burns',
]  # fmt: skip
REFERENCES = [
    'at dawn the boat sailed out of port', 'On Mondays no bread is sold here.', 'A letter came.',
    'It snowed during the whole night 雪', 'the old mill burns',
]  # fmt: skip
# bert-score 0.3.13 with the weights of all-MiniLM-L6-v2: precision, recall, F1.
OF_PACKAGE = {
    (6, False): (
        [0.7443955, 0.8015757, 0.0, 0.7651981, 1.0],
        [0.7124118, 0.7925738, 0.0, 0.6582742, 1.0],
        [0.7280526, 0.7970493, 0.0, 0.7077203, 1.0],
    ),
    (3, True): (
        [0.6926339, 0.6482904, 0.0, 0.7521305, 1.0],
        [0.6558391, 0.702077, 0.0, 0.6842481, 1.0],
        [0.6737345, 0.6741126, 0.0, 0.7165852, 1.0],
    ),
}


@pytest.fixture(scope='module')
def minilm(dev_model):
    return str(dev_model('all-minilm-l6-v2'))


@pytest.fixture(scope='module')
def tiny(tmp_path_factory):
    """A folder with a BERT of random weights and a vocabulary of a few pieces."""
    folder = tmp_path_factory.mktemp('bert') / 'my-encoder'
    return encoder_folders.write(folder, 'bert-uncased', max_positions=40)


@pytest.mark.parametrize(('layer', 'idf'), OF_PACKAGE)
def test_equals_the_package(minilm, layer, idf, monkeypatch):
    monkeypatch.setitem(token_vectors._BATCH_TOKENS, 'cpu', 128)  # For each of eight devices.
    metric = BertScore(model=minilm, layer=layer, idf=idf)
    values = metric.values(REFERENCES, CANDIDATES)
    for column, expected in zip(values, OF_PACKAGE[layer, idf], strict=True):
        np.testing.assert_allclose(column, expected, rtol=0, atol=ABS)
    scores, rows = metric.with_examples(REFERENCES, CANDIDATES)
    f1 = OF_PACKAGE[layer, idf][2]
    assert scores['bertscore'] == pytest.approx(100 * np.mean(f1), abs=100 * ABS)
    assert rows[1]['bertscore'] == pytest.approx(100 * f1[1], abs=100 * ABS)
    kind = 'idf' if idf else 'no-idf'
    assert metric.signature.startswith(f'all-minilm-l6-v2_L{layer}_{kind}_version=0.3.12(')


def test_texts_in_one_row_do_not_see_each_other(tiny, monkeypatch):
    """Packing, batches and what is kept of earlier calls change nothing."""
    texts = ['the cat', 'a b c d e f g h', 'the', 'cat the a', 'b ' * 60, 'the cat']
    others = texts[::-1]
    monkeypatch.setattr(token_vectors, '_BATCH_TOKENS', {'cpu': 80, 'other': 80})
    whole = BertScore(model=tiny, layer=2, batch_size=1).values(others, texts)
    for width in (3, 11):
        monkeypatch.setattr(token_vectors, '_WIDTHS', (width,))
        monkeypatch.setattr(token_vectors, '_KEPT_BYTES', 2000)
        encoder = token_vectors.TokenEncoder(pathlib.Path(tiny), 2)
        ids = encoder.ids(texts)
        assert max(map(len, ids)) == 40  # What the model has positions for.
        pairs = {
            place: (one, two)
            for place, one, two in encoder.pairs(list(zip(ids, ids[::-1], strict=True)))
        }
        assert len(pairs) == len(texts)
        for place, (one, two) in pairs.items():
            similarity = (one @ two.T)[1:-1].max(1).mean()
            assert similarity == pytest.approx(whole.precision[place], abs=1e-5)
    alone = [
        BertScore(model=tiny, layer=2, batch_size=1).values([o], [t])
        for o, t in zip(others, texts, strict=True)
    ]
    np.testing.assert_allclose(np.concatenate(alone, 1), whole, atol=1e-5)


def test_a_roberta_reads_a_space_before_the_first_word(tmp_path):
    folder = tokenizer_files.write(tmp_path / 'roberta', 'roberta')
    encoder = object.__new__(token_vectors.TokenEncoder)
    encoder._tokenizer = tokenizers.load(folder, '')
    encoder._max_length, encoder.special = 5, (encoder._tokenizer.bos_id, encoder._tokenizer.eos_id)
    plain = [encoder._tokenizer.encode_batch([text])[0].tolist() for text in ('the', ' the')]
    assert plain[0] != plain[1]
    first, empty, long = encoder.ids(['the ', '  ', 'the the the the the the'])
    assert first.tolist() == [encoder.special[0], *plain[1], encoder.special[1]]
    assert empty.tolist() == list(encoder.special) and len(long) == 5


def test_padding_of_the_package_counts():
    """A token that is unlike all others counts as 0 beside padding, and as it is without."""
    towards, away = np.array([[1.0, 0.0]] * 3), np.array([[-1.0, 0.0]] * 3)
    ones = np.ones(3)
    precision, recall, _ = bertscore._match(towards, away, ones, ones, (-1.0, 0.0))
    assert (precision, recall) == (0.0, -1.0)
    metric = BertScore('de', batch_size=2)
    assert metric._padded([ones, ones[:1], ones[:1], ones[:1]]) == [False, True, False, False]
    assert '|batch:2|' in metric.signature


def test_several_references_count_apart(tiny):
    metric = BertScore(model=tiny, layer=1)
    first, second, both = (
        metric.values(targets, ['the cat a'])
        for targets in (['the b'], ['cat a c d e'], [['the b', 'cat a c d e']])
    )
    for one, two, best in zip(first, second, both, strict=True):
        assert best == max(one, two)


def test_idf_of_one_reference_is_undefined(tiny):
    with pytest.warns(UserWarning, match='undefined'):
        values = BertScore(model=tiny, layer=1, idf=True).values(['the cat'], ['the cat b'])
    assert np.isnan(values.recall[0]) and values.f1[0] == 0


def test_rescaled(tiny, tmp_path):
    path = tmp_path / 'own.tsv'
    path.write_text('LAYER,P,R,F\n0,0.1,0.1,0.1\n1,0.5,0.25,0.2\n')
    plain = np.array(BertScore(model=tiny, layer=1).values(['the cat'], ['a cat b']))
    metric = BertScore(model=tiny, layer=1, baseline=str(path))
    scaled = np.array(metric.values(['the cat'], ['a cat b']))
    base = np.array([[0.5], [0.25], [0.2]])
    np.testing.assert_allclose(scaled, (plain - base) / (1 - base), rtol=1e-6)
    assert '-custom-rescaled' in metric.signature
    path.write_text('LAYER,P,R,F\n0,0.1,0.1,0.1\n')
    with pytest.raises(errors.UserError, match='no baseline of layer 1'):
        metric.values(['a'], ['a'])


def test_what_is_missing_is_said_before_a_run(tmp_path, monkeypatch):
    monkeypatch.setenv('HF_HOME', str(tmp_path))
    [line] = BertScore('de').missing()
    assert line.endswith('hf download google-bert/bert-base-multilingual-cased')
    assert BertScore(model='no such model', layer=1).missing()
    suite = Suite('news_de', [suite_lib.named('bertscore_clidsum', 'de')])
    with pytest.raises(errors.UserError, match=r'task news_de: BERTScore needs the model dbmdz'):
        suite.require()
    assert 'case:lc' in suite.signatures()['BertScore']


def test_models_of_languages():
    assert BertScore('en').signature.startswith('roberta-large_L17_no-idf_')
    assert BertScore('ja').signature.startswith('bert-base-multilingual-cased_L9_')
    assert BertScore('zh', rescale=True).signature.startswith('bert-base-chinese_L8_')


def test_one_key_of_a_config_adds_it_to_each_task(tiny):
    sizes = dict(batch_size=8, lengths=dict(inputs=8, targets=8))
    options = generation.Options(**sizes, metrics=(f'bertscore={tiny}',))
    task = types.SimpleNamespace(manifest={'target_lang': 'de'})
    [spec] = options.further_metrics(task)
    own = to_spec(Distinct.for_language('de'))
    suite = Suite('a task', [own], [own, spec])
    assert suite.written == [own, spec] and list(suite.hashes) == ['BertScore']
    [signature] = [line for name, line in suite.signatures().items() if name == 'BertScore']
    assert signature.startswith('my-encoder_L1_no-idf_')  # Three quarters of two layers.
    texts = ['Der Zug ist da.', 'Es regnet.']
    scores, _ = suite.score(texts, [[text] for text in texts], ())
    assert scores['bertscore'] == pytest.approx(100, abs=1e-3)
    assert scores['bertscore'] > suite.score(texts, [['Es'], ['Zug']], ())[0]['bertscore']
    for off in (dict(metrics=()), dict(decode=False, metrics=(f'bertscore={tiny}',))):
        assert generation.Options(**sizes, **off).further_metrics(task) == []


def test_the_layer(tiny):
    assert BertScore.of_encoder(tiny, 'de', 2).layer == 2
    assert BertScore.of_encoder('bert-base-multilingual-cased', 'de').layer == -1
    with pytest.raises(errors.UserError, match='has 2 layers, and not layer 3'):
        BertScore(model=tiny, layer=3).values(['a'], ['a'])
    with pytest.raises(errors.UserError, match='takes a model from a folder or the Hugging Face'):
        BertScore.of_encoder('no/such/place')
