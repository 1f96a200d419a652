"""Further metrics of an evaluation, which the config names."""

import types

import encoder_folders
import pytest

from xlbench import metrics
from xlbench.evaluators import generation
from xlbench.metrics import BertScore
from xlbench.system.errors import UserError

LENGTHS = dict(inputs=8, targets=8)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return encoder_folders.write(tmp_path_factory.mktemp('bertscore') / 'my-encoder')


def test_one_key_of_a_config_adds_it_to_each_task(folder):
    options = generation.Options(batch_size=8, lengths=LENGTHS, metrics=(f'bertscore={folder}',))
    task = types.SimpleNamespace(manifest={'target_lang': 'de'})
    [spec] = options.further_metrics(task)
    own = metrics.to_spec(metrics.Distinct.for_language('de'))
    suite = metrics.Suite('a task', [own], [own, spec])
    assert suite.written == [own, spec] and list(suite.hashes) == ['BertScore']
    [signature] = [line for name, line in suite.signatures.items() if name == 'BertScore']
    assert signature.startswith('my-encoder_L1_no-idf_')  # Three quarters of two layers.
    texts = ['Der Zug ist da.', 'Es regnet.']
    scores, _ = suite.score(texts, [[text] for text in texts], ())
    assert scores['bertscore'] == pytest.approx(100, abs=1e-3)
    assert scores['bertscore'] > suite.score(texts, [['Es'], ['Zug']], ())[0]['bertscore']
    for off in (dict(metrics=()), dict(decode=False, metrics=(f'bertscore={folder}',))):
        plain = generation.Options(batch_size=8, lengths=LENGTHS, **off)
        assert plain.further_metrics(task) == []


def test_the_layer(folder):
    assert BertScore.of_encoder(folder, 'de', 2).layer == 2
    assert BertScore.of_encoder('bert-base-multilingual-cased', 'de').layer == -1
    with pytest.raises(UserError, match='takes a model from a folder or the Hugging Face hub'):
        BertScore.of_encoder('no/such/place')
