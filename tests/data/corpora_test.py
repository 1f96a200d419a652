"""Where corpora are: listed, downloaded from a server of this machine, checked."""

import hashlib
import io
import json
import pathlib
import random
import tarfile
import zipfile

import partners
import pytest

from xlbench.data import __main__ as command, corpora
from xlbench.data.corpora import CORPORA, Archive, Corpus, File
from xlbench.system import errors

HOST = 'corpora.example'


def run(capsys, *arguments):
    """(exit code, what was printed)."""
    code = errors.run_main(command.main, ['xlbench.data', *map(str, arguments)])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


@pytest.fixture
def mirror(tmp_path):
    """A server of this machine; what lies in its folder mirror/HOST it serves as https://HOST."""
    folder = tmp_path / 'mirror'
    (folder / HOST).mkdir(parents=True)

    def answer(request):
        path = folder / request.path[1:]
        request.send(path.read_bytes()) if path.is_file() else request.send(status=404)

    with partners.serving(answer) as address:
        yield folder / HOST, address


def published(path: str, content: bytes) -> File:
    digest = hashlib.sha256(content).hexdigest()
    return File(path, digest, len(content), f'https://{HOST}/{pathlib.Path(path).name}')


def add(monkeypatch, *files: File, **fields) -> None:
    """Makes the corpus `made_up` known."""
    corpus = Corpus('made_up', 'xquad', 'a corpus of a test', 'https://here', 'none', **fields)
    corpus.__dict__['files'] = list(files)
    monkeypatch.setitem(CORPORA, 'made_up', corpus)


def squad(count: int) -> bytes:
    """A file of XQuAD's form with articles of one question each."""
    context = 'Ein Haus am See.'
    answers = [{'text': 'See', 'answer_start': context.index('See')}]
    qas = [{'id': f'q{i}', 'question': 'Wo?', 'answers': answers} for i in range(count)]
    articles = [{'paragraphs': [{'context': context, 'qas': [qa]}]} for qa in qas]
    return json.dumps({'data': articles}).encode()


def test_every_corpus_says_how_it_is_had(capsys, tmp_path):
    code, text = run(capsys, 'list', f'--root={tmp_path}')
    assert code == 0 and text.count('\n') == len(CORPORA) + 1
    for corpus in CORPORA.values():
        code, text = run(capsys, 'list', corpus.name, f'--root={tmp_path}')
        assert code == 0 and corpus.address in text and corpus.licence in text
        assert bool(corpus.by_hand) == (corpus.way == 'by hand') and corpus.tasks
    assert CORPORA['xquad'].way == 'files' and len(CORPORA['xquad'].files) == 4
    assert all(len(file.sha256) == 64 and file.bytes for _, file in corpora._files())
    assert 'checksums, and an archive with the others' in run(capsys, 'list', 'xquad')[1]
    assert run(capsys, 'list', 'xquat') == (2, "error: unknown corpus 'xquat'; nearest: xquad\n")


def test_files_are_downloaded_checked_and_kept(capsys, monkeypatch, mirror, tmp_path):
    folder, address = mirror
    file = published('xquad/xquad.de.json', squad(20))
    add(monkeypatch, file, tasks=[f'xquad_qg_de_de:{split}' for split in ('train', 'test')])
    flags = '--root', tmp_path / 'data'
    code, text = run(capsys, 'get', 'made_up', *flags, '--mirror_url', address)
    assert code == 2 and 'cannot be downloaded: 404' in text and text.count('\n') == 2
    (folder / 'xquad.de.json').write_bytes(squad(19))
    code, text = run(capsys, 'get', 'made_up', *flags, '--mirror_url', address)
    assert code == 2 and 'bytes, and the published file 2,880' in text
    other = squad(20).replace(b'Haus', b'Haut')
    (folder / 'xquad.de.json').write_bytes(other)
    code, text = run(capsys, 'get', 'made_up', *flags, '--mirror_url', address)
    assert code == 2 and 'has other content than the published file' in text
    assert not list((tmp_path / 'data').rglob('*.json')), 'a file with other content stayed'
    (folder / 'xquad.de.json').write_bytes(squad(20))
    code, text = run(capsys, 'get', 'made_up', *flags, '--mirror_url', address)
    assert code == 0 and 'xquad/xquad.de.json: downloaded' in text
    (folder / 'xquad.de.json').unlink()
    code, text = run(capsys, 'get', 'made_up', *flags, '--mirror_url', address)
    assert code == 0 and 'was there' in text
    code, text = run(capsys, 'verify', 'made_up', *flags)
    assert code == 0, text
    assert 'the published content' in text and 'xquad_qg_de_de:train: 16 records' in text
    (tmp_path / 'data' / 'xquad' / 'xquad.de.json').write_bytes(squad(3))
    code, text = run(capsys, 'get', 'made_up', *flags, '--mirror_url', address)
    assert code == 2 and 'is not the published file' in text
    code, text = run(capsys, 'verify', 'made_up', *flags)
    assert code == 1 and 'made_up is not complete' in text


def test_verify_counts_and_names_bad_records(capsys, monkeypatch, tmp_path):
    add(monkeypatch, tasks=['mtg_tg_de_de:test', 'mtg_tg_fr_fr:test'])
    folder = tmp_path / 'mtg' / 'tg' / 'de'
    folder.mkdir(parents=True)
    (folder / 'test.src').write_text('Ein Haus.\n\nEin See.\n', encoding='utf-8')
    (folder / 'test.trg').write_text('Haus\nBoot\nSee\n', encoding='utf-8')
    code, text = run(capsys, 'verify', 'made_up', f'--root={tmp_path}')
    assert code == 1
    assert 'mtg_tg_de_de:test: 2 records, published are 3,000; ' in text and 'test.src:2' in text
    assert 'mtg_tg_fr_fr:test: there is no file' in text


def tar(mode='w:gz', **members) -> bytes:
    """A packed archive with these members; a str is a symbolic link to it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


@pytest.mark.parametrize('suffix', ['tgz', 'tar.bz2', 'zip'])
def test_archives_are_unpacked_where_their_files_belong(
    capsys, monkeypatch, mirror, tmp_path, suffix
):
    folder, address = mirror
    archive = Archive(f'https://{HOST}/all.{suffix}', r'top/(\w+/[^/]+)', r'mrs/\1', 1000)
    add(monkeypatch, archives=[archive], tasks=['mrs_retrieval_de_de:test'])
    members = {'top/test/a.tsv': b'Wo?\tHier.\t\t\n', 'top/other': b'x', 'more/test/b.tsv': b'x'}
    content = zipped(**members)
    if mode := {'tgz': 'w:gz', 'tar.bz2': 'w:bz2'}.get(suffix):
        content = tar(mode, **members, **{'top/test/link.tsv': '/etc/passwd'})
    (folder / f'all.{suffix}').write_bytes(content)
    flags = 'get', 'made_up', '--root', tmp_path / 'data', '--mirror_url', address
    code, text = run(capsys, *flags)
    assert code == 0 and '1 files unpacked; sha256' in text
    written = sorted(p.relative_to(tmp_path / 'data') for p in (tmp_path / 'data').rglob('*.*'))
    assert [str(path) for path in written] == [f'downloads/made_up-all.{suffix}', 'mrs/test/a.tsv']
    assert run(capsys, *flags)[0] == 0  # Again: what is there is the same.
    (tmp_path / 'data' / 'mrs' / 'test' / 'a.tsv').write_text('mine')
    code, text = run(capsys, *flags)
    assert code == 2 and 'is there with other content' in text
    assert (tmp_path / 'data' / 'mrs' / 'test' / 'a.tsv').read_text() == 'mine'


def zipped(**members):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, 'w', zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return packed.getvalue()


def damaged(content, start):
    """With other bytes in the middle of a member."""
    return content[:start] + b'\xff\x00\xff\x55' + content[start + 4 :]


def heads(*changed, end=bytes(1024)):
    """An unpacked tar of one wanted file, whose head of 512 bytes has parts replaced."""
    info = tarfile.TarInfo('top/test/a')
    info.size = 600
    head = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    for start, part in changed:
        head[start : start + len(part)] = part
    head[148:156] = b' ' * 8
    head[148:156] = b'%06o\0 ' % sum(head)
    return bytes(head) + bytes(1024) + end


def pax(record):
    """The same behind a head of pax with one record."""
    info = tarfile.TarInfo('x')
    info.type, info.size = tarfile.XHDTYPE, len(record)
    return info.tobuf(tarfile.USTAR_FORMAT) + record.ljust(512, b'\0') + heads()


SPARSE = [(156, b'S'), (386, b'00000000000\0' * 2), (483, b'27777777777\0')]
NOISE = random.Random(0).randbytes(900)
BOMB = bytes(6 << 20)
ZIP = zipped(**{'top/test/a': b'x'})


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (b'<html>not here</html>', 'cannot be unpacked'),
        (b'', 'cannot be unpacked'),
        (damaged(tar(**{'top/test/a': NOISE}), 500), 'cannot be unpacked'),
        (tar(**{'top/test/a': NOISE})[:600], 'cannot be unpacked'),
        (damaged(zipped(**{'top/test/a': NOISE}), 500), 'cannot be unpacked'),
        (ZIP.replace(b'PK\1\2\x14\3\x14\0\0', b'PK\1\2\x14\3\x14\0\1'), 'is encrypted'),
        (ZIP.replace(b'\0\0\x08\0', b'\0\0\x63\0'), 'compression method is not supported'),
        (tar(**{f'top/test/{"x" * 5000}': b'x'}), 'File name too long'),
        (tar(**{'other/bomb': BOMB}), 'expands too far'),  # Nobody wants it, but it is in the way.
        (zipped(**{'top/test/bomb': BOMB}), 'expands too far|more than 1,000 bytes'),
        (tar(**{'other/file': b'x'}), 'holds none of the files'),
        (tar(**{'top/test/..': b'x'}), 'would be unpacked outside'),
        (tar(**{'top/test/big': b'x' * 1001}), 'has more than 1,000 bytes'),
        (heads(*SPARSE), 'a member is sparse'),
        (pax(b'22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n'), 'is sparse|cannot be unpacked'),
        (pax(b'34 GNU.sparse.map=0,9999999999999\n'), 'is sparse|cannot be unpacked'),
        (heads(end=b''), 'its end is missing'),
        (heads((124, b'\xff' * 12)), 'a member has -1 bytes'),
        (heads(end=NOISE[:512] + bytes(1024)), 'its end is missing'),
        (pax(b'99999999999999999999 path=x\n'), 'cannot be unpacked|its end is missing'),
    ],
)
def test_strange_archives_are_one_line(monkeypatch, mirror, tmp_path, content, message):
    folder, address = mirror
    archive = Archive(f'https://{HOST}/all.tgz', r'top/(\w+/[^/]+)', r'mrs/\1', 1000)
    add(monkeypatch, archives=[archive])
    (folder / 'all.tgz').write_bytes(content)
    with pytest.raises((errors.UserError, OSError), match=message) as caught:
        list(corpora.get(CORPORA['made_up'], str(tmp_path / 'data'), address))
    assert '\n' not in str(errors.plain(caught.value))
    assert not [path for path in (tmp_path / 'data').rglob('*') if path.name.startswith('.')]


def test_what_people_must_get_is_not_downloaded(capsys, tmp_path):
    code, text = run(capsys, 'get', 'mldoc', f'--root={tmp_path}')
    assert code == 2 and 'may not download mldoc' in text and 'agreement' in text
    assert not list(tmp_path.iterdir())


def test_the_hashes_are_those_of_real_files(dev_data):
    for name in ('xquad', 'xdailydialog', 'xpersona', 'convsumx', 'dialogsum'):
        for file in CORPORA[name].files:
            assert corpora.present(file, str(dev_data)), file.path
