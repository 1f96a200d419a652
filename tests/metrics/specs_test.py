"""Metrics as manifests keep them, as SeqIO calls them, and what importing them pulls in."""

import json
import subprocess
import sys
import types

import pytest

from xlbench import benchmarks, metrics
from xlbench.metrics import suite as suite_lib
from xlbench.system import errors

# And what their signatures say.
SIGNED = {
    metrics.SacreBleu(): 'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp',
    metrics.SacreBleu('zh'): 'nrefs:1|case:mixed|eff:no|tok:zh|smooth:exp',
    metrics.ChrF(): 'nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version',
    metrics.ChrFPlusPlus(): '|nw:2|',
    metrics.Ter(): '|norm:no|',
    metrics.Distinct(): 'tok:words',
    metrics.Distinct('characters'): 'tok:characters',
    metrics.MrsRouge('de', ngrams='multiset'): 'ngrams:multiset',
    metrics.MrsRouge('de'): 'punkt:english-',
    metrics.MrsRouge('ja'): 'tok:fugashi-',
    metrics.MultilingualRouge('de'): 'lang:german|case:lower|punct:removed|tok:unicode|stem:no|',
    metrics.MultilingualRouge('de', stem=True): 'stem:snowball-german|stopwords:bm25s-',
    metrics.MultilingualRouge(None): 'lang:none',
    metrics.MultilingualRouge('zh'): 'tok:jieba-',
    metrics.MultilingualRouge('zh', stem=True): 'stem:none',
    metrics.MultilingualRouge('hi', stem=True): 'stem:hindi-ramanathan-rao',
    metrics.MultilingualRouge('bn', stem=True): 'stem:bengali-rafi-kamal',
    metrics.MultilingualRouge('my'): 'tok:burmese-syllables',
    metrics.Classification(('ein Zug kommt', 'ein Zug fährt')): 'labels:ein Zug kommt,ein Zug',
    metrics.ChunkF1(): 'chunks:seqeval-0.0.12|',
    metrics.TagAccuracy(False): 'tag_accuracy|',
}
ALL = list(SIGNED)


@pytest.mark.parametrize('metric', ALL, ids=repr)
def test_a_spec_survives_json(metric):
    spec = json.loads(json.dumps(metrics.to_spec(metric)))
    assert metrics.from_spec(spec) == metric
    assert hash(metrics.from_spec(spec)) == hash(metric)
    assert SIGNED[metric] in metric.signature


def test_spec_of_rouge():
    assert metrics.to_spec(metrics.MultilingualRouge('de')) == {
        'metric': 'xlbench.metrics.rouge:MultilingualRouge',
        'kwargs': {'lang': 'de', 'stem': False},
    }
    bare = {'metric': 'xlbench.metrics.bleu:ChrF'}
    assert metrics.from_spec(bare) == metrics.ChrF()


@pytest.mark.parametrize(
    'spec, message',
    [({'metric': 'os:system', 'kwargs': {}}, 'may not be loaded'),
     ({'metric': 'subprocess:Popen', 'kwargs': {'args': 'true'}}, 'may not be loaded'),
     ({'metric': 'xlbench.metricsx:A'}, 'may not be loaded'),
     ({'metric': 'xlbench.metrics.nothing:A'}, 'does not exist'),
     ({'metric': 'xlbench.metrics.rouge:Nothing'}, 'does not exist'),
     ({'metric': 'xlbench.metrics.rouge'}, 'does not exist'),
     ({'metric': 'xlbench.metrics.rouge:sanitize'}, 'is not a metric'),
     ({'metric': 'xlbench.metrics.rouge:Tokenizer'}, 'is not a metric'),
     ({'metric': 'xlbench.metrics.rouge:regex'}, 'is no metric'),
     ({'metric': 'xlbench.metrics.bleu:SacreBleu', 'kwargs': {'tok': 'zh'}}, 'tok'),
     ({'metric': 'xlbench.metrics.bleu:SacreBleu', 'kwargs': [1]}, 'arguments'),
     ({'metric': 3}, 'not a metric'), ('xlbench.metrics.bleu:ChrF', 'not a metric')],
)  # fmt: skip
def test_a_spec_cannot_load_just_anything(spec, message):
    with pytest.raises(errors.UserError, match=message):
        metrics.from_spec(spec)


def test_a_fault_of_a_module_of_the_package_is_shown_as_it_is(tmp_path, monkeypatch):
    (tmp_path / 'faulty.py').write_text('[][0]')
    monkeypatch.setattr(metrics, '__path__', [*metrics.__path__, str(tmp_path)])
    with pytest.raises(IndexError):
        metrics.from_spec({'metric': 'xlbench.metrics.faulty:A'})


def test_settings_that_meteor_had():
    spec = metrics.to_spec(metrics.Meteor('de'))
    spec['kwargs'] |= dict(task='', beam=40, parameters=[])
    assert metrics.from_spec(spec) == metrics.Meteor('de')
    with pytest.raises(errors.UserError, match=r"arguments.*'task'"):
        metrics.from_spec(spec | dict(kwargs=dict(lang='de', task='adq')))


def test_a_module_may_be_allowed(monkeypatch):
    source = (
        'import dataclasses, subprocess\n'
        'from xlbench.metrics.rouge import Tokenizer\n'
        '@dataclasses.dataclass(frozen=True)\n'
        'class Length:\n'
        '    unit: int = 1\n'
        '    def __call__(self, targets, predictions):\n'
        '        return {"length": 0.0}\n'
    )
    module = types.ModuleType('my_metrics')
    monkeypatch.setitem(sys.modules, 'my_metrics', module)
    exec(source, module.__dict__)
    spec = metrics.to_spec(module.Length(2))
    assert spec == {'metric': 'my_metrics:Length', 'kwargs': {'unit': 2}}
    with pytest.raises(errors.UserError, match='may not be loaded'):
        metrics.from_spec(spec)
    monkeypatch.setenv('XLBENCH_METRICS', 'my_metrics')
    assert metrics.from_spec(spec) == module.Length(2)
    with pytest.raises(errors.UserError, match='is no metric'):
        metrics.from_spec({'metric': 'my_metrics:Tokenizer'})


@pytest.mark.parametrize('value', [len, metrics.ChrF, 'bleu'])
def test_only_metrics_can_be_written_down(value):
    with pytest.raises(errors.UserError, match='dataclass'):
        metrics.to_spec(value)


@pytest.mark.parametrize('metric', ALL, ids=repr)
def test_targets_and_predictions_that_are_no_pairs_of_texts(metric):
    for targets, predictions, message in (
        (['a', 'b'], ['a'], '2 targets but 1 predictions'),
        ([], [], 'no examples'),
        ([1], ['a'], r'targets\[0\] is int'),
        (['a'], [b'a'], r'predictions\[0\] (is|holds) bytes'),
        ('ab', 'ab', 'one text'),
    ):
        for call in (metric, metric.per_example):
            with pytest.raises(errors.UserError, match=message):
                call(targets, predictions)


@pytest.mark.parametrize(
    ('make', 'message'),
    [
        (lambda: metrics.SacreBleu('13'), r"unknown tokenizer of sacrebleu '13'; .*13a"),
        (lambda: metrics.SacreBleu.for_language('xx'), 'unknown language'),
        (lambda: metrics.Distinct('word'), 'unknown tokenizer of Distinct'),
        (lambda: metrics.ChunkF1('1.2.2'), 'unknown version of seqeval'),
        (lambda: metrics.MrsRouge('german'), 'unknown language'),
        (lambda: metrics.MrsRouge('de', ngrams='sets'), 'unknown kind of n-grams'),
        (lambda: metrics.MrsRouge('de', dist2_denominator='word'), 'unknown denominator of dist_2'),
        (lambda: metrics.MrsRouge('de', nbest=0), 'nbest is 0'),
        (lambda: metrics.MultilingualRouge('xx'), r"unknown language 'xx'.*languages\.register\("),
        (lambda: metrics.MultilingualRouge('germann'), 'german'),
        (lambda: metrics.Meteor('zh'), "unknown language of METEOR 'zh'"),
        (lambda: metrics.Meteor('it', text='norm'), 'cannot normalise it'),
        (lambda: metrics.Meteor('de', modules=('synonym',)), 'synonyms of English only'),
        (lambda: metrics.Meteor('tr'), 'stems of tr'),
        (lambda: metrics.Meteor('cz', modules=('exact', 'exact', 'exact')), '2 weights for cz'),
        (lambda: metrics.BertScore(model='hfl/chinese-bert-wwm-ext'), 'no usual layer'),
        (lambda: metrics.BertScore(), 'lang, such as de, or a model'),
        (lambda: metrics.BertScore.clidsum('en'), 'language of ClidSum'),
        (lambda: metrics.Classification(('a', 'b'))(['c'], ['a']),
         "unknown label among the targets 'c'"),
        (lambda: metrics.ChunkF1()(['A', 'A B'], ['A', 'A']),
         r'predictions\[1\] has 1 tags but its target has 2'),
        (lambda: metrics.MrsRouge('en')(['...'], [['a']]), 'no example is left'),
        (lambda: metrics.MrsValidationRouge()(['a'], [['a']]), 'three predictions'),
    ],
)  # fmt: skip
def test_what_a_metric_does_not_take(make, message):
    """Of settings it is said when it is made, and not after a day of training."""
    with pytest.raises(errors.UserError, match=message):
        make()


@pytest.mark.parametrize('metric', ALL, ids=repr)
def test_scores_and_examples_agree_on_names(metric):
    scores = metric(['ein Zug kommt'], ['ein Zug fährt'])
    [example] = metric.per_example(['ein Zug kommt'], ['ein Zug fährt'])
    assert set(example) <= set(scores)
    assert all(isinstance(value, float) for value in scores.values())
    assert metric.signature == type(metric)(**metrics.to_spec(metric)['kwargs']).signature


def test_seqio_takes_them():
    import numpy as np
    import seqio

    metric = metrics.MultilingualRouge('de')
    vocabulary = seqio.ByteVocabulary()
    task = seqio.Task(
        'metrics_spec_test',
        source=seqio.FunctionDataSource(lambda split, shuffle_files, seed=None: None, ['test']),
        output_features={'targets': seqio.Feature(vocabulary)},
        metric_fns=[metric, metrics.SacreBleu(), metrics.ChrF(), metrics.Distinct()],
    )
    assert task.predict_metric_fns[0] is metric and len(task.predict_metric_fns) == 4
    assert not task.score_metric_fns

    # As SeqIO's evaluator runs one: decoded, unpadded, and called by keyword.
    ids = np.array([vocabulary.encode('ein test  ')])
    result = task.metric_objs[0].from_model_output(
        inputs=[{'targets_pretokenized': 'ein kleiner test'}], model_output=ids,
        features=task.output_features, indices_2d=np.array([[0, 0]]), mask=np.array([1]),
    )  # fmt: skip
    scores, _ = result.actual_compute(
        [{'targets_pretokenized': 'ein kleiner test'}], task.output_features
    )
    assert scores == pytest.approx({'rouge_1': 80.0, 'rouge_2': 0.0, 'rouge_l': 80.0}, rel=1e-9)


WITH_NLTK = """
import sys

from xlbench.metrics import words

words.load_nltk()
later = 'scipy', 'sklearn'
assert 'nltk' in sys.modules and not any(name in sys.modules for name in later)

# What needs them works all the same.
import nltk
from scipy import stats
from sklearn.naive_bayes import BernoulliNB

test = nltk.BigramAssocMeasures.fisher(3, (5, 6), 20)
assert test == stats.fisher_exact([[3, 3], [2, 12]], alternative='less')[1]
classifier = nltk.classify.SklearnClassifier(BernoulliNB())
classifier.train([({'old': 1}, 'yes'), ({'new': 1}, 'no')] * 4)
assert classifier.classify({'old': 1}) == 'yes'
from nltk.parse import transitionparser
assert transitionparser.sparse.csr_matrix([[0, 2]]).nnz == 1
"""


def test_what_nltk_takes_from_other_packages_is_imported_when_it_is_called():
    done = subprocess.run(
        [sys.executable, '-c', WITH_NLTK], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_language_of_a_benchmark_is_scored():
    """A language without a segmenter, a stemmer or METEOR's settings has the stated fallback."""
    names = ['multilingual_rouge', 'sacrebleu', 'distinct', 'meteor_exact_stem', 'mrs_rouge', 'ter']
    text, unscored = 'ab cd, ef gh ij.', set()
    for lang in sorted({code for b in benchmarks.BENCHMARKS.values() for code in b.languages}):
        for name in names:
            try:
                suite = metrics.Suite('task', [suite_lib.named(name, lang)])
            except errors.UserError:
                unscored.add((name, lang))
                continue
            scores, _ = suite.score([text], [[text]])
            assert max(scores.values()) >= 99.9 or name == 'ter', (name, lang)
    # METEOR takes words with spaces between them.
    assert unscored == {('meteor_exact_stem', lang) for lang in ('ja', 'km', 'my', 'th', 'zh')}
    rouge, meteor = (
        suite_lib.named(name, 'yo') for name in ('multilingual_rouge', 'meteor_exact_stem')
    )
    assert 'tok:unicode|stem:no' in metrics.from_spec(rouge).signature
    assert metrics.from_spec(meteor).signature.startswith('meteor-1.5-wo-other-lc_only')
    assert 'stem:none' in metrics.MultilingualRouge('yo', stem=True).signature
