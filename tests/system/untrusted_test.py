"""Links and other things than files in folders that came from elsewhere; limits on files."""

import bz2
import gzip
import io
import json
import os
import pathlib
import socket
import stat
import threading

import numpy as np
import put_files
import pytest
import tokenizer_files
from flax import traverse_util

from xlbench import convert, models, score
from xlbench.data import prepared, tokenizers
from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.huggingface import checkpoint, hub, tensors
from xlbench.inference import exported
from xlbench.reporting import results
from xlbench.system import errors, files, locks, untrusted
from xlbench.system.errors import UserError
from xlbench.training import tracking
from xlbench.translate import chains
from xlbench.translate.jobs import Memory


def refused(match, call, *args):
    """The call ends in one line; the test does not wait for a FIFO that it opens."""
    ends = []

    def run():
        with pytest.raises(UserError, match=match) as caught:
            call(*args)
        assert '\n' not in str(caught.value)
        ends.append(str(caught.value))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(30)
    assert ends, f'no line like {match!r}'
    return ends[0]


@pytest.fixture
def place(tmp_path):
    """A folder in which somebody has put more than files."""
    folder = tmp_path / 'folder'
    (folder / 'inner').mkdir(parents=True)
    (tmp_path / 'secret').mkdir()
    (tmp_path / 'secret' / 'key.json').write_text('{"secret": 1}')
    (folder / 'plain').write_text('x')
    (folder / 'inner' / 'plain').write_text('x')
    (folder / 'inside').symlink_to('inner/plain')
    (folder / 'link').symlink_to(tmp_path / 'secret' / 'key.json')
    (folder / 'relative').symlink_to('../secret/key.json')
    (folder / 'twice').symlink_to('link')
    (folder / 'out').symlink_to(tmp_path / 'secret')
    (folder / 'dangling').symlink_to('nothing')
    (folder / 'loop').symlink_to('loop')
    (folder / 'null').symlink_to('/dev/null')
    os.mkfifo(folder / 'fifo')
    return folder


@pytest.mark.parametrize(
    'name, match',
    [('link', 'link leads to .*key.json, outside of .*XLBENCH_LINKS=follow'),
     ('relative', 'relative leads to .*, outside of'), ('twice', 'twice leads to .*, outside of'),
     ('out/key.json', 'key.json leads to .*, outside of'),
     ('../secret/key.json', 'leads to .*, outside of'),
     ('/etc/passwd', 'leads to /etc/passwd, outside of'),
     ('null', 'leads to /dev/null, outside of'),
     ('dangling', 'dangling is a link that leads nowhere'),
     ('loop', 'loop is a link that leads nowhere'),
     ('fifo', 'fifo cannot be read: it is a FIFO, not a file'),
     ('inner', 'inner cannot be read: it is a folder'),
     ('x' * 5000, 'xxx.* is not a name of a file'), ('a\0b', 'is not a name of a file'),
     ('\ud800', 'is not a name of a file')],
)  # fmt: skip
def test_what_is_no_file_inside(place, name, match):
    refused(match, untrusted.file, place, name)


def test_files_inside(place, tmp_path, monkeypatch):
    for name in ('plain', 'inside', 'inner/plain', 'inner/../plain'):
        assert untrusted.file(place, name) == place / name
    for name in ('nothing', 'nothing/x', 'plain/x'):
        assert untrusted.file(place, name) is None
    (tmp_path / 'named').symlink_to(place)  # The folder itself is the user's word.
    assert untrusted.file(tmp_path / 'named', 'plain') == tmp_path / 'named' / 'plain'
    monkeypatch.chdir(place)
    assert untrusted.file('', 'plain') and untrusted.file('.', 'inside')
    monkeypatch.setenv('XLBENCH_LINKS', 'follow')
    assert untrusted.file(place, 'link').read_text() == '{"secret": 1}'
    refused('null cannot be read: it is a device', untrusted.file, place, 'null')
    refused('loop is a link that leads nowhere', untrusted.file, place, 'loop')


def test_a_socket_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # The path of a socket may have 107 bytes.
    with socket.socket(socket.AF_UNIX) as server:
        server.bind('socket')
        refused('it is a socket', untrusted.file, tmp_path, 'socket')


def test_a_tree(place):
    untrusted.check_tree(place, place / 'inner')
    untrusted.check_tree(place, place / 'nothing')
    (place / 'inner' / 'circle').symlink_to('.')
    untrusted.check_tree(place, place / 'inner')
    for name in ('link', 'out', 'fifo', 'dangling'):
        moved = place / 'inner' / name
        (place / name).rename(moved)
        refused(name, untrusted.check_tree, place, place / 'inner')
        moved.unlink()


def test_small_files_are_regular(place):
    refused('it is a FIFO', files.read_json, place / 'fifo', dict)
    refused('/dev/zero cannot be read: it is a device', files.read_json, '/dev/zero', dict)
    refused('it is a folder', files.read_json, place / 'inner', dict)


def test_the_cache_of_the_hub(tmp_path):
    """Its files are links to blobs of the same repository; links to anything else are not."""
    repository = tmp_path / 'models--some--model'
    folder = repository / 'snapshots' / '0123'
    folder.mkdir(parents=True)
    (repository / 'blobs').mkdir()
    (repository / 'blobs' / 'aaa').write_text('{}')
    (repository / 'refs').mkdir()
    (repository / 'refs' / 'main').write_text('0123')
    (folder / 'config.json').symlink_to('../../blobs/aaa')
    (folder / 'refs').symlink_to('../../refs/main')
    assert untrusted.file(folder, 'config.json')
    refused('outside of', untrusted.file, folder, 'refs')
    (tmp_path / 'other').mkdir()
    folder.rename(tmp_path / 'other' / '0123')
    refused('leads nowhere', untrusted.file, tmp_path / 'other' / '0123', 'config.json')


# ------------------------------------------------------------------------ where folders are opened


CONFIG = {
    'model_type': 't5', 'vocab_size': 40, 'd_model': 8, 'd_kv': 4, 'd_ff': 8, 'num_layers': 1,
    'num_heads': 2, 'feed_forward_proj': 'gated-gelu', 'tie_word_embeddings': False,
}  # fmt: skip


def harms(tmp_path):
    """Ways to put something else in the place of a file."""
    secret = tmp_path / 'secret'
    secret.write_text('{"secret": 1}')
    yield 'outside of', lambda path: path.symlink_to(secret)
    yield 'leads nowhere', lambda path: path.symlink_to('gone')
    yield 'is a FIFO', os.mkfifo


def open_checkpoint(folder):
    return checkpoint.open(str(folder))


def open_task(root):
    return prepared.open_task(str(root), 'bytes', 'task', 'train')


def open_mixture(root):
    return prepared.open_mixture(str(root), 'bytes', 'mix', 'train')


RESULT = 'eval/3/test/task/metrics.json'
# What reads a folder, the file that is harmed, and the others that are there.
READERS = (
    (open_checkpoint, 'config.json', {}),
    (open_checkpoint, 'model.safetensors', {'config.json': CONFIG}),
    (open_checkpoint, 'model.safetensors.index.json', {'config.json': CONFIG}),
    (exported.Notes.read, 'xlbench.json', {'config.json': CONFIG}),
    (tensors.find, 'x.safetensors',
     {'model.safetensors.index.json': {'weight_map': {'a': 'x.safetensors'}}}),
    (results.read_run, 'config.json', {}),
    (results.read_run, RESULT, {'config.json': {}}),
    (results.read_run, 'metrics.jsonl',
     {'config.json': {}, RESULT: {'task': 't', 'scores': {'x': 1}}}),
    (Sweep, 'results.jsonl', {'config.json': {}}),
    (open_task, 'prepared/bytes/task/train/manifest.json', {}),
    (open_mixture, 'prepared/bytes/mix.json', {}),
)  # fmt: skip


@pytest.mark.parametrize(('read', 'name', 'others'), READERS)
def test_folders(tmp_path, read, name, others):
    for number, (match, harm) in enumerate(harms(tmp_path)):
        folder = tmp_path / f'{number}'  # Not `match`, as messages name it.
        for place, content in others.items():
            put_files.put(folder, place, content)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        harm(folder / name)
        refused(match, read, folder)


@pytest.mark.parametrize('family', ['t5', 'bert-cased', 'bart', 'marian'])
def test_vocabularies(tmp_path, family):
    """Neither opened nor copied, as convert and runs copy them."""
    folder = pathlib.Path(tokenizer_files.write(tmp_path / 'folder', family))
    whole = {file.name: file.read_bytes() for file in folder.iterdir()}
    for name in [*whole, 'added_tokens.json', 'tokenizer.json']:
        for match, harm in harms(tmp_path):
            (folder / name).unlink(missing_ok=True)
            harm(folder / name)
            if (family, name) != ('marian', 'tokenizer.json'):  # Of which it reads nothing.
                refused(match, tokenizers.load, str(folder), '')
            refused(match, tokenizers.copy_files, str(folder), '', tmp_path / 'workdir')
            if name != 'config.json':
                refused(match, hub.tokenizer_files, folder)
        (folder / name).unlink()
        if name in whole:
            (folder / name).write_bytes(whole[name])
    assert not (tmp_path / 'workdir' / 'vocabulary').exists()


def test_convert_copies_no_link(tmp_path):
    """What a link points at would be in the copy, for everybody who gets it."""
    model = models.build(
        'bert', 'sample', emb_dim=16, num_heads=2, head_dim=8, mlp_dim=16, vocab_size=40
    )
    params = traverse_util.unflatten_dict(
        {
            path: np.zeros(box.value.shape, np.float32)
            for path, box in checkpoint.boxed_params(model).items()
        },
        sep='/',
    )
    source, run = tmp_path / 'source', tmp_path / 'run'
    checkpoint.save(source, 'bert', model.config, params, dict(pad_id=0, eos_id=1), ())
    convert.to_workdir(str(source), run)
    for match, harm in harms(tmp_path):
        harm(source / 'special_tokens_map.json')
        refused(match, convert.to_workdir, str(source), tmp_path / 'target')
        (source / 'special_tokens_map.json').unlink()
    # The same the other way, for a file, for a checkpoint's file and for a whole folder.
    vocabulary, checkpoints = run / 'tokenizer', run / 'checkpoints'
    for match, harm in harms(tmp_path):
        for folder in (vocabulary, checkpoints / '0' / 'state'):
            harm(folder / 'vocab.txt')
            refused(match, convert.to_folder, str(run), tmp_path / 'target', 0)
            (folder / 'vocab.txt').unlink()
    for folder in (vocabulary, checkpoints):
        folder.rename(tmp_path / folder.name)
        folder.symlink_to(tmp_path / folder.name)
        refused('outside of', convert.to_folder, str(run), tmp_path / 'target', 0)
        folder.unlink()
        (tmp_path / folder.name).rename(folder)
    assert not list(tmp_path.glob('*target*')) and not list(tmp_path.glob('.*'))
    convert.to_folder(str(run), tmp_path / 'target', 0)


def test_nothing_is_written_through_a_link(tmp_path):
    """Else a run that goes on in a downloaded workdir would add its lines to any file."""
    run = tmp_path / 'run'
    run.mkdir()
    for name in ('metrics.jsonl', 'log.txt', 'tensorboard/events', 'eval/3/metrics.json', '.lock'):
        for match, harm in harms(tmp_path):
            (run / name).parent.mkdir(parents=True, exist_ok=True)
            harm(run / name)
            refused(match, locks.folder(run).__enter__)
            if name[0] not in 'e.':
                refused(match, tracking.Log, str(run))
            (run / name).unlink()
            harm(run / 'new.part')
            refused(match, locks.file(run / 'new').__enter__)
            (run / 'new.part').unlink()
            harm(run / 'translations.sqlite')
            refused(match, Memory, str(run), 'engine')
            (run / 'translations.sqlite').unlink()
    assert (tmp_path / 'secret').read_text() == '{"secret": 1}'
    with locks.folder(run):
        tracking.Log(str(run)).close()


@pytest.mark.parametrize('name', ['translations', 'stages', 'eval', 'report.md'])
def test_a_downloaded_workdir_leads_nowhere(tmp_path, name):
    """Folders that are links, below which a program would make its own."""
    outside, workdir = tmp_path / 'outside', tmp_path / 'system'
    outside.mkdir()
    workdir.mkdir()
    about = {'config': {'system': 'system', 'seed': 0}, 'scored': {}}
    (workdir / 'config.json').write_text(json.dumps(about))
    (workdir / name).symlink_to(outside)
    for file in ('answers', 'references'):
        (tmp_path / f'{file}.txt').write_text('Ein Satz.\n')
    files_flags = [str(tmp_path / 'answers.txt'), f'--references={tmp_path / "references.txt"}']
    flags = [*files_flags, '--lang=de', '--metrics=sacrebleu', f'--workdir={workdir}']
    refused('outside of', score.main, flags)
    rows = [chains.Row('0', ['x'])]
    refused('outside of', chains.Chain([]).run, rows, workdir)
    assert not list(outside.iterdir())
    assert sorted(os.listdir(workdir)) == sorted(['config.json', name])


def test_copies_have_modes_of_their_own(tmp_path):
    """A read-only file of a stranger does not make our copy one that cannot be changed."""
    folder = tokenizer_files.write(tmp_path / 'folder', 'bert-cased')
    for file in pathlib.Path(folder).iterdir():
        file.chmod(0o444)
    tokenizers.copy_files(folder, '', tmp_path / 'workdir')
    for file in (tmp_path / 'workdir' / 'vocabulary').iterdir():
        assert file.stat().st_mode & stat.S_IWUSR, file


def test_what_steers_a_terminal_is_not_printed(capsys):
    def main(argv):
        raise UserError('tensor \x1b[2J\x07 and\nmore')

    assert errors.run_main(main, []) == 2
    assert capsys.readouterr().err == 'error: tensor ?[2J? and more\n'
    assert errors.printable('x' * 500, 10) == 'xxxxxxx...'


# ---------------------------------------------------------------------------------------------
# Limits.


def packed(data, name='x.gz', pack=gzip.compress, unpack=lambda raw: gzip.GzipFile(fileobj=raw)):
    raw = io.BytesIO(pack(data))
    return untrusted.open_packed(unpack(raw), raw, name)


@pytest.mark.parametrize('limit', untrusted.ALL, ids=lambda limit: limit.variable)
def test_a_limit_is_changed_by_its_variable(monkeypatch, limit):
    assert limit.value == limit.default
    monkeypatch.setenv(limit.variable, ' 7 ')
    assert limit.value == 7
    line = str(limit.exceeded('x.json is too large'))
    assert line.startswith('x.json is too large: at most 7 ') and limit.variable in line
    for text in ('0', '-1', '1.5', 'x', '²', '9' * 30):
        monkeypatch.setenv(limit.variable, text)
        with pytest.raises(UserError, match=f'{limit.variable}={text} is not a whole number'):
            _ = limit.value


def test_small_files_are_read_whole(tmp_path, monkeypatch):
    path = tmp_path / 'x'
    path.write_bytes(b'12345')
    assert untrusted.read_bytes(path) == b'12345'
    monkeypatch.setenv('XLBENCH_MAX_CONFIG_BYTES', '5')
    assert untrusted.read_bytes(path) == b'12345'
    monkeypatch.setenv('XLBENCH_MAX_CONFIG_BYTES', '4')
    with pytest.raises(untrusted.Exceeded, match='x is too large: at most 4 bytes are allowed; if'):
        untrusted.read_bytes(path)
    for strange in (tmp_path, tmp_path / 'gone'):
        with pytest.raises(UserError, match='cannot be read'):
            untrusted.read_bytes(strange)


def test_depth(monkeypatch):
    def nested(levels):
        value = 1
        for i in range(levels):
            value = [value, 2] if i % 2 else {'a': value, 'b': None}
        return value

    untrusted.check_depth(nested(64), 'x')
    with pytest.raises(untrusted.Exceeded, match=r'^x is nested too deeply: at most 64 levels are'):
        untrusted.check_depth(nested(65), 'x')
    monkeypatch.setenv('XLBENCH_MAX_JSON_DEPTH', '65')
    untrusted.check_depth(nested(65), 'x')


@pytest.mark.parametrize('kind', ['gzip', 'bz2'])
def test_what_is_unpacked_is_counted(monkeypatch, kind):
    kinds = {'gzip': {}, 'bz2': dict(pack=bz2.compress, unpack=bz2.BZ2File)}
    zeros = bytes(16 << 20)
    with packed(b'a line\n' * 1000, **kinds[kind]) as file:
        assert list(file) == [b'a line\n'] * 1000
    with packed(zeros[: 1 << 20], **kinds[kind]) as file:  # The first MiB is free.
        assert len(file.read()) == 1 << 20
    unpack = kinds[kind]
    with pytest.raises(untrusted.Exceeded, match=r'^x.gz expands too far, to .* at most 100 times'):
        packed(zeros, **unpack).read()
    monkeypatch.setenv('XLBENCH_MAX_EXPANSION', '1000000')
    assert len(packed(zeros, **unpack).read()) == len(zeros)
    monkeypatch.setenv('XLBENCH_MAX_EXPANDED_BYTES', '1000000')
    with pytest.raises(untrusted.Exceeded, match=r'x\.gz is too large when it is'):
        packed(zeros, **unpack).read()


def test_truly_large_files_have_no_end():
    expansion = untrusted.Expansion('x', has_end=False)
    expansion.add(1 << 50, 1 << 49)
    with pytest.raises(untrusted.Exceeded, match='too large when it is unpacked'):
        untrusted.Expansion('x').add(1 << 50, 1 << 49)
