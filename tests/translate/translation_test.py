"""Translation: engines, what is kept, the order of texts, files, and everything that may fail."""

import contextlib
import gzip
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import time
import types

import far_engine
import model_folders
import partners
import pytest
import shouting
import tiny
import warm
from nightly import nightly
from shouting import asked

from xlbench import convert, predict
from xlbench.data import tokenizers
from xlbench.prepare import stages
from xlbench.system import errors
from xlbench.system.errors import UserError
from xlbench.translate import __main__ as translate, engines, external, jobs, neural, records

STRANGE = '\U0001f600 "three" — [x] ^y$ /z\\ {w} @ # * ...'
TEXTS = ['one', 'two', '', 'one', STRANGE, '   ', 'four\tfive']


@pytest.fixture
def program(tmp_path, monkeypatch):
    """The name of an engine that is a program; `asked` has the texts that it got."""
    return shouting.write(tmp_path, monkeypatch)


def test_each_text_once_and_in_order(tmp_path, program):
    cache = str(tmp_path / 'cache')
    answers = jobs.translate(TEXTS, program, 'en', 'es', cache=cache)
    assert answers == [f'es:{t.upper()}' if t.strip() else '' for t in TEXTS]
    assert asked(tmp_path) == ['one', 'two', STRANGE, 'four\tfive']
    # Nothing is asked again; other languages and another version of the engine are.
    assert jobs.translate(TEXTS, program, 'en', 'es', cache=cache) == answers
    assert len(asked(tmp_path)) == 4
    assert jobs.translate(['one'], program, 'en', 'de', cache=cache) == ['de:ONE']
    newer = engines.find(program, version='2')
    assert jobs.translate(['one'], newer, 'en', 'es', cache=cache) == ['es:ONE']
    assert asked(tmp_path)[4:] == ['one', 'one']


def test_a_text_that_fails_is_named_and_the_others_are_not_lost(tmp_path, program):
    texts = [f'text {i}' for i in range(20)] + ['bad one', 'last']
    answers = jobs.translate(texts, program, 'en', 'es', cache=str(tmp_path))
    assert answers[:20] == [f'es:TEXT {i}' for i in range(20)] and answers[21] == 'es:LAST'
    assert isinstance(answers[20], engines.Failure)
    assert 'ended with 1: no idea' in answers[20].reason
    # Failures are not kept: the engine may know better the next time.
    before = len(asked(tmp_path))
    jobs.translate(texts, program, 'en', 'es', cache=str(tmp_path))
    assert asked(tmp_path)[before:] == ['bad one']
    # An engine that can do nothing ends the job.
    with pytest.raises(UserError, match=r'translated none of the first 2 texts.*no idea'):
        jobs.translate(['bad 1', 'bad 2'], program, 'en', 'es')


@pytest.mark.parametrize(
    ('spec', 'target', 'message'),
    [
        ('command:', 'es', 'names no program'),
        ('command:"x', 'es', 'quotes come in pairs'),
        ('command:cat {lang}', 'es', 'only {source} and {target}'),
        ('command:no-such-program', 'es', "there is no program 'no-such-program'"),
        ('file:/no/such/file', 'es', 'there is no file'),
        ('command:cat', 'xx', "language in --target_lang 'xx'"),
        ('command:cat', 'en', 'are both en'),
    ],
)
def test_engines_and_languages_that_are_not_there(spec, target, message):
    with pytest.raises(UserError, match=message):
        jobs.translate(['x'], spec, 'en', target)


# ---------------------------------------------------------------------------------- Apertium

# As much of Apertium's command as is used: paragraphs, modes with codes of two and three letters.
APERTIUM = """#!{python}
import sys
if sys.argv[1] == '-l':
    print('  eng-spa\\n  fr-es\\n  spa-eng_US')
elif sys.argv[1] == '-V':
    print('Apertium 3.8.3')
else:
    sys.stdout.write(sys.stdin.read().replace('house', f'casa({{sys.argv[-1]}})'))
"""


def test_apertium(tmp_path, monkeypatch):
    path = tmp_path / 'bin' / 'apertium'
    path.parent.mkdir()
    path.write_text(APERTIUM.format(python=sys.executable))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv('PATH', str(path.parent))
    assert jobs.translate(['a house.', 'x'], 'apertium', 'en', 'es') == ['a casa(eng-spa).', 'x']
    assert jobs.translate(['house'], 'apertium', 'fr', 'es') == ['casa(fr-es)']
    assert external.Apertium().identity('en', 'es') == 'Apertium 3.8.3 eng-spa -u'
    with pytest.raises(UserError, match='no pair es-en; installed: eng-spa, fr-es'):
        jobs.translate(['x'], 'apertium', 'es', 'en')
    monkeypatch.setenv('PATH', str(tmp_path))
    with pytest.raises(UserError, match='apt-get install apertium'):
        jobs.translate(['x'], 'apertium', 'en', 'es')


@pytest.mark.skipif(not shutil.which('apertium'), reason='needs Apertium: apt-get install apertium')
def test_real_apertium_keeps_lines_apart():
    strange = '\U0001f600 :-) [x] ^y$ /z\\ {w}'
    texts = ['I like the house .', 'I like it', 'Wait...', 'a\nb', strange]
    try:
        answers = jobs.translate(texts, 'apertium', 'en', 'es')
    except UserError as error:
        pytest.skip(f'needs the pair apertium-eng-spa: {error}')
    assert answers[0] == 'Me gusta la casa .' and answers[2].endswith('...')
    assert answers[4].startswith('\U0001f600 :-) [') and answers[4].endswith('/z\\ {w}')
    # A text has the same translation in any company.
    for text, answer in zip(texts, answers, strict=True):
        assert jobs.translate([text], 'apertium', 'en', 'es') == [answer]


# ----------------------------------------------------------------------------------- servers


@pytest.fixture
def server(monkeypatch):
    """LibreTranslate's interface; the attributes say how it misbehaves."""
    monkeypatch.setattr(external, '_PAUSES', (0.0, 0.0))
    state = types.SimpleNamespace(bodies=[], busy=0, strange=None)

    def answer(request):
        if request.path == '/languages':
            request.send([{'code': 'en', 'name': 'English', 'targets': ['es', 'de']}])
            return
        assert request.path == '/translate'
        body = json.loads(request.body)
        state.bodies.append(body)
        if state.busy:
            state.busy -= 1
            request.send({'error': 'slow down'}, status=429)
        elif any('bad' in text for text in body['q']):
            request.send({'error': 'I do not <b>translate</b> that'}, status=400)
        elif state.strange:
            request.send(state.strange)
        else:
            request.send({'translatedText': [f'{body["target"]}:{t}' for t in body['q']]})

    with partners.serving(answer) as state.url:
        yield state


def test_a_server(server, monkeypatch):
    monkeypatch.setenv(external.KEY, 'secret')
    server.busy = 2
    answers = jobs.translate(['one', 'bad', 'two'], server.url, 'en', 'es')
    assert [answers[0], answers[2]] == ['es:one', 'es:two']
    assert 'HTTP 400: I do not <b>translate</b> that' in answers[1].reason
    assert server.bodies[0] == {
        'q': ['one', 'bad', 'two'], 'source': 'en', 'target': 'es', 'format': 'text',
        'api_key': 'secret',
    }  # fmt: skip
    assert 'secret' not in engines.find(server.url).identity('en', 'es')


def test_a_server_that_is_not_there_or_is_another_one(server):
    with pytest.raises(UserError, match=r"target language of http.* 'fr'"):
        jobs.translate(['x'], server.url, 'en', 'fr')
    server.busy = 99
    with pytest.raises(UserError, match='gave no answer in 3 tries: HTTP 429: slow down'):
        jobs.translate(['x'], server.url, 'en', 'es')
    server.busy = 0
    for strange in ({'translatedText': []}, {'translatedText': 'x'}, [1], b'<html>', b'\xff'):
        server.strange = strange
        (answer,) = jobs.translate(['x'], server.url, 'en', 'es')
        assert isinstance(answer, engines.Failure) and '\n' not in answer.reason
    with partners.serving(None) as closed:
        pass
    with pytest.raises(UserError, match='gave no answer in 3 tries'):
        jobs.translate(['x'], closed, 'en', 'es')


# ---------------------------------------------------------------------------- tables and models


def test_a_file_of_translations(tmp_path):
    path = tmp_path / 'made.tsv'
    path.write_text('one\tuno\ntwo\tdos\none\tuna\n')
    answers = jobs.translate(['two', 'three', 'one'], f'file:{path}', 'en', 'es')
    assert [answers[0], answers[2]] == ['dos', 'uno'] and 'has no translation' in answers[1].reason
    same = tmp_path / 'same.tsv'
    shutil.copy(path, same)
    assert len({external.Table(str(x)).identity('en', 'es') for x in (same, path)}) == 1
    path.write_text('one\n')
    with pytest.raises(UserError, match=r'made.tsv:1: 1 TAB-separated columns instead of 2'):
        jobs.translate(['x'], f'file:{path}', 'en', 'es')
    lines = tmp_path / 'made.jsonl'
    lines.write_text('{"source": "one", "translation": "uno"}\n')
    assert jobs.translate(['one'], f'file:{lines}', 'en', 'es') == ['uno']


def test_a_model(tiny_run, tmp_path):
    model = predict.load(str(tiny_run), batch_size=8)
    target = model.languages.allowed[0]
    source = 'en' if target != 'en' else 'de'
    engine = neural.Neural(str(tiny_run), batch_size=8, max_length=6)
    texts = ['eins zwei drei', 'vier', 'fünf sechs']
    expected = model.generate(texts, source_lang=source, target_lang=target, max_length=6)
    cache = str(tmp_path)
    assert jobs.translate(texts, engine, source, target, cache=cache) == expected
    # The same model at another place is the same engine; decoded in another way it is not.
    copy = tmp_path / 'copy'
    shutil.copytree(tiny_run, copy)
    same = neural.Neural(str(copy), batch_size=8, max_length=6)
    assert same.identity(source, target) == engine.identity(source, target)
    other = neural.Neural(str(copy), batch_size=8, max_length=6, num_beams=2)
    assert other.identity(source, target) != engine.identity(source, target)
    with pytest.raises(UserError, match='does not know the target language'):
        jobs.Job(engine, source, next(x for x in ('fi', 'sw') if x not in model.languages.allowed))
    with pytest.warns(UserWarning, match='1 of 2 inputs were longer than 24 tokens and were cut'):
        assert len(engine.translate(['kurz', 'sehr lang ' * 50], source, target)) == 2


@pytest.mark.parametrize(
    ('vocabulary', 'token'),
    [('nllb', 'deu_Latn'), *nightly(('m2m_100', '__de__'), ('mbart50', 'de_DE'))],
)
def test_a_folder_of_many_languages_is_told_both(tmp_path, vocabulary, token):
    """As it is downloaded; the target's token is what decoding begins with."""
    family = 'mbart' if vocabulary == 'mbart50' else 'm2m_100'
    folder = model_folders.write(
        tmp_path / vocabulary, family, vocabulary, seed=1, init_std=0.7, emb_dim=16, num_heads=2,
        head_dim=8, mlp_dim=24, num_encoder_layers=1, num_decoder_layers=1,
    )  # fmt: skip
    texts = ['Die alte Brücke', 'der Fluss', 'rain']
    tokenizer = tokenizers.load(folder, '')
    assert tokenizer.language_tokens()['de'] == token
    ((source,), (target,)) = tokenizer.prefix_ids('en', 'de')
    assert source != target == tokenizer.forced_first('de')
    engine = neural.Neural(folder, max_length=5)
    found = jobs.translate(texts, engine, 'en', 'de')
    assert found != jobs.translate(texts, engine, 'en', 'fr')
    assert engines.find(folder).check('en', 'de') is None  # By its name.
    with pytest.raises(UserError, match="does not know the target language 'pcm'"):
        jobs.Job(engine, 'en', 'pcm')
    convert.main(['convert', folder, f'{tmp_path}/run'])
    convert.main(['convert', f'{tmp_path}/run', f'{tmp_path}/again'])
    for name in ('model.safetensors', 'sentencepiece.bpe.model'):
        assert (tmp_path / 'again' / name).read_bytes() == pathlib.Path(folder, name).read_bytes()
    again = neural.Neural(f'{tmp_path}/again', max_length=5)
    assert found == jobs.translate(texts, again, 'en', 'de')


def test_settings_that_an_engine_does_not_take(tiny_run):
    with pytest.raises(UserError, match='are for models, and apertium is not a model'):
        engines.find('apertium', num_beams=2)
    with pytest.raises(UserError, match='a translation is one text; leave out --num_return'):
        jobs.translate(['x'], engines.find(str(tiny_run), num_return=2, num_beams=2), 'en', 'de')


# ------------------------------------------------------------------------------------- dialogues


def test_turns_are_translated_by_themselves(tmp_path, program):
    """Names, line ends and empty lines stay; a text of one line is not a dialogue."""
    texts = [
        'Anna: Hi!\r\nBen: one\r\n\r\nno name\nDr. Wu, host:\xa0two ',
        'Police: two men',
        '安娜：one\n本：two',
        'a: bad\nb: one',
        '',
    ]
    job = jobs.Job(engines.find(program), 'en', 'es')
    answers = list(job.run(texts, 'turn'))
    assert answers[:3] == [
        'Anna: es:HI!\r\nBen: es:ONE\r\n\r\nes:NO NAME\nDr. Wu, host:\xa0es:TWO ',
        'es:POLICE: TWO MEN',
        '安娜：es:ONE\n本：es:TWO',
    ]
    assert 'no idea' in answers[3].reason and answers[4] == ''
    assert asked(tmp_path)[:4] == ['Hi!', 'one', 'no name', 'two ']
    assert list(job.run(['a: x\nb: y'])) == ['es:A: X B: Y']


def test_the_examples_of_a_task_become_a_corpus(tiny_root, tmp_path, program):
    """Without the mark of the language, which is for a model, and with the targets as they are."""
    task = tiny.QUESTIONS[1]
    flags = [f'--engine={program}', f'--input_task={task}', '--split=train', '--num_examples=5']
    assert run(*flags, f'--root={tiny_root}', '--output=a.jsonl', folder=tmp_path) == 0
    lines = [json.loads(line) for line in (tmp_path / 'a.jsonl').read_text().splitlines()]
    expected = [
        {'id': str(i), 'inputs': f'es:{text.removeprefix("<de> ").upper()}', 'targets': target}
        for i, (text, target) in enumerate(tiny.examples(task, 'train')[:5])
    ]
    assert lines == expected
    about = json.loads((tmp_path / 'a.about.json').read_text())
    assert about['unit'] == 'turn' and list(about['inputs']) == [f'{task}/train']


# ------------------------------------------------------------------------------- the command


def run(*flags: str, folder: pathlib.Path) -> int:
    with contextlib.chdir(folder):
        argv = ['translate', '--source_lang=en', '--target_lang=es', *flags]
        return errors.run_main(translate.main, argv)


def test_files_of_each_form(tmp_path, program):
    engine = f'--engine={program}'
    (tmp_path / 'a.txt').write_text('one\n\ntwo\n')
    assert run(engine, '--input=a.txt', '--output=a.es.txt', folder=tmp_path) == 0
    assert (tmp_path / 'a.es.txt').read_text() == 'es:ONE\n\nes:TWO\n'
    (tmp_path / 'pairs').mkdir()
    (tmp_path / 'pairs' / '1.tsv').write_text('one\ttwo\t7\t\n')
    (tmp_path / 'pairs' / '2.tsv').write_text('three\tfour\t8\tx\n')
    flags = [engine, '--field=1,2', '--input=pairs/*.tsv', '--output=mt/es/en.tsv.gz']
    assert run(*flags, folder=tmp_path) == 0
    unpacked = gzip.decompress((tmp_path / 'mt/es/en.tsv.gz').read_bytes())
    assert unpacked == b'es:ONE\tes:TWO\t7\t\nes:THREE\tes:FOUR\t8\tx\n'
    given = {'id': 3, 'inputs': 'one', 'turns': ['two', 'x'], 'n': [1]}
    (tmp_path / 'b.jsonl').write_text(json.dumps(given))
    flags = [engine, '--field=inputs,turns', '--input=b.jsonl', '--output=b.es.jsonl']
    assert run(*flags, folder=tmp_path) == 0
    record = json.loads((tmp_path / 'b.es.jsonl').read_text())
    assert record == {'id': 3, 'inputs': 'es:ONE', 'turns': ['es:TWO', 'es:X'], 'n': [1]}
    about = json.loads((tmp_path / 'b.es.about.json').read_text())
    assert about['engine'] == program and about['texts'] == 3 and about['failed'] == 0
    assert list(about['inputs']) == ['b.jsonl'] and about['translated_before'] == 2


def test_arrays_of_objects_become_lines(tmp_path, program, capfd):
    objects = [
        {'id': 1, 'text': 'One', 'more': ['x']},
        {'id': 2, 'text': 'Bad', 'more': []},
        {'id': 3, 'text': 'two', 'more': 4},
    ]
    path = tmp_path / 'a.json'
    path.write_text(json.dumps(objects, indent=1))
    flags = [f'--engine={program}', '--input=a.json', '--field=text', '--keep=id', '--lower']
    assert run(*flags, '--output=a.jsonl', folder=tmp_path) == 1
    lines = [json.loads(line) for line in (tmp_path / 'a.jsonl').read_text().splitlines()]
    assert lines[0] == {'id': 1, 'text': 'es:ONE'} and lines[2] == {'id': 3, 'text': 'es:TWO'}
    assert list(lines[1]) == ['id', 'text', 'translation_error'] and lines[1]['text'] == ''
    assert set(asked(tmp_path)) == {'one', 'bad', 'two'}
    assert "a.json: object 2: not translated: 'bad'" in capfd.readouterr().err
    for content, message in [
        ('[{"id": 1}]', "a.json: object 1: no key 'text'"),
        ('[3]', 'a.json: object 1: a number, not an object'),
        ('{}', 'a.json:1: the file is not a list of objects'),
    ]:
        path.write_text(content)
        assert run(*flags, '--output=b.jsonl', folder=tmp_path) == 2
        assert message in capfd.readouterr().err
    for flags, message in [
        (['--input=a.txt', '--keep=id'], '--keep is for JSONL and JSON'),
        (['--input_task=mtg_qg_en_en', '--lower'], '--keep and --lower are for files'),
    ]:
        assert run(f'--engine={program}', *flags, '--output=b', folder=tmp_path) == 2
        assert message in capfd.readouterr().err


@pytest.mark.parametrize('engine', ['workers', 'far', 'beam'])
def test_several_workers_write_what_one_writes(engine, tmp_path, program, capfd, monkeypatch):
    """What is not translated, too; a second command asks nobody."""
    lines = [f'line {number % 900}' if number % 7 else 'bad' for number in range(1500)]
    (tmp_path / 'a.txt').write_text('\n'.join(lines) + '\n')
    flags = [f'--engine={program}', '--input=a.txt', '--cache=one', '--output=one.txt']
    more = ['--workers=2']
    if engine == 'far':
        monkeypatch.setattr(stages, 'of_flags', lambda *arguments: far_engine.FarEngine())
    elif engine == 'beam':
        pytest.importorskip('apache_beam')
        more = ['--beam', '--', '--direct_running_mode=multi_processing', '--direct_num_workers=2']
    code = run(*flags, folder=tmp_path)
    said = capfd.readouterr().err.splitlines()[-1].replace('one.txt', 'two.txt')
    flags[-2:] = ['--cache=two', '--output=two.txt']
    assert run(*flags, *more, folder=tmp_path) == code
    assert capfd.readouterr().err.splitlines()[-1] == said
    assert (tmp_path / 'two.txt').read_text() == (tmp_path / 'one.txt').read_text()
    flags[-1] = '--output=three.txt'
    assert run(*flags, *more, folder=tmp_path) == code
    about = json.loads((tmp_path / 'three.about.json').read_text())
    assert about['translated_now'] == 0 and about['failed'] == 215


def test_failures_in_files(tmp_path, program, capfd):
    (tmp_path / 'a.tsv').write_text('one\ttwo\nbad\tthree\nfour\tfive\n')
    flags = [f'--engine={program}', '--field=1,2', '--input=a.tsv']
    assert run(*flags, '--output=b.tsv', folder=tmp_path) == 1
    assert (tmp_path / 'b.tsv').read_text() == 'es:ONE\tes:TWO\n\tes:THREE\nes:FOUR\tes:FIVE\n'
    assert "a.tsv:2: not translated: 'bad': " in capfd.readouterr().err
    about = json.loads((tmp_path / 'b.about.json').read_text())
    assert about['failures'][0]['place'] == 'a.tsv:2' and about['failed'] == 1
    assert run(*flags, '--output=c.tsv', '--failed=drop', folder=tmp_path) == 1
    assert (tmp_path / 'c.tsv').read_text() == 'es:ONE\tes:TWO\nes:FOUR\tes:FIVE\n'


@pytest.mark.parametrize(
    ('content', 'flags', 'message'),
    [
        ('one\n', ['--input=in.txt', '--field=x'], '--field is for JSONL, JSON and TSV'),
        ('one\n', ['--input=in.tsv'], 'name the fields to translate'),
        ('one\n', ['--input=in.tsv', '--field=0'], 'column numbers, from 1'),
        ('a\tb\nc\n', ['--input=in.tsv', '--field=2'], 'in.tsv:2: 1 TAB-separated columns; 2 are'),
        ('{"a": 1}\n', ['--input=in.jsonl', '--field=a'], 'in.jsonl:1: '),
        ('{"a": "x"}\n', ['--input=in.jsonl', '--field=b'], "in.jsonl:1: no key 'b'"),
        ('\udcff\n', ['--input=in.txt'], 'in.txt:1: not UTF-8'),
        ('one\n', ['--input=none.txt'], 'there is no file none.txt'),
        ('one\n', ['--input=in.txt', '--like=RUN'], '--like is for the examples of a task'),
        ('one\n', ['--input=in.txt', '--input_task=x_de_de'], 'name what is translated'),
        ('one\n', ['--input=in.txt', '--num_beams=4'], 'are for models'),
        ('one\n', ['--input=in.txt', '--engine=gs://x'], 'begins with gs://'),
        ('one\n', ['--input=in.txt', '--engine=no_such'], 'is neither a folder nor a hub name'),
    ],
)
def test_what_a_user_gets_wrong(tmp_path, program, capfd, content, flags, message):
    name = next(flag for flag in flags if flag.startswith('--input=')).partition('=')[2]
    if not name.startswith('none'):
        (tmp_path / name).write_bytes(content.encode(errors='surrogateescape'))
    assert run(f'--engine={program}', '--output=out.txt', *flags, folder=tmp_path) == 2
    printed = capfd.readouterr().err.strip().split('\n')
    assert message in printed[-1]
    assert not (tmp_path / 'out.txt').exists() and not (tmp_path / 'out.about.json').exists()


def test_nothing_is_overwritten_and_a_cache_is_one(tmp_path, program, capfd):
    (tmp_path / 'in.txt').write_text('one\n')
    (tmp_path / 'out.txt').write_text('mine')
    (tmp_path / 'cache').mkdir()
    (tmp_path / 'cache' / 'translations.sqlite').write_text('something else, of some length' * 99)
    for flags, message in (
        (['--output=out.txt'], 'out.txt exists already'),
        (['--output=new.txt', '--cache=cache'], 'cannot be used: file is not a database'),
    ):
        assert run(f'--engine={program}', '--input=in.txt', *flags, folder=tmp_path) == 2
        assert message in capfd.readouterr().err
    assert (tmp_path / 'out.txt').read_text() == 'mine'


def test_a_killed_command_goes_on(tmp_path, program):
    """Each text once: those of the batch that the kill fell into are the only ones asked again."""
    batch = external.Program.batch_size
    lines = [f'text {i}' for i in range(3 * batch)]
    (tmp_path / 'in.txt').write_text(''.join(f'{line}\n' for line in lines))
    command = [
        warm.python(), '-m', 'xlbench.translate', f'--engine={program}', '--source_lang=en',
        '--target_lang=es', '--input=in.txt', '--output=out.txt',
    ]  # fmt: skip
    waiting = os.environ | {'WAIT_AT': f'text {2 * batch}'}
    process = subprocess.Popen(command, cwd=tmp_path, env=waiting, stderr=subprocess.DEVNULL)
    try:
        while not ((tmp_path / 'asked').exists() and len(asked(tmp_path)) == 3 * batch):
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not (tmp_path / 'out.txt').exists()
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0
    assert asked(tmp_path) == lines + lines[2 * batch :]
    expected = ''.join(f'es:{line.upper()}\n' for line in lines)
    assert (tmp_path / 'out.txt').read_text() == expected
    assert not [name for name in os.listdir(tmp_path) if '.tmp' in name or name.endswith('.part')]


def test_forms():
    form = records.Form('tsv', ['2'])
    record = records.Record('x:1', {'1': 'a', '2': 'b'}, ('b',))
    assert form.line(record, ['c\td\ne']) == 'a\tc d e'
    formats = [records.format_of(name) for name in ('a.tsv.gz', 'a.jsonl', 'a.de')]
    assert formats == ['tsv', 'jsonl', 'text']
