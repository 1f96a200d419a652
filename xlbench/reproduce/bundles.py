"""Files of results that others check: written, and read as a stranger's.

  bundle.json                               what it is, runs, code, hashes; see `Contents`
  table.md, table.csv                       the table, with differences and notes; its cells alone
  cards/RUN.md                              model cards
  runs/RUN/config.json                      the resolved config, versions, hashes of the data
  runs/RUN/eval/STEP/SPLIT/TASK/...         metrics.json and predictions.jsonl
  runs/RUN/results.jsonl, predictions/...   of a sweep
"""

import hashlib
import importlib.metadata
import json
import pathlib
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from xlbench.system import files, untrusted
from xlbench.system.errors import UserError, shortened
from xlbench.system.files import Json

NAME, FORMAT = 'bundle.json', 2
_ENDINGS = ('.json', '.jsonl', '.md', '.csv', '.npy')  # Nothing that is run.
_PLAIN = re.compile(r'(?!\.)[\w .,+@=()-]{1,200}')  # A part of the name of a member.
_PRIVATE = ('cwd', 'argv')  # Of a config.json: the machine's folders.
_MEMBERS, _DEPTH, _BLOCK = 50_000, 8, 1 << 20
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, NotImplementedError)


class ExperimentRuns(msgspec.Struct):
    """An experiment: the paper's key, see `Experiment`, and the folders of its runs."""

    key: dict[str, str]
    mixture: str = ''
    runs: list[str] = []


class Contents(msgspec.Struct, kw_only=True):
    """The content of bundle.json.

    It has the number of the table, the names of the new systems, their experiments by name and the
    line of what they took; see `code`. The hashes are the SHA-256 of all other members.
    """

    format: int
    benchmark: str
    table: str
    size: str
    systems: list[str]
    cost: str
    code: dict[str, str]
    experiments: dict[str, ExperimentRuns]
    hashes: dict[str, str] = {}


def code() -> dict[str, str]:
    """The version of xlbench, and the hash of its Python files."""
    root = pathlib.Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob('*.py')):
        digest.update(f'{path.relative_to(root)}\0'.encode() + path.read_bytes() + b'\0')
    return {'version': importlib.metadata.version('xlbench'), 'hash': digest.hexdigest()}


# ------------------------------------------------------------------------------------- written


def write(
    path: str | pathlib.Path,
    manifest: Contents,
    folders: Sequence[pathlib.Path],
    texts: Mapping[str, str],
) -> None:
    """Writes a bundle of the folders of runs and of further texts by name; its path must be free.

    The hashes are added to the manifest.
    """
    files.check_new(path)
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    with files.replacing(path) as file, zipfile.ZipFile(file, 'w') as archive:

        def put(name: str, data: bytes) -> None:
            # Without a date: the same results give the same bytes.
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
            if name != NAME:
                manifest.hashes[name] = sha(data)

        for name, text in texts.items():
            put(name, text.encode())
        for folder in folders:
            for member, data in _of_run(folder):
                put(f'runs/{folder.name}/{member}', data)
        put(NAME, msgspec.json.format(msgspec.json.encode(manifest)))


def _of_run(folder: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    for place in (folder / 'eval', folder / 'predictions'):
        for path in sorted(files.below(place)) if place.is_dir() else ():
            if path.suffix in _ENDINGS and not path.name.startswith('.'):
                yield str(path.relative_to(folder)), path.read_bytes()
    about: dict[str, Json] = files.read_json(folder / 'config.json', dict)
    kept = {key: value for key, value in about.items() if key not in _PRIVATE}
    yield 'config.json', (json.dumps(kept, indent=1, ensure_ascii=False) + '\n').encode()
    if (folder / 'results.jsonl').is_file():
        yield 'results.jsonl', (folder / 'results.jsonl').read_bytes()


def sha(data: bytes) -> str:
    """The SHA-256 of a member."""
    return hashlib.sha256(data).hexdigest()


# ---------------------------------------------------------------------------------------- read


def unpack(path: str | pathlib.Path, target: pathlib.Path) -> Contents:
    """Writes the members of a stranger's bundle into an empty folder of ours.

    Raises:
      UserError: it is no bundle; a member has a name that may lead elsewhere or is no regular
        file of a known kind; or there are too many, or too much comes out of them.
    """
    expansion = untrusted.Expansion(str(path))
    try:
        with untrusted.open_regular(path) as file, zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > _MEMBERS:
                raise UserError(f'{path} has {len(members):,} members; a bundle has {_MEMBERS:,}')
            size = pathlib.Path(path).stat().st_size
            seen: set[str] = set()
            for info in members:
                place = target / _checked(str(path), info, seen)
                place.parent.mkdir(parents=True, exist_ok=True)
                written = 0
                with archive.open(info) as content, place.open('xb') as out:
                    while block := content.read(_BLOCK):
                        expansion.add(len(block), size)
                        written += len(block)
                        if written > untrusted.JSON_BYTES.value:
                            raise untrusted.JSON_BYTES.exceeded(f'{path}: {info.filename}')
                        out.write(block)
    except (OSError, *_DAMAGED) as error:
        if isinstance(error, UserError):
            raise
        said = shortened(str(error), 200)
        raise UserError(f'{path} cannot be read as a bundle: {said}') from None
    if not (target / NAME).is_file():
        raise UserError(f'{path} has no {NAME}, so it is no bundle of xlbench.reproduce --bundle')
    version = files.read_json(target / NAME, dict).get('format')
    if version != FORMAT:
        raise UserError(f'{path} has format {shortened(version)}; this version reads {FORMAT}')
    return files.read_json(target / NAME, Contents)


def _checked(path: str, info: zipfile.ZipInfo, seen: set[str]) -> str:
    """The name of a member, if it may be written below a folder."""
    name, parts = info.filename, info.filename.split('/')
    kind = stat.S_IFMT(info.external_attr >> 16)
    is_plain = len(parts) <= _DEPTH and all(map(_PLAIN.fullmatch, parts))
    if not is_plain or kind not in (0, stat.S_IFREG) or not name.endswith(_ENDINGS):
        raise UserError(
            f'{path}: member {shortened(name)} is not allowed; a bundle has regular files '
            f'({", ".join(_ENDINGS)}) with plain names'
        )
    if name.casefold() in seen:
        raise UserError(f'{path}: member {shortened(name)} is there twice')
    if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UserError(f'{path}: member {shortened(name)} is encrypted, or packed in another way')
    seen.add(name.casefold())
    return name
