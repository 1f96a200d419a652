"""Text in, text out: what the evaluator wrote, in the order of the input, and refusals."""

import contextlib
import gzip
import io
import json
import pathlib
import shutil
import subprocess
import sys
import types
import zlib

import edits
import jax
import numpy as np
import pytest
import tiny
import tokenizer_files

from xlbench import convert, decoding, models, predict
from xlbench.config import commands
from xlbench.data import features, tokenizers
from xlbench.evaluators.generation import Example
from xlbench.huggingface import checkpoint as hf_checkpoint, tensors
from xlbench.inference import answer_lines, answering, generator, reranking
from xlbench.inference.answering import Languages, LoadedModel
from xlbench.models import lora
from xlbench.parallel import partitioning
from xlbench.settings.decoding import FLAGS, given_options
from xlbench.system.errors import UserError
from xlbench.training import checkpoints, objectives, train_step

PROJECT = pathlib.Path(__file__).parents[2]
TARGETS = dict(target_lang='de')


@contextlib.contextmanager
def one_device():
    """Inside, the machine has one device, as most have."""
    found = partitioning.make_mesh
    with pytest.MonkeyPatch.context() as patch:
        one = {'devices': jax.devices()[:1]}
        patch.setattr(partitioning, 'make_mesh', lambda **sizes: found(**sizes | one))
        yield


@pytest.fixture(scope='module')
def run(tiny_run, tiny_root, tmp_path_factory):
    """The tiny run where its data is not: config, checkpoint and the vocabulary."""
    folder = tmp_path_factory.mktemp('bare')
    shutil.copy(tiny_root / 'sample.model', folder / 'sample.model')
    shutil.copytree(tiny_run / 'checkpoints', folder / 'run' / 'checkpoints')
    shutil.copy(tiny_run / 'config.json', folder / 'run')
    with edits.edited(folder / 'run' / 'config.json') as about:
        about['config']['data']['root'] = str(folder)
    return folder / 'run'


@pytest.fixture(scope='module')
def model(run):
    with one_device():
        return predict.load(f'{run}@13', batch_size=8)


@pytest.fixture(scope='module')
def german(tiny_run):
    return evaluated(tiny_run, 'mtg_qg_de_de')


@pytest.fixture(scope='module')
def short(german):
    """Texts that are one batch of one width, so that a kind of decoding needs one program."""
    return sorted(german[0], key=len)[:8]


def evaluated(tiny_run, task):
    """(inputs without the tag, predictions, log-probabilities) that the final evaluation wrote."""
    folders = tiny_run.glob(f'eval/*/test/{task}')  # Of both stages.
    folder = max(folders, key=lambda folder: int(folder.parts[-3]))
    rows = [json.loads(line) for line in (folder / 'predictions.jsonl').read_text().splitlines()]
    assert len(rows) == tiny.SIZES['test']
    return (
        [row['input'].partition('> ')[2] for row in rows],
        [row['prediction'] for row in rows],
        [row['scores']['log_probability'] for row in rows],
    )


# ------------------------------------------------------------------------------------- from Python


def programs(model):
    return sum(program._cache_size() for program in model._programs.values())


def test_answers_are_the_evaluators(model, tiny_run, german):
    """The raw texts, without the training data: the same answers, though in other batches."""
    texts, answers, scores = german
    assert model.generate(texts, target_lang='de') == answers
    found = model.generate(texts, target_lang='de', num_return=1)
    assert [p.text for (p,) in found] == answers
    np.testing.assert_allclose([p.score for (p,) in found], scores, rtol=1e-5)
    assert all(p.score == p.log_probability for (p,) in found)
    texts, answers, _ = evaluated(tiny_run, 'mtg_qg_en_en')
    assert model.generate(texts, target_lang='en') == answers
    assert len(set(answers)) > 1
    # Batches of three widths, whole ones and the rest; each compiled once over all calls.
    assert programs(model) <= 6


def test_answers_depend_on_the_text_alone(model, german):
    """Not on the size and order of batches, nor on the other texts."""
    texts, answers, _ = german
    order = np.random.RandomState(0).permutation(len(texts))
    mixed = model.generate([texts[i] for i in order], target_lang='de')
    assert mixed == [answers[i] for i in order]
    assert [model.generate([text], target_lang='de')[0] for text in texts[:3]] == answers[:3]


def test_answers_do_not_depend_on_the_devices(model, run, short):
    eight = predict.load(str(run), batch_size=8, mesh=dict(data=2, fsdp=2, tensor=2))
    beams = dict(target_lang='de', num_beams=3, num_return=2)
    ours, theirs = (m.generate(short, **beams) for m in (model, eight))
    for one, other in zip(ours, theirs, strict=True):
        assert [p.text for p in one] == [p.text for p in other]
        scores = [[p.score for p in found] for found in (one, other)]
        assert scores[0] == pytest.approx(scores[1], rel=1e-4)
        assert scores[0][0] >= scores[0][1]


def test_samples_follow_from_seed_and_place(model, short):
    options = dict(target_lang='de', temperature=2.0, num_return=2)
    first = model.generate(short, **options, seed=1)
    count = programs(model)
    assert model.generate(short, **options, seed=1) == first
    assert model.generate(short, **options, seed=2) != first
    assert programs(model) == count  # A seed needs no program.
    assert len({p.text for found in first for p in found}) > 8
    alone = model.generate(short[:1], **options, seed=1)  # Another batch, the same place.
    assert [p.text for p in alone[0]] == [p.text for p in first[0]]


def test_given_answers_have_the_probability_that_they_were_decoded_with(model, short):
    examples = [Example(text, **TARGETS) for text in short]
    found = model.generate(short, target_lang='de', num_beams=3, num_return=3)
    # Of these the ids are those that spell the text, and the end.
    rows = [
        (e, p)
        for e, row in zip(examples, found, strict=True)
        for p in row
        if p.num_tokens < 8 and len(model._tokenizer.encode(p.text)) == p.num_tokens - 1
    ]
    assert len(rows) > 2
    scores = model.log_probabilities([e for e, _ in rows], [p.text for _, p in rows])
    np.testing.assert_allclose(scores, [p.log_probability for _, p in rows], rtol=1e-4)


def test_mutual_information_ranks_anew(model, short):
    """The sum of both directions, over every beam; the model stands in for its own reverse."""
    texts = short[:6]
    beams = dict(target_lang='de', source_lang='en', num_beams=3)
    before = model.generate([*texts, ''], num_return=3, **beams)
    mmi = predict.Mmi(model, weight=0.7, length_weight=0.1)
    after = model.generate([*texts, ''], num_return=2, reranker=mmi, **beams)
    assert after[-1] == before[-1][:2]
    for text, old, new in zip(texts, before, after, strict=False):
        back = model.log_probabilities([Example(p.text, 'de', 'en') for p in old], [text] * 3)
        pairs = zip(old, back, strict=True)
        scores = [p.log_probability + 0.7 * b + 0.1 * p.num_tokens for p, b in pairs]
        best = sorted(range(3), key=lambda i: -scores[i])[:2]
        assert [p.text for p in new] == [old[i].text for i in best]
        assert [p.score for p in new] == pytest.approx([scores[i] for i in best], rel=1e-4)
    with pytest.raises(UserError, match='a single answer cannot be ranked again; set num_beams'):
        model.generate(texts, target_lang='de', source_lang='en', reranker=mmi)


def test_empty_texts_have_empty_answers(model, german):
    empty = predict.Prediction('', 0.0, 0.0, 0)
    found = model.generate(['', german[0][0], ' \t'], target_lang='de', num_return=1)
    assert found[0] == found[2] == [empty] and found[1][0].text == german[1][0]
    assert model.generate(['', '\n'], target_lang='de') == ['', '']
    assert model.generate([], target_lang='de') == []


def test_long_inputs_are_cut_and_counted(model, german):
    long = ' '.join(german[0])
    with pytest.warns(UserWarning, match='1 of 2 inputs were longer than 24 tokens and were cut'):
        found = model.generate([long, german[0][0]], target_lang='de')
    assert found[1] == german[1][0]


def test_reading_ahead_is_bounded(model, german):
    """The first answers come when one batch and the next two are read; a pause brings all."""
    read = []

    def examples(pauses):
        for i, text in enumerate(german[0] * 3):
            read.append(i)
            yield Example(text, **TARGETS)
            if i in pauses:
                yield None

    answers = model.stream(examples(()))
    assert next(answers)[0].text == german[1][0] and len(read) == 8 + 16
    assert [found[0].text for found in answers] == (german[1] * 3)[1:]
    read.clear()
    answers = model.stream(examples({0, 2}))
    for i in range(3):
        assert next(answers)[0].text == german[1][i]
        assert len(read) == (1, 3, 3)[i]


@pytest.mark.parametrize(
    'options, message',
    [
        (dict(target_lang=None), 'needs a target language: it was trained on de, en. Set target_l'),
        (dict(target_lang='fr'), "does not know the target language 'fr'; allowed: de, en"),
        (dict(num_beams=0), 'num_beams is 0; it must be 1 to 2'),
        (dict(num_return=2), 'greedy gives 1 to 1 texts'),
        (dict(method='beams'), "in decoding.method 'beams'; nearest: beam"),
        (dict(num_beans=2), "unknown key in decoding 'num_beans'; nearest: num_b"),
        (dict(texts='text'), 'a list of texts'),
    ],
)
def test_mistakes(model, options, message):
    with edits.refused(message):
        model.generate(**{'texts': ['text'], 'target_lang': 'de'} | options)


# ------------------------------------------------------------------------------------------ loading


@pytest.mark.parametrize(
    'spec, options, message',
    [
        ('RUN@12', {}, "has no checkpoint '12'; it has best, last, 7, 13"),
        ('EMPTY', {}, 'has no config.json'),
        ('no_such_model', {}, 'neither a folder nor a hub name'),
        ('RUN', {'batch_size': 12}, 'batch_size is 12; it must be a multiple of 8'),
        ('RUN', {'batch_size': 0}, 'batch_size is 0; it must be '),
        ('RUN', {'max_input_length': 1}, 'max_input_length is 1; 2 or more'),
        ('RUN', {'responses': 'x.txt'}, 'responses is for retrievers, and .* writes its answers'),
        ('RUN', {'lm_weight': 0.0}, 'lm_weight is for retrievers, and .* writes its answers'),
    ],
)
def test_what_is_not_loaded(run, tmp_path, spec, options, message):
    with pytest.raises(UserError, match=message):
        predict.load(spec.replace('RUN', str(run)).replace('EMPTY', str(tmp_path)), **options)


def test_formats_that_are_not_read():
    for name in ('rows.xlsx', 'rows.json.gz'):  # Neither is a text; the latter may be JSONL.
        with pytest.raises(UserError, match=f'--input={name} does not look like a text or JSONL'):
            commands.parse_predict(['predict', 'model', f'--input={name}'])
    assert commands.parse_predict(['predict', 'model', '--input=rows.json', '--field=a']).field


def test_another_vocabulary_is_refused(run, tmp_path):
    shutil.copytree(run, tmp_path / 'run')
    with edits.edited(tmp_path / 'run' / 'config.json') as about:
        about['vocabulary']['sha256'] = '0' * 64
    with pytest.raises(UserError, match="was trained with another vocabulary than 'sample' is now"):
        predict.load(str(tmp_path / 'run'))


def test_a_folder_of_hugging_faces_form(model, tmp_path, tiny_root, german):
    """The same parameters, which nothing tells a language; so the tag is the user's to write."""
    files = tmp_path / 'files'
    files.mkdir()
    shutil.copy(tiny_root / 'sample.model', files / 'spiece.model')
    tensors.write_json(files / 'tokenizer_config.json', {'extra_ids': 0})
    ids = dict(pad_id=0, eos_id=1, bos_id=None, decoder_start_id=0)
    params = jax.device_get(model._params)
    config = model._model.config
    hf_checkpoint.save(tmp_path / 'hf', 'mt5', config, params, ids, sorted(files.iterdir()))
    with edits.edited(tmp_path / 'hf' / 'generation_config.json') as generation:
        generation['bad_words_ids'] = [[90]]
    with one_device():
        folder = predict.load(str(tmp_path / 'hf'), batch_size=8)
    assert folder.max_input_length == 512 and folder.options == decoding.Options(banned=(90,))
    texts = [f'<de> {text}' for text in german[0][:5]]
    assert folder.generate(texts, max_length=8, banned=()) == german[1][:5]
    with pytest.raises(UserError, match='takes no target language'):
        folder.generate(texts, target_lang='de')
    convert.main(['convert', str(tmp_path / 'hf'), str(tmp_path / 'converted')])
    (tmp_path / 'converted').rename(tmp_path / 'moved')  # Its tokenizer goes with it.
    with one_device():
        workdir = predict.load(str(tmp_path / 'moved'), batch_size=8)
    assert workdir.generate(texts, max_length=8) == german[1][:5]


def random_params(shapes):
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(leaf.dtype), shapes)


def test_lora_is_merged(run, model, tmp_path):
    """Adapted parameters become kernels, so that answers cost nothing more."""
    shutil.copytree(run, tmp_path / 'run')
    with edits.edited(tmp_path / 'run' / 'config.json') as about:
        about['config']['lora'] = {'rank': 2, 'alpha': 64.0}
    shutil.rmtree(tmp_path / 'run' / 'checkpoints')
    shapes, _ = train_step.params_like(
        model._model, objectives.build(), model._mesh, lora.Lora(2, 64.0)
    )
    adapted = random_params(shapes)
    checkpoints.save_params(str(tmp_path / 'run'), 0, adapted)
    with one_device():
        found = predict.load(str(tmp_path / 'run'), batch_size=8)._params
    expected = lora.merge(adapted)
    assert jax.tree.structure(found) == jax.tree.structure(model._params)
    jax.tree.map(lambda *pair: np.testing.assert_allclose(*pair, rtol=1e-5), found, expected)


def test_a_run_of_an_earlier_version_has_to_be_told_the_language(run, tmp_path):
    shutil.copytree(run, tmp_path / 'run')
    with edits.edited(tmp_path / 'run' / 'config.json') as about:
        del about['tasks']
    model = predict.load(str(tmp_path / 'run'))
    with pytest.raises(UserError, match='of an earlier version, does not say what it was trained'):
        model.mark(None, None)
    assert model.mark(None, 'de').text == '<de> '


# ---------------------------------------------------------------------------------------- languages


def tasks(*langs, evaluated=()):
    return {
        f'{kind}{i}': {'source_lang': source, 'target_lang': target, 'trained': kind == 't'}
        for kind, pairs in (('t', langs), ('e', evaluated))
        for i, (source, target) in enumerate(pairs)
    }


def tagged(family='t5', own=()):
    return types.SimpleNamespace(family=family, languages=lambda: own)


def test_languages_that_a_model_knows():
    several = Languages.of(tagged(), tasks(('en', 'de'), ('en', 'fr'), ('es', 'fr')))
    assert (several.allowed, several.default) == (('de', 'fr'), None)
    assert several.sources == {'de': 'en'}
    one = Languages.of(tagged(), tasks(('en', 'en'), evaluated=[('en', 'de')]))
    assert (one.allowed, one.default) == (('en', 'de'), 'en')
    assert not Languages.of(tagged(), tasks((None, None))).allowed
    assert not Languages.of(tagged(), {}).allowed
    # Pretraining gave mBART its tokens; BERT's mean something only where a run gave them a meaning.
    own = ('de', 'en', 'it')
    mbart = Languages.of(tagged('mbart50', own), tasks(('en', 'de')))
    assert (mbart.allowed, mbart.default) == (own, None)
    assert not Languages.of(tagged('bert', own), {}).allowed
    assert Languages.of(tagged('bert', own), tasks(('en', 'de'))).allowed == ('de',)


def test_language_tokens(tmp_path):
    """mBART-50 is told both languages by tokens, and its answer begins with the target's."""
    tokenizer = tokenizers.load(tokenizer_files.write(tmp_path, 'mbart50'), '')
    module = models.build(
        'mbart', 'sample', vocab_size=tokenizer.vocab_size, emb_dim=16, num_heads=2, head_dim=8,
        mlp_dim=16,
    )  # fmt: skip
    with one_device():
        mesh = partitioning.make_mesh()
    params = random_params(train_step.params_like(module, objectives.build(), mesh)[0])
    known = Languages.of(tokenizer, {})
    options = decoding.Options(max_length=3)
    opened = LoadedModel(module, params, tokenizer, objectives.build(), {}, known, options)
    mbart = generator.Model('mbart', opened, mesh, batch_size=2, max_input_length=8)
    mark = mbart.mark('en', 'de')
    source, target = tokenizer.prefix_ids('en', 'de')
    assert (mark.text, mark.ids.tolist(), mark.target.tolist()) == ('', [*source], [*target])
    examples = [Example('a b', 'en', 'de'), Example('c', 'de', 'en')]
    ((places, decoded),) = mbart._start(examples, [0, 1], options, lambda size: None)
    first = [tokenizer.forced_first('de'), tokenizer.forced_first('en')]
    assert [first[i] for i in places] == np.asarray(decoded.tokens)[:, 0, 0].tolist()
    for langs, message in (
        ((None, None), 'needs a target language: its vocabulary has tokens of'),
        (('en', 'xx'), "mbart does not know the target language 'xx'; allowed: "),
        ((None, 'de'), 'needs the language of the input, and got None; set source_lang to one'),
        (('xx', 'de'), "needs the language of the input, and got 'xx'"),
    ):
        with pytest.raises(UserError, match=message):
            mbart.mark(*langs)


# ---------------------------------------------------------------------------------------- the flags


def test_the_method_follows_from_the_options():
    greedy = decoding.Options(max_length=9, banned=(7,))
    for changes, method in (
        ({}, 'greedy'),
        ({'num_beams': 4}, 'beam'),
        ({'num_beams': 4, 'num_groups': 2}, 'diverse_beam'),
        ({'top_p': 0.5}, 'sample'),
        ({'num_beams': 1}, 'greedy'),
    ):
        found = greedy.changed(changes)
        assert (found.method, found.max_length, found.banned) == (method, 9, ((7,),))
    beams = decoding.Options('beam', num_beams=4, length_penalty=0.6)
    assert beams.changed({'num_beams': 2}).length_penalty == 0.6
    assert beams.changed({'method': 'greedy'}) == decoding.Options()


def test_every_option_is_a_flag_with_a_description():
    line = (
        'm --method=beam --max_length=5 --min_length=2 --num_beams=4 --num_return=2 '
        '--length_penalty=0.6 --early_stopping=never --no_repeat_ngram=3 --repetition_penalty=1.5 '
        '--banned=7,8+9 --forced_last=True'
    )
    given = given_options(commands.parse_predict(['predict', *line.split()]))
    assert decoding.Options(**given) == decoding.Options(
        'beam', 5, 2, 4, 2, 0.6, 'never', no_repeat_ngram=3, repetition_penalty=1.5,
        banned=(7, (8, 9)), forced_last=True,
    )  # fmt: skip
    assert given_options(commands.parse_predict(['predict', 'm'])) == {}
    assert all(len(settings['help']) > 10 for _, settings in FLAGS)
    for flag in ('--early_stopping=yes', '--banned=a', '--top_k=x', '--mesh=rows=2'):
        with pytest.raises(UserError, match=flag[2:].partition('=')[0]):
            commands.parse_predict(['predict', 'm', flag])
    args = commands.parse_predict(['predict', 'm', '--mesh=data=-1,tensor=2'])
    assert args.mesh == {'data': -1, 'tensor': 2}


# --------------------------------------------------------------------------------- the command line


@pytest.fixture
def call(model, monkeypatch, tmp_path):
    """Runs the command line on the loaded model."""
    for module in (predict, reranking):
        monkeypatch.setattr(module, 'load', lambda name, **options: model)
    monkeypatch.setattr(model, 'num_cut', 0)

    def main(*arguments, text=None):
        path = tmp_path / ('in.jsonl' if text and text.startswith(b'{') else 'in.txt')
        path.write_bytes(text or b'')
        assert predict.main(['predict', 'model', f'--input={path}', *arguments]) == 0

    return main


def as_lines(*texts):
    return ''.join(f'{text}\n' for text in texts).encode()


def test_a_passage_is_cut_as_in_training(model, monkeypatch):
    """What is asked for stands behind the mark, at the end."""
    monkeypatch.setattr(model, 'max_input_length', 32)
    [ids] = model._inputs([Example('people walked ' * 20 + '<answer> old bridge', None, 'de')])
    [row] = model._arrays([{'inputs': ids}], 1, 32, 1)['encoder_input_tokens']
    text = model._tokenizer.decode(row)
    assert len(ids) > 32 and text.startswith('<de> people') and text.endswith('old bridge')
    tokenizer = model._tokenizer
    manifest = {'vocabulary': tokenizer.manifest(), 'answer_mark': tokenizer.answer_mark()}
    conventions = features.Conventions.of(manifest)
    limits = {'inputs': 32, 'targets': 1}
    trained = {'inputs': ids, 'targets': ids[-1:]}
    batch = features.generation([trained], features.Layout(limits, conventions))
    np.testing.assert_array_equal(batch['encoder_input_tokens'][0], row)


def test_one_process_alone(monkeypatch):
    for name, value in (('COORDINATOR', 'host:1234'), ('PROCESSES', '2'), ('PROCESS', '1')):
        monkeypatch.setenv(f'XLBENCH_{name}', value)
    with pytest.raises(UserError, match='and here are several; start it once, or each with'):
        predict.main(['predict', 'model'])


def test_plain_text(call, german, capsys):
    with pytest.raises(UserError, match='needs a target language: it was trained on de, en'):
        call(text=b'text')
    texts, answers, _ = german
    text = as_lines(texts[0], '', texts[1] + '\r', *texts[2:])
    call('--target_lang=de', text=b'\xef\xbb\xbf' + text)
    out, err = capsys.readouterr()
    assert out == '\n'.join([answers[0], '', *answers[1:]]) + '\n'
    assert f'{len(texts) + 1} texts, ' in err and ' texts/s\n' in err


def test_scores_and_n_best(model, call, german, short, capsys):
    call('--target_lang=de', '--scores', text=as_lines(german[0][0], ''))
    assert capsys.readouterr().out == f'{german[2][0]:.4f}\t{german[1][0]}\n0.0000\t\n'
    call('--target_lang=de', '--num_beams=3', '--num_return=2', text=as_lines(*short[:2]))
    expected = model.generate(short[:2], target_lang='de', num_beams=3, num_return=2)
    lines = [f'{i}\t{p.text}\n' for i, found in enumerate(expected, 1) for p in found]
    assert capsys.readouterr().out == ''.join(lines)


def test_records(call, tiny_run, german, tmp_path, capsys):
    """Each in its own language, with its own fields."""
    english = evaluated(tiny_run, 'mtg_qg_en_en')
    records = [
        {'id': 7, 'inputs': german[0][0], 'target_lang': 'de', 'prediction': 'old'},
        {'inputs': english[0][0], 'more': {'a': [1]}},
    ]
    text = as_lines(*map(json.dumps, records))
    call('--target_lang=en', f'--output={tmp_path / "out"}', text=text)
    found = [json.loads(line) for line in (tmp_path / 'out').read_text().splitlines()]
    answers = [german[1][0], english[1][0]]
    assert found == [r | {'prediction': a} for r, a in zip(records, answers, strict=True)]
    assert capsys.readouterr().out == '' and not (tmp_path / 'out.part').exists()
    call('--target_lang=en', '--format=text', text=text)
    assert capsys.readouterr().out == '\n'.join(answers) + '\n'
    options = ('--scores', '--num_beams=3', '--num_return=2')
    call('--target_lang=en', *options, text=text)
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    keys = {'prediction', 'score', 'log_probability'}
    assert [set(p) for p in first['predictions']] == [keys] * 2


def test_a_reverse_model_ranks_anew(model, call, short, capsys):
    langs = dict(source_lang='en', target_lang='de')
    expected = model.generate(short[:3], **langs, num_beams=3, reranker=predict.Mmi(model, 2.0))
    flags = ('--num_beams=3', '--mmi_model=reverse', '--mmi_weight=2')
    call('--source_lang=en', '--target_lang=de', *flags, text=as_lines(*short[:3]))
    assert capsys.readouterr().out.splitlines() == expected
    with pytest.raises(UserError, match='needs a target language'):  # That is our source language.
        call('--target_lang=de', *flags, text=as_lines('text'))


class Retriever(predict.Retriever):
    """Stands in for one: what shares more letters with a message fits it better."""

    def __init__(self):
        self.name = 'retriever'

    def relevance(self, messages, replies):
        pairs = zip(messages, replies, strict=True)
        return np.array([float(len(set(a) & set(b))) for a, b in pairs])


def test_a_retriever_ranks_anew(model, call, short, monkeypatch, capsys):
    """All beams, of which the best are written; alone, or with the model's own score."""
    retriever = Retriever()
    loaded = {'model': model, 'retriever': retriever, 'other': model}
    for module in (predict, reranking):
        monkeypatch.setattr(module, 'load', lambda name, **options: loaded[name])
    arguments = ('--target_lang=de', '--num_beams=3')
    texts = short[:3]
    found = model.generate(texts, target_lang='de', num_beams=3, num_return=3)
    for weight in (1.0, 0.25, 0.0):
        flags = ('--rerank=retriever', *([f'--rerank_weight={weight}'] if weight < 1 else []))
        call(*arguments, *flags, '--num_return=2', '--scores', text=as_lines(*texts))
        expected = []
        for number, (text, row) in enumerate(zip(texts, found, strict=True), 1):
            fits = retriever.relevance([text] * 3, [p.text for p in row])
            pairs = zip(row, fits, strict=True)
            scores = [(1 - weight) * p.score + weight * fit for p, fit in pairs]
            order = sorted(range(3), key=lambda i: -scores[i])[:2]
            expected += [f'{number}\t{scores[i]:.2f}\t{row[i].text}' for i in order]
        lines = [line.split('\t') for line in capsys.readouterr().out.splitlines()]
        assert [f'{n}\t{float(score):.2f}\t{text}' for n, score, text in lines] == expected
    for flags, message in (
        (('--rerank=retriever', '--mmi_model=other'), 'both rank the answers; leave one out'),
        (('--rerank=other',), '--rerank=other is not a run whose objective is retrieval'),
        (('--mmi_model=retriever',), '--mmi_model=retriever is a retriever; --rerank takes those'),
        (('--rerank=retriever', '--num_beams=1'), 'a single answer cannot be ranked again'),
        (('--rerank=retriever', '--rerank_weight=2'), 'rerank_weight is 2.0; 0 to 1 is allowed'),
        (('--rerank=retriever', '--rerank_weight=-.1'), 'rerank_weight is -0.1; 0 to 1 is allowed'),
    ):
        with pytest.raises(UserError, match=message):
            call(*arguments, *flags, text=as_lines(*texts))


@pytest.mark.parametrize(
    'line, message',
    [
        (b'{"inputs": "x"', 'not JSON: '),
        (b'', 'not JSON: '),
        (b'["x"]', 'not a JSON object'),
        (b'{"input": "x"}', "unknown field 'inputs'; nearest: input. Set --field"),
        (b'{"inputs": 5}', 'inputs is 5, not a text'),
        (b'{"inputs": "x", "note": "\\uD800"}', 'lone surrogate'),
        (b'{"inputs": "\xff"}', 'not UTF-8: byte 0xff at byte 12'),
        (b'{"inputs": "x", "target_lang": "fr"}', "not know the target language 'fr'; allowed:"),
    ],
)
def test_a_bad_record_stops_behind_the_answers_before_it(call, german, capsys, line, message):
    good = json.dumps({'inputs': german[0][0]}).encode()
    with edits.refused(f'in.jsonl:2: .*{message}'):
        call('--target_lang=de', text=good + b'\n' + line + b'\n' + good)
    (answer,) = capsys.readouterr().out.splitlines()
    assert json.loads(answer)['prediction'] == german[1][0]
    assert answer_lines._record('{"x": "\\ud83d\\ude00"}') == {'x': '\U0001f600'}  # A pair.


def test_an_unfinished_output_is_not_there(call, german, tmp_path):
    output = tmp_path / 'out'
    with pytest.raises(UserError, match=r'in.txt:2: not UTF-8'):
        call('--target_lang=de', f'--output={output}', text=as_lines(german[0][0]) + b'\xff')
    assert not output.exists()
    assert (tmp_path / 'out.part').read_text() == german[1][0] + '\n'
    output.write_text('mine')
    with pytest.raises(UserError, match='exists already; name another --output, or remove it'):
        call('--target_lang=de', f'--output={output}', text=as_lines(german[0][0]))
    assert output.read_text() == 'mine'


def test_standard_input_is_answered_line_by_line(run, german):
    """Also: no TensorFlow, nothing but answers on standard output, one line for a mistake."""
    program = (
        'import sys\nfrom xlbench import predict; from xlbench.system import errors\n'
        'code = errors.run_main(predict.main, sys.argv)\n'
        "assert not {'tensorflow', 'seqio', 'torch'} & set(sys.modules)\nsys.exit(code)"
    )
    command = [sys.executable, '-c', program, str(run), '--target_lang=de', '--batch_size=8']
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with subprocess.Popen(command, cwd=PROJECT, **pipes) as child:
        for text, answer in zip(german[0][:3], german[1][:3], strict=True):
            child.stdin.write(text.encode() + b'\n')
            child.stdin.flush()
            assert child.stdout.readline().decode() == answer + '\n'
        out, err = child.communicate(b'\xff\n')
    assert (child.returncode, out) == (2, b'')
    assert err.decode().splitlines()[-1] == 'error: stdin:4: not UTF-8: byte 0xff at byte 0'


def test_what_breaks_while_it_is_read_is_one_line(tmp_path):
    class Broken(io.BytesIO):
        def readline(self, *size):
            if line := super().readline(*size):
                return line
            raise zlib.error('Error -3 while decompressing data')

    inputs = answer_lines.Inputs(Broken(b'one\n'), 'in.txt.gz', 'text', lambda text: ({}, text), 2)
    assert [text for text in inputs if text] == ['one']
    assert str(inputs.error) == 'in.txt.gz:2: cannot be read: Error -3 while decompressing data'
    path = tmp_path / 'in.csv'
    path.write_text('text,label\na,b\n"open,c\n')
    parse = lambda row: ({}, row['text'])  # noqa: E731
    inputs = answer_lines.Inputs(io.BytesIO(), str(path), 'csv', parse, 2)
    assert [text for text in inputs if text] == ['a']
    assert str(inputs.error).startswith(f'{path}:3: a quote is opened here and never closed')


@pytest.mark.parametrize(
    'format, data, message',
    [
        ('text', b'one\na\rb\n', 'in:2: has a \\r (carriage return) inside'),
        ('conll', b'one\tX\n\n\na\tX\nb\rc\tX\n', 'in:4: has a \\r (carriage return) inside'),
        ('text', 'one\n'.encode('utf-16'), 'in:1: no text: it begins as UTF-16 does'),
        ('text', b'one\n' + b'x' * 101 + b'\n', 'in:2: the line is too long: at most 100 bytes'),
        ('conll', b'one\tX\n\n' + b'x\tY\n' * 26, 'in:2: the sentence is too long: at most 100'),
        ('text', gzip.compress(b'one\n' * 3_000_000), 'the file expands too far'),
    ],
)
def test_what_is_no_input(monkeypatch, tmp_path, format, data, message):
    monkeypatch.setenv('XLBENCH_MAX_LINE_BYTES', '100')
    path = tmp_path / ('in.gz' if data[:2] == b'\x1f\x8b' else 'in')
    path.write_bytes(data)
    with predict._open_input(str(path)) as file:
        inputs = answer_lines.Inputs(file, 'in', format, lambda text: ({}, text), 2)
        for text in inputs:
            assert text is None or text[:3] in ('one', 'x\tY')
    assert message in str(inputs.error)


def test_chunks_end_at_a_pause_and_grow_up_to_a_limit(monkeypatch):
    """What came before a pause is answered; the next chunk is no smaller for it."""
    examples = ['a', None, None, 'b', 'c', 'd', 'e', 'f']
    assert list(answering.chunks(examples, 1)) == [['a'], None, None, ['b', 'c', 'd', 'e', 'f']]
    monkeypatch.setattr(answering, 'CHUNK_BATCHES', 4)
    sizes = [len(chunk) for chunk in answering.chunks(iter(range(30)), 2)]
    assert sizes == [2, 4, 8, 8, 8]
