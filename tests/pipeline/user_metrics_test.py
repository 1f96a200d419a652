"""Metrics of a user's own: functions, partials, dataclasses; what may be imported; names."""

import dataclasses
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap

import jax
import mtg_files
import pages
import pytest
import tiny
import tiny_labels
from stand_ins import Copier, with_metrics

from xlbench import evaluate, evaluators, metrics, models
from xlbench.benchmarks import task_files
from xlbench.data import prepared, tokenizers
from xlbench.evaluators import baselines
from xlbench.metrics import specs
from xlbench.parallel import partitioning
from xlbench.system.errors import UserError
from xlbench.training import objectives

PLAIN = """
    import dataclasses
    import os
    import subprocess
    from subprocess import run

    def length(targets, predictions, unit='words'):
        parts = [text.split() if unit == 'words' else text for text in predictions]
        return {'length': sum(map(len, parts)) / len(parts)}

    def number_of_texts(targets, predictions):
        return {'texts': float(sum(map(len, predictions)))}

    number_of_texts.num_predictions = 2

    def right(targets, predictions):
        return {'right': sum(map(str.__eq__, targets, predictions))}

    def as_numbers(targets, predictions):
        return {'sum': sum(map(int, predictions))}

    def words_alone(targets, predictions):
        return {'first': len(predictions[0].split()[0])}

    def remove(path):
        os.remove(path)

    def text(targets, predictions):
        return {'text': predictions[0]}

    def loss(targets, predictions):
        return {'loss': 1.0}

    def numbered(targets, predictions):
        return {1: 1.0}

    def nothing(targets, predictions):
        return {}

    def leaves(targets, predictions):
        raise SystemExit(3)

    def empties(targets, predictions):
        targets.clear()
        return {'emptied': 1.0}

    @dataclasses.dataclass
    class Share:
        letter: str = 'a'

        def __call__(self, targets, predictions):
            return {'share': sum(self.letter in text for text in predictions) / len(predictions)}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder beside no clone, with tasks/; what was imported from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv('XLBENCH_TASKS', raising=False)
    monkeypatch.delenv('XLBENCH_METRICS', raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / 'tasks').mkdir()
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith(task_files.PACKAGE) or '_mine' in name:
            del sys.modules[name]


def write(path, text):
    path.write_text(textwrap.dedent(text), encoding='utf-8')
    return path


@pytest.fixture
def plain(folder):
    """The functions of tasks/plain.py."""
    return task_files.load(write(folder / 'tasks' / 'plain.py', PLAIN).resolve())


# What is written down, and what is imported.


def test_a_spec_names_the_users_own_file(plain):
    spec = {'metric': 'tasks/plain.py:length', 'kwargs': {}}
    assert metrics.to_spec(plain.length) == spec
    assert metrics.from_spec(spec) is plain.length
    partial = functools.partial(plain.length, unit='characters')
    spec = json.loads(json.dumps(metrics.to_spec(partial)))
    assert spec == {'metric': 'tasks/plain.py:length', 'kwargs': {'unit': 'characters'}}
    assert metrics.from_spec(spec)(['a'], ['abc']) == partial(['a'], ['abc']) == {'length': 3}
    share = metrics.from_spec(metrics.to_spec(plain.Share('b')))
    assert share == plain.Share('b')


def test_what_cannot_be_found_again_is_refused(plain):
    @dataclasses.dataclass
    class Local:
        def __call__(self, targets, predictions):
            return {}

    for metric, message in (
        (lambda targets, predictions: {}, 'cannot be found again by its name'),
        (Local(), 'cannot be found again by its name'),
        (functools.partial(plain.length, ['a']), 'arguments without a name'),
        (functools.partial(plain.length, unit={'a'}), 'cannot be written as JSON'),
        (plain.remove, 'it is called with .path., and a metric with .targets, predictions.'),
        (len, 'is not a metric that can be written down'),
    ):
        with pytest.raises(UserError, match=message):
            metrics.to_spec(metric)


@pytest.mark.parametrize(
    'path, kwargs, message',
    [
        ('tasks/plain.py:remove', {'path': 'x'}, 'is not a metric'),
        ('tasks/plain.py:run', {}, 'is no metric'),
        ('tasks/plain.py:os', {}, 'is no metric'),
        ('tasks/plain.py:length', {'units': 'words'}, "unexpected keyword argument 'units'"),
        ('tasks/plain.py:length', {'targets': []}, 'does not take these arguments'),
        ('tasks/plain.py:gone', {}, 'does not exist'),
        ('tasks/gone.py:length', {}, 'put tasks/gone.py into the current folder'),
        ('tasks/../evil_mine.py:length', {}, 'does not exist'),
        ('/tmp/evil_mine.py:length', {}, 'does not exist'),
        ('evil_mine:length', {}, 'set XLBENCH_METRICS=evil_mine if you trust it'),
        # A module that plain.py imports.
        ('subprocess:run', {'args': ['touch', 'HACKED']}, 'is not a metric'),
        ('tasks.plain:length', {}, 'may not be loaded'),
    ],
)
def test_a_file_names_nothing_but_metrics_of_the_users(plain, folder, path, kwargs, message):
    write(folder / 'evil_mine.py', 'open("HACKED", "w")\ndef length(targets, predictions): pass')
    with pytest.raises(UserError, match=message) as raised:
        metrics.from_spec({'metric': path, 'kwargs': kwargs})
    assert '\n' not in str(raised.value)
    assert not (folder / 'HACKED').exists() and 'evil_mine' not in sys.modules


def test_modules_that_the_user_names(folder, monkeypatch):
    write(folder / 'module_mine.py', 'def length(targets, predictions): return {"length": 1}')
    spec = {'metric': 'module_mine:length', 'kwargs': {}}
    with pytest.raises(UserError, match='may not be loaded'):
        metrics.Suite('talk_a', [spec])
    with monkeypatch.context() as patch:
        patch.setenv('XLBENCH_METRICS', 'json, module_mine')
        assert metrics.Suite('talk_a', [spec]).score(['a'], [['b']])[0] == {'length': 1}
    # With a package goes what is inside it, and not what is only called alike.
    (folder / 'package_mine').mkdir()
    write(folder / 'package_mine' / 'inner.py', 'def length(targets, predictions): return {"n": 1}')
    inner = {'metric': 'package_mine.inner:length', 'kwargs': {}}
    with monkeypatch.context() as patch:
        patch.setenv('XLBENCH_METRICS', 'package_mine')
        assert metrics.from_spec(inner)(['a'], ['b']) == {'n': 1}
        patch.setenv('XLBENCH_METRICS', 'package,package_mine.inner.more,inner')
        with pytest.raises(UserError, match='may not be loaded'):
            metrics.from_spec(inner)
    # Or in a task file, which is not run for that.
    write(folder / 'tasks' / 'talk.py', 'from module_mine import length\nraise RuntimeError')
    assert metrics.Suite('talk_a', [spec]).score(['a'], [['b']])[0] == {'length': 1}


def test_tasks_of_a_workdir_that_one_stands_in_do_not_count(plain, folder):
    spec = metrics.to_spec(plain.length)
    (folder / 'config.json').write_text('{}')
    with pytest.raises(UserError, match='not here; go to another folder than this one'):
        metrics.from_spec(spec)


def test_a_file_that_cannot_be_imported_is_one_line(folder):
    write(folder / 'tasks' / 'broken.py', 'import no_such_module_mine\n')
    message = r"No module named 'no_such_module_mine' \(.*broken.py, line 1\)"
    with pytest.raises(UserError, match=message):
        metrics.from_spec({'metric': 'tasks/broken.py:length'})


def test_a_process_of_its_own_says_such_a_file_in_one_line(folder):
    broken = 'from xlbench import pipeline\nimport no_such_module_mine\n'
    write(folder / 'tasks' / 'broken.py', broken)
    code = """
        import sys
        from xlbench import metrics; from xlbench.system import errors

        def main(argv):
            metrics.from_spec({'metric': 'tasks/broken.py:length'})

        sys.exit(errors.run_main(main, []))
    """
    done = subprocess.run(
        [sys.executable, '-c', textwrap.dedent(code)], capture_output=True, text=True,
        env={key: text for key, text in os.environ.items() if not key.startswith('TF_')},
    )  # fmt: skip
    assert done.returncode == 2
    assert re.fullmatch(r"error: metric .* No module named 'no_such_module_mine' .*\n", done.stderr)


def test_a_downloaded_workdir_runs_no_code(retriever_run, folder):
    """Its config allows a module, its data's manifest names one; both lie in the current folder."""
    shutil.copytree(retriever_run, folder / 'run')
    about = json.loads((folder / 'run' / 'config.json').read_text())
    root = folder / 'data'
    shutil.copytree(about['config']['data']['root'], root)
    about['config']['data']['root'] = str(root)
    for block in about['config']['evals'].values():
        block['allow_metrics'] = ['evil_mine']
    (folder / 'run' / 'config.json').write_text(json.dumps(about))
    for path in root.rglob('manifest.json'):
        manifest = json.loads(path.read_text())
        manifest['metrics'] = [{'metric': 'evil_mine:Metric', 'kwargs': {}}]
        path.write_text(json.dumps(manifest))
    write(folder / 'evil_mine.py', 'open("HACKED", "w")\n')
    with pytest.raises(UserError, match='only a file names it') as raised:
        evaluate.main(['evaluate', f'--workdir={folder / "run"}', '--split=test'])
    assert 'task mrs_retrieval_en_en: metric' in str(raised.value)
    assert not (folder / 'HACKED').exists() and 'evil_mine' not in sys.modules


# Scoring.


class Repeater(Copier):
    """Writes its input, and the input without its first token."""

    def init_cache(self, encoded, segments, max_length, beams=1):
        return {'source': encoded, 'step': 0}

    def decode_step(self, cache, tokens):
        scores = 5.0 * jax.nn.one_hot(cache['source'][:, cache['step'] % 24], 128)
        return scores, cache | {'step': cache['step'] + 1}


class NoLoss:
    scale, view = 1.0, 'generation'

    def row_losses(self, model, params, batch):
        weight = batch['decoder_loss_weights'].sum(-1)
        return {'loss': 0.0 * weight, 'weight': weight}


def generation(root, task, **options):
    mesh = partitioning.make_mesh(devices=jax.devices()[:1])
    tokenizer = tokenizers.load('sample', str(root))
    options = {'batch_size': 12, 'lengths': tiny.LENGTHS} | options
    return evaluators.find('generation')([task], Repeater(), NoLoss(), mesh, tokenizer, **options)


@pytest.fixture(scope='module')
def task(tiny_root):
    return prepared.open_task(str(tiny_root), 'sample', tiny.QUESTIONS[0], 'test')


def test_a_generator_and_its_baselines(tiny_root, task, plain, tmp_path):
    mine = with_metrics(
        task, metrics.MultilingualRouge('en'), plain.length,
        functools.partial(plain.length, unit='characters'), plain.number_of_texts, plain.Share('e'),
    )  # fmt: skip
    evaluator = generation(tiny_root, mine, num_examples=16)
    found = evaluator.run({}, 7, str(tmp_path), 'stage1')[mine.name]
    folder = tmp_path / 'eval' / '7' / 'test' / mine.name
    rows = [json.loads(line) for line in (folder / 'predictions.jsonl').read_text().splitlines()]
    texts = [row['prediction'] for row in rows]
    assert len(texts) == 16
    assert found['length'] == pytest.approx(sum(len(text.split()) for text in texts) / 16)
    assert found['length_characters'] == pytest.approx(sum(map(len, texts)) / 16)
    assert found['texts'] == 16  # A list of the only text of each.
    assert found['share'] == pytest.approx(sum('e' in text for text in texts) / 16)
    assert 'rouge_l' in rows[0]['scores'] and 'length' not in rows[0]['scores']
    signatures = json.loads((folder / 'metrics.json').read_text())['signatures']
    assert set(signatures) == {
        'MultilingualRouge', 'length', 'length_characters', 'number_of_texts', 'Share'
    }  # fmt: skip
    assert re.fullmatch(
        r'tasks/plain.py:length\|unit:characters\|file:\w{12}', signatures['length_characters']
    )
    # The baselines are scored with the same, on the same examples.
    train = prepared.open_task(str(tiny_root), 'sample', task.name, 'train')
    baselines.score(str(tmp_path), ('most_frequent',), mine, train, evaluator.examples(mine.name))
    path = tmp_path / 'eval' / 'baselines' / 'most_frequent' / 'test' / mine.name / 'metrics.json'
    result = json.loads(path.read_text())
    assert result['num_examples'] == 16 and result['scores']['texts'] == 32
    assert set(result['scores']) == set(found) - {'loss', 'perplexity'}


@pytest.mark.parametrize('view', tiny_labels.LABELS)
def test_labels_and_tags(view, plain, tmp_path):
    name = tiny_labels.TASKS[view][0]
    rows = tiny_labels.records(view, name, 'test')
    made = tiny_labels.write_task(tmp_path, view, name, 'test', rows)
    mine = with_metrics(made, plain.right)
    family = {'classification': 'sequence_classifier', 'tagging': 'token_classifier'}[view]
    model = models.build(
        family, 'sample', vocab_size=128, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32,
        num_layers=1, max_positions=32, num_labels=3,
    )  # fmt: skip
    mesh = partitioning.make_mesh(devices=jax.devices()[:1])
    evaluator = evaluators.find('labels')(
        [mine], model, objectives.build(view), mesh, None,
        batch_size=45, lengths=tiny_labels.LENGTHS,
    )  # fmt: skip
    # Built, so checked; what it scores is what the metric gets.
    assert mine.manifest['metrics'] == [{'metric': 'tasks/plain.py:right', 'kwargs': {}}]
    suite = evaluator.tasks[0].metrics
    targets = [row['targets_pretokenized'] for row in rows]
    assert suite.score(targets, [[text] for text in targets])[0] == {'right': 45}
    with pytest.raises(UserError, match=r'metric tasks/plain.py:as_numbers of task .* ValueError'):
        evaluators.find('labels')(
            [with_metrics(made, plain.as_numbers)], model, objectives.build(view), mesh,
            None, batch_size=45, lengths=tiny_labels.LENGTHS,
        )  # fmt: skip


@pytest.mark.parametrize(
    'name, message',
    [
        ('as_numbers', r'ended with ValueError: invalid literal for int.*plain.py, line \d+\)'),
        # Right predictions do not show it.
        ('words_alone', r"IndexError: list index out of range .*predictions were '' and '\?!'"),
        ('text', "gives 'text': '.*', which is not a number"),
        ('loss', "gives the score 'loss', and so does the evaluation itself"),
        ('numbered', "gives a score the name 1; a name is a text, such as '1'"),
        ('nothing', 'gives no score; it has to return a dictionary'),
        ('leaves', 'ended with SystemExit: 3'),
    ],
)
def test_a_run_does_not_begin_with_a_metric_that_fails(tiny_root, task, plain, name, message):
    mine = with_metrics(task, getattr(plain, name))
    with pytest.raises(UserError, match=message) as raised:
        generation(tiny_root, mine)
    assert '\n' not in str(raised.value)
    assert f'metric tasks/plain.py:{name} of task {task.name}' in str(raised.value)
    if name != 'loss':  # Nor is anything scored with it where nothing is decoded.
        generation(tiny_root, mine, decode=False)


def test_a_metric_cannot_take_the_targets_from_the_next(plain):
    suite = metrics.Suite('t', [specs.to_spec(f) for f in (plain.empties, plain.right)])
    scores, _ = suite.score(['a', 'b'], [['a'], ['b']])
    assert scores == {'emptied': 1.0, 'right': 2.0}


def test_manifests_of_strangers_are_one_line(task, folder):
    """Every value of every metric's spec, replaced by what nobody writes."""
    strange = [None, True, -1, 1.5, 10**30, '', '²', 'x' * 5000, [], [[]], {}, {'a': 1}]
    ours = [
        metrics.MrsRouge('en'), metrics.MultilingualRouge('en'), metrics.SacreBleu(),
        metrics.Classification(('a', 'b')), metrics.ChunkF1(), metrics.TagAccuracy(),
        metrics.Distinct(), metrics.MrsValidationRouge(),
    ]  # fmt: skip
    written = [[spec] for spec in strange] + [None, 'x', 3, {}]
    for spec in map(metrics.to_spec, ours):
        written += [[spec | {key: value}] for key in ('metric', 'kwargs') for value in strange]
        for name in (*spec['kwargs'], 'more'):
            written += [[spec | {'kwargs': spec['kwargs'] | {name: value}}] for value in strange]
    refused = 0
    for found in written:
        try:
            suite = metrics.Suite(task.name, found)
            suite.check(lambda count: ['a b', 'b a b'], 3)
            assert suite.signatures() is not None
        except UserError as error:
            assert '\n' not in str(error)
            refused += 1
    assert refused > 200 and len(written) - refused > 20


# Names.


def test_variants_of_one_metric_have_names_of_their_own():
    found = [
        metrics.SacreBleu(), metrics.SacreBleu('char'), metrics.MrsRouge('en'),
        metrics.MrsRouge('en', nbest=1), metrics.MultilingualRouge('en'),
        metrics.MultilingualRouge('en', stem=True),
    ]  # fmt: skip
    suite = metrics.Suite('chat_a', [metrics.to_spec(metric) for metric in found])
    targets, n_best = ['the old bridge is open'], [['it is so', 'the old bridges are open']]
    scores, (example,) = suite.score(targets, n_best)
    first = ['it is so']
    assert scores['bleu'] == pytest.approx(metrics.SacreBleu()(targets, first)['bleu'])
    assert scores['bleu_char'] == pytest.approx(metrics.SacreBleu('char')(targets, first)['bleu'])
    for metric, suffix in ((metrics.MrsRouge('en'), ''), (found[3], '_nbest1')):
        for name, value in metric(targets, n_best).items():
            assert scores[name + suffix] == pytest.approx(value)
    assert scores['mrs_rouge'] > scores['mrs_rouge_nbest1']
    assert {'rouge_l', 'rouge_l_stem'} <= set(scores)
    assert {'bleu_char', 'rouge_l_stem', 'mrs_rouge_nbest1'} <= set(example)
    assert suite.signatures()['SacreBleu_char'] == metrics.SacreBleu('char').signature
    assert len(suite.signatures()) == len(found) and suite.num_predictions == 3
    with pytest.raises(UserError, match=r'task chat_a has the metric .*SacreBleu twice'):
        metrics.Suite('chat_a', [metrics.to_spec(metrics.SacreBleu())] * 2)


def test_different_metrics_of_one_score_are_refused_before_the_run(tiny_root, task, folder):
    text = 'def {0}(targets, predictions): return {{"chrf": 1}}'
    module = task_files.load(
        write(folder / 'tasks' / 'two.py', '\n'.join(map(text.format, ('one', 'two')))).resolve()
    )
    message = 'two.py:{} of task .* gives the score .chrf., and so does {}'
    for pair, names in (
        ((module.one, module.two), ('two', 'tasks/two.py:one')),
        ((metrics.ChrF(), module.one), ('one', 'xlbench.metrics.bleu:ChrF')),
    ):
        with pytest.raises(UserError, match=message.format(*names)):
            generation(tiny_root, with_metrics(task, *pair))


# The documentation.


@pytest.mark.nightly
def test_the_example_of_the_documentation(folder):
    """Its blocks as they stand, prepared with SeqIO, and scored by a process without TensorFlow."""
    blocks = [block.text for block in pages.blocks('python') if block.page == 'your_own.md']
    for block in (text for text in blocks if text.startswith('# tasks/news')):
        write(folder / block.split()[1], block)
    assert sorted(os.listdir('tasks')) == ['news.py', 'news_metrics.py']
    (folder / 'data' / 'news').mkdir(parents=True)
    records = [{'text': 'Der Zug hielt im Schnee.', 'lead': 'Zug steht'}] * 20
    for split in ('train', 'dev'):
        lines = ''.join(json.dumps(record) + '\n' for record in records)
        (folder / 'data' / 'news' / f'de.{split}.jsonl').write_text(lines)
    code = """
        import sys
        from xlbench import metrics; from xlbench.data import prepared
        task = prepared.open_task('data', 'sample', 'news_lead_de', 'validation')
        suite = metrics.Suite(task.name, task.manifest['metrics'])
        scores, _ = suite.score(['Zug steht', 'Schnee'], [['Zug steht'], ['ein Zug steht']])
        assert scores['length'] == 2.5 and scores['length_characters'] == 11, scores
        assert scores['rouge_l'] == 50, scores
        assert not {'tensorflow', 'seqio', 'jax'} & set(sys.modules)
        # Nor does a metric in a task's own file need them.
        inside = metrics.from_spec({'metric': 'tasks/inside.py:inside'})
        assert inside(['a'], ['b']) == {'inside': 1}
        assert not {'tensorflow', 'seqio', 'jax'} & set(sys.modules)
    """
    write(
        folder / 'tasks' / 'inside.py',
        """
        from xlbench import pipeline

        def inside(targets, predictions):
            return {'inside': len(predictions)}

        pipeline.register_text_task(
            'inside_a', files={'train': 'a.jsonl'}, format='jsonl', metrics=[inside],
            fields={'inputs': 'a', 'targets': 'b'},
        )
        """,
    )
    mtg_files.write_vocabulary(folder / 'data')
    environment = os.environ | {'PYTHONPATH': ''}
    for arguments in (
        ['-m', 'xlbench.prepare', '--mixture=news_lead_de', '--split=validation'],
        ['-c', textwrap.dedent(code)],
    ):
        done = subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, env=environment
        )
        assert done.returncode == 0, done.stderr
