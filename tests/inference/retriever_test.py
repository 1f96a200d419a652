"""What a retriever suggests: from which responses, in which language, what is kept of it."""

import json
import pathlib
import shutil

import edits
import encoder_folders
import jax
import numpy as np
import pytest
import safetensors.numpy
import tiny_replies

from xlbench import evaluate, models, predict
from xlbench.data import prepared, tokenizers
from xlbench.evaluators.generation import Example
from xlbench.huggingface import checkpoint
from xlbench.inference import retriever as retriever_lib
from xlbench.system.errors import UserError

GERMAN = ['magst du Tee', 'wie ist es heute mit Regen', 'wer kennt Brot']
OFFICIAL = [
    *[(-0.1 * i, f'ich liebe {word} {i}', 'love') for i in range(20) for word in ('Tee', 'Brot')],
    (-9.0, 'kein Tee für mich', 'no'),
    (-2.0, 'wer kennt Regen nicht', 'who'),
    (-1.5, 'wer kennt ihn nicht', 'who'),
    (-3.0, 'im Winter', 'when'),
]


@pytest.fixture
def run(retriever_run, tmp_path):
    """A copy of the run that may be changed."""
    return pathlib.Path(shutil.copytree(retriever_run, tmp_path / 'run'))


@pytest.fixture(scope='module')
def retriever(retriever_run, tmp_path_factory):
    copy = shutil.copytree(retriever_run, tmp_path_factory.mktemp('module') / 'run')
    return predict.load(str(copy), batch_size=8)


@pytest.fixture(scope='module')
def official(tmp_path_factory):
    path = tmp_path_factory.mktemp('file') / 'response_lm_cluster.txt'
    path.write_text(''.join(f'{score}\t{text}\t{cluster}\n' for score, text, cluster in OFFICIAL))
    return str(path)


@pytest.fixture
def no_encoding(monkeypatch):
    """Replies cannot be encoded."""

    def fail(self, params, rows):
        assert self._side == 'left', 'replies are encoded'
        return encode(self, params, rows)

    encode = retriever_lib.TextEncoder.__call__
    monkeypatch.setattr(retriever_lib.TextEncoder, '__call__', fail)


def change(run, **overrides):
    """Other settings in the config of a run."""
    with edits.edited(run / 'config.json') as about:
        for key, value in overrides.items():
            *blocks, last = key.split('__')
            block = about['config']
            for name in blocks:
                block = block[name]
            block[last] = value


def texts(found):
    return [[suggestion.text for suggestion in row] for row in found]


def by_hand(retriever, message, count, lm_weight=0.0):
    """Scores of all pairs, sorted; the first of each cluster: [(score, text)]."""
    scores = retriever.relevance([message] * len(OFFICIAL), [text for _, text, _ in OFFICIAL])
    scores = scores + lm_weight * np.array([score for score, _, _ in OFFICIAL])
    best = {}
    for i in np.argsort(-scores, kind='stable'):
        best.setdefault(OFFICIAL[i][2], (scores[i], OFFICIAL[i][1]))
    return list(best.values())[:count]


# -------------------------------------------------------------------------------------- suggestions


@pytest.mark.filterwarnings('ignore:.*tokens and were cut')
def test_suggestions_are_the_evaluators(retriever, run):
    """The same responses and scores, though in other batches."""
    evaluate.main(['evaluate', f'--workdir={run}'])
    for lang, task in zip(tiny_replies.LANGS, tiny_replies.TASKS, strict=True):
        path = run / 'eval' / '0' / 'test' / task / 'predictions.jsonl'
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        found = retriever.suggest([row['input'] for row in rows], lang)
        for own, row in zip(found, rows, strict=True):
            assert [s.text for s in own] == [s['text'] for s in row['suggestions']]
            scores = [s['score'] for s in row['suggestions']]
            assert [s.score for s in own] == pytest.approx(scores, abs=1e-4)
            assert len(own) == 3


@pytest.mark.parametrize('lm_weight', [0.0, 5.0])
def test_the_first_of_each_cluster_from_as_many_as_it_takes(retriever, run, official, lm_weight):
    """40 of 44 responses say the same, so that the best 15 are too few."""
    found = predict.load(str(run), batch_size=8, responses=official, lm_weight=lm_weight)
    for count in (1, 3, 4, 50):
        for message, own in zip(GERMAN, found.suggest(GERMAN, count=count), strict=True):
            expected = by_hand(retriever, message, count, lm_weight)
            assert [s.text for s in own] == [text for _, text in expected]
            assert [s.score for s in own] == pytest.approx([x for x, _ in expected], abs=1e-4)
            assert len(own) == min(count, 4)


def test_settings_are_the_final_evaluations(retriever, run, official):
    change(run, evals__test__lm_weight=5.0)
    found = predict.load(str(run), batch_size=8, responses=official)
    expected = by_hand(retriever, GERMAN[0], 3, 5.0)
    assert texts(found.suggest(GERMAN[:1])) == [[text for _, text in expected]]
    assert expected != by_hand(retriever, GERMAN[0], 3)


def test_empty_texts_have_no_replies(retriever):
    alone = retriever.suggest(GERMAN[:1], 'de')
    assert retriever.suggest(['', GERMAN[0], ' \t'], 'de') == [[], *alone, []]
    assert retriever.suggest([''], 'de') == [[]] and retriever.suggest([], 'de') == []


def test_long_messages_are_cut_and_counted(retriever):
    with pytest.warns(UserWarning, match='1 of 2 inputs were longer than 24 tokens and were cut'):
        found = retriever.suggest([' '.join(GERMAN * 3), GERMAN[0]], 'de')
    assert texts(found[1:]) == texts(retriever.suggest(GERMAN[:1], 'de'))


def test_a_stream_in_two_languages(retriever):
    """In order, each from its own set; what came before a pause is answered before it goes on."""
    read = []
    examples = [Example(text, None, lang) for text in GERMAN for lang in ('de', 'en')]

    def reading():
        for i, example in enumerate(examples * 8):
            read.append(i)
            yield example
            if i in (0, 2):
                yield None

    answers = retriever.stream(reading())
    expected = [retriever.suggest([e.text], e.target_lang) for e in examples]
    for i in range(4):
        assert texts([next(answers)]) == texts(expected[i])
        assert len(read) == (1, 3, 3, 3 + 4 * 8)[i]
    rest = list(answers)
    assert len(rest) == 44
    assert texts(rest) == [texts(expected[i % 6])[0] for i in range(4, 48)]
    assert all(' ich ' not in f' {s.text} ' for s in expected[1][0])


def test_relevance_is_of_pairs(retriever):
    """Each text is encoded alone: whatever stands beside it."""
    replies = ['ich liebe Tee', 'im Winter', 'ich liebe Tee']
    messages = [GERMAN[0], GERMAN[0], GERMAN[1]]
    found = retriever.relevance(messages, replies)
    alone = [retriever.relevance([m], [r])[0] for m, r in zip(messages, replies, strict=True)]
    np.testing.assert_allclose(found, alone, atol=1e-4)
    assert np.abs(found).max() <= 20 * (1 + 1e-5)  # Cosines times the scale.


# ---------------------------------------------------------------------------------------- languages


def test_languages(retriever, run, official):
    with pytest.raises(UserError, match=r'it has response sets in en, de\. Set target_lang to one'):
        retriever.suggest(GERMAN)
    with pytest.raises(UserError, match="does not know the target language 'fr'; allowed: en, de"):
        retriever.suggest(GERMAN, 'fr')
    # Those of a file are for all messages.
    found = predict.load(str(run), batch_size=8, responses=official)
    assert found.mark('en', 'fr') == found.mark(None, None) is None
    # One that the final evaluation lacks is known, too; the only one is the default.
    change(run, evals__test__tasks=[tiny_replies.TASKS[1]], evals__dev__responses='')
    found = predict.load(str(run), batch_size=8)
    assert found.languages.allowed == ('de', 'en')
    with edits.edited(run / 'config.json') as about:
        del about['tasks'][tiny_replies.TASKS[0]]
    found = predict.load(str(run), batch_size=8)
    assert (found.languages.allowed, found.mark(None, None)) == (('de',), 'de')
    change(run, evals__test__responses='')
    with pytest.raises(UserError, match='without a response set; name one with --responses=FILE'):
        predict.load(str(run), batch_size=8).suggest(GERMAN)


def test_mistakes(retriever):
    for count in (0, -1):
        with pytest.raises(UserError, match=f'{count} suggestions are asked for; 1 or more'):
            retriever.suggest(GERMAN, 'de', count)
    with pytest.raises(UserError, match='a list of texts'):
        retriever.suggest('text', 'de')


# ---------------------------------------------------------------------------------- what is on disk


def test_vectors_are_kept(run, retriever, official, no_encoding, monkeypatch, capsys):
    """For this model and these texts, in whichever process."""
    expected = texts(retriever.suggest(GERMAN, 'de'))
    copied = shutil.copytree(
        retriever._opened.workdir / 'responses', run / 'responses', dirs_exist_ok=True
    )
    found = predict.load(str(run), batch_size=8)
    assert texts(found.suggest(GERMAN, 'de')) == expected and not capsys.readouterr().err
    # Other texts, other parameters and another type have other vectors.
    others = [dict(responses=official), dict(dtype='bfloat16')]
    for options in others:
        with pytest.raises(AssertionError, match='replies are encoded'):
            predict.load(str(run), batch_size=8, **options).suggest(GERMAN, 'de')
    found._params = jax.tree.map(lambda leaf: leaf * 2, found._params)
    found.__dict__.pop('digest')
    found._sets.clear()
    with pytest.raises(AssertionError, match='replies are encoded'):
        found.suggest(GERMAN, 'de')
    assert len(list(pathlib.Path(copied).iterdir())) == 2


DAMAGES = {
    'shape': lambda array: array[:-1],
    'type': lambda array: array.astype(np.float64),
    'objects': lambda array: array.astype(object),
    'infinite': lambda array: np.full_like(array, np.inf),
}


def test_a_damaged_file_is_replaced(run, retriever, capsys):
    expected = texts(retriever.suggest(GERMAN, 'de'))
    shutil.copytree(retriever._opened.workdir / 'responses', run / 'responses')
    paths = list((run / 'responses').iterdir())
    whole = {path: path.read_bytes() for path in paths}
    found = predict.load(str(run), batch_size=8)
    for damage in ('cut', 'empty', *DAMAGES):
        for path, data in whole.items():
            path.write_bytes(data[:-5] if damage == 'cut' else b'')
            if damage in DAMAGES:
                path.write_bytes(data)
                np.save(path, DAMAGES[damage](np.load(path)))
        found._sets.clear()
        capsys.readouterr()
        assert texts(found.suggest(GERMAN, 'de')) == expected
        assert 'encoding 24 responses (de), kept in' in capsys.readouterr().err
        repaired = [path for path in paths if path.read_bytes() == whole[path]]
        assert len(repaired) == 1 and set((run / 'responses').iterdir()) == set(paths)


def test_a_workdir_that_cannot_be_written(run, retriever, capsys):
    (run / 'responses').write_text('not a folder')
    found = predict.load(str(run), batch_size=8)
    assert texts(found.suggest(GERMAN, 'de')) == texts(retriever.suggest(GERMAN, 'de'))
    assert 'cannot be written (' in capsys.readouterr().err


def test_a_missing_response_set_is_prepared(run, monkeypatch):
    asked = []

    def ensure(needed, data, to_stderr):
        asked.append((needed, data.vocabulary, data.sample, to_stderr))
        if len(asked) == 2:
            raise SystemExit(2)

    monkeypatch.setattr(prepared, 'ensure', ensure)
    found = predict.load(str(run), batch_size=8)
    found.ready('de')
    assert asked == [([(tiny_replies.TASKS[1], 'responses')], 'sample', False, True)]
    found.ready('de')
    assert len(asked) == 1
    with pytest.raises(UserError, match=r'cannot be prepared .* name another one with --responses'):
        found.ready('en')


def test_another_vocabulary_is_refused(run, monkeypatch):
    open_task = prepared.open_task

    def other(*args):
        found = open_task(*args)
        vocabulary = found.manifest['vocabulary'] | {'sha256': '0' * 64}
        return prepared.Prepared(found.folder, found.manifest | {'vocabulary': vocabulary})

    monkeypatch.setattr(prepared, 'open_task', other)
    with pytest.raises(UserError, match='was prepared with another vocabulary than'):
        predict.load(str(run), batch_size=8).ready('de')


# --------------------------------------------------------------------------------- the command line


@pytest.fixture
def call(retriever, monkeypatch, tmp_path, capsys):
    """Runs the command line on the loaded retriever: what it writes."""
    monkeypatch.setattr(predict, 'load', lambda name, **options: retriever)

    def main(*arguments, lines=GERMAN):
        suffix = 'jsonl' if lines and lines[0].startswith('{') else 'txt'
        (tmp_path / f'in.{suffix}').write_text(''.join(f'{line}\n' for line in lines))
        path = f'--input={tmp_path}/in.{suffix}'
        assert predict.main(['predict', 'RUNS/retriever', path, *arguments]) == 0
        return capsys.readouterr().out.splitlines()

    return main


def test_three_numbered_lines_for_a_message(call, retriever):
    found = retriever.suggest(GERMAN[:2], 'de')
    lines = [GERMAN[0], '', GERMAN[1]]
    expected = [(n, s) for n, row in zip((1, 3), found, strict=True) for s in row]
    assert call('--target_lang=de', lines=lines) == [f'{n}\t{s.text}' for n, s in expected]
    scored = [line.split('\t') for line in call('--target_lang=de', '--scores', lines=lines)]
    assert [(int(n), text) for n, _, text in scored] == [(n, s.text) for n, s in expected]
    scores = [float(score) for _, score, _ in scored]
    assert scores == pytest.approx([s.score for _, s in expected], abs=1e-3)
    one = call('--target_lang=de', '--num_return=1', lines=lines)
    assert one == [found[0][0].text, '', found[1][0].text]
    assert len(call('--target_lang=de', '--num_return=5', lines=lines)) == 10


def test_records_in_their_languages(call, retriever):
    records = [
        {'inputs': GERMAN[0], 'target_lang': 'de', 'source_lang': 'de', 'id': 7},
        {'inputs': 'do you like tea', 'target_lang': 'en'},
        {'inputs': '', 'target_lang': 'en'},
    ]
    found = [json.loads(line) for line in call('--scores', lines=list(map(json.dumps, records)))]
    expected = [
        *retriever.suggest([GERMAN[0]], 'de'), *retriever.suggest(['do you like tea'], 'en'), []
    ]  # fmt: skip
    for record, row, n_best in zip(records, found, expected, strict=True):
        assert {key: row[key] for key in record} == record
        assert [p['prediction'] for p in row['predictions']] == [s.text for s in n_best]
        scores = [p['score'] for p in row['predictions']]
        assert scores == pytest.approx([s.score for s in n_best], abs=1e-4)
        assert all(set(p) == {'prediction', 'score'} for p in row['predictions'])
    single = call('--num_return=1', lines=list(map(json.dumps, records)))
    assert json.loads(single[2])['prediction'] == ''


@pytest.mark.parametrize(
    'arguments, message',
    [
        ((), 'needs a target language: it has response sets in en, de'),
        (('--target_lang=fr',), "does not know the target language 'fr'"),
        (('--target_lang=de', '--num_beams=3'), '--num_beams is for models that write their answ'),
        (('--target_lang=de', '--rerank=other'), '--rerank is for models that write their answers'),
        (('--target_lang=de', '--mmi_model=other'), '--mmi_model is for models that write their'),
        (('--target_lang=de', '--num_return=0'), '--num_return is 0; it must be 1'),
    ],
)
def test_wrong_flags(call, arguments, message):
    with edits.refused(message):
        call(*arguments)


def test_a_layer_over_the_first_state_is_a_pooler(tmp_path):
    """LaBSE's form: first state, layer, tanh, length 1."""
    folder = encoder_folders.make_sentences(
        encoder_folders.write(tmp_path / 'labse', 'bert-cased', has_pooler=True),
        prompts={}, steps=('Pooling', 'Dense', 'Normalize'), pooling_mode_cls_token=True,
    )  # fmt: skip
    layer, rng = tmp_path / 'labse' / '2_Dense', np.random.default_rng(0)
    layer.mkdir()
    weights = {'linear.weight': (16, 16), 'linear.bias': (16,)}
    weights = {name: rng.normal(size=shape).astype('f4') for name, shape in weights.items()}
    safetensors.numpy.save_file(weights, layer / 'model.safetensors')
    about = {'in_features': 16, 'activation_function': 'torch.nn.modules.activation.Tanh'}
    (layer / 'config.json').write_text(json.dumps(about))
    model, texts = predict.load(folder), ['Wo ist Anna?', 'rain']
    bert = models.build(**checkpoint.open(folder).model)
    params = {'params': checkpoint.load_params(checkpoint.open(folder))}
    vectors = []
    for ids in tokenizers.load(folder, '').encode_inputs(texts):
        state = bert.apply(params, ids[None])[0, 0]
        vector = np.tanh(weights['linear.weight'] @ state + weights['linear.bias'])
        vectors.append(vector / np.linalg.norm(vector))
    expected = np.array(vectors) @ np.array(vectors).T
    found = [model.relevance([text] * 2, texts) for text in texts]
    np.testing.assert_allclose(np.array(found) / found[0][0], expected, atol=1e-5)  # A scale.
    (layer / 'config.json').write_text('{"activation_function": "torch.nn.Identity"}')
    with pytest.raises(UserError, match='no layer and tanh'):
        predict.load(folder)
