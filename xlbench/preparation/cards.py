"""The dataset card of a prepared task: README.md beside its splits, with what the hub reads.

It says what the data was made of, and its sizes. The licence and the intended use are left to the
person who publishes it. No program that prepares or reads data reads a card.
"""

import hashlib
import pathlib
import re
from collections.abc import Iterator, Sequence

import numpy as np

import xlbench
from xlbench.data import corpora, prepared
from xlbench.data.prepared import Prepared
from xlbench.system import files, untrusted

NAME = 'README.md'
_LICENCE = '# license: add the licence; those of the sources decide it.'
# What the hub calls the tasks of a view, see data.features.VIEWS.
_CATEGORIES = {
    'classification': 'text-classification',
    'tagging': 'token-classification',
    'retrieval': 'text-retrieval',
}
_SIZES = (('n<1K', 10**3), ('1K<n<10K', 10**4), ('10K<n<100K', 10**5), ('100K<n<1M', 10**6))
_LONGEST = 50  # Rows of a table.
# The last line of a card; a card whose text has another hash has been changed by somebody.
_MARK = '<!-- written by xlbench.prepare, sha256 {} -->\n'


def write(root: str, vocabulary: str, task: str) -> str:
    """Writes the card of a task, and says where; a file that somebody has changed stays.

    Args:
      root: the data root.
      vocabulary: that the task was prepared with.
      task: its name; the card has all splits that are prepared and up to date.
    """
    splits = _splits(root, vocabulary, task)
    folder = pathlib.Path(splits[0].folder).parent
    path = untrusted.file(folder, NAME)
    if path and not _is_ours(path):
        return f'{path} stays: it is not as --card has written it; remove it to have a new one'
    text = '\n'.join([*_lines(splits), ''])
    files.write(folder / NAME, text + _MARK.format(hashlib.sha256(text.encode()).hexdigest()))
    return f'wrote {folder / NAME}; its licence is left to you'


def _splits(root: str, vocabulary: str, task: str) -> list[Prepared]:
    """The prepared splits of a task, training data first."""
    folder = pathlib.Path(prepared.folder(root, vocabulary, task, 'train')).parent
    names = [path.parent.name for path in folder.glob('[!.]*/manifest.json')]
    order = ('rough_train', 'train', 'validation', 'test')
    names.sort(key=lambda name: (order.index(name) if name in order else len(order), name))
    tasks = (prepared.open_optional(root, vocabulary, task, name) for name in names)
    return [split for found in tasks for split in found]


def _is_ours(path: pathlib.Path) -> bool:
    """Returns whether a file is a card that nobody has changed."""
    text = path.read_bytes()
    start = text.rfind(b'<!--')
    return text[start:] == _MARK.format(hashlib.sha256(text[:start]).hexdigest()).encode()


def _lines(splits: Sequence[Prepared]) -> Iterator[str]:
    """All lines of a card but the last one."""
    name = splits[0].name
    is_sample = any(split.manifest.get('data') == 'sample' for split in splits)
    yield from ('---', *_metadata(splits, is_sample), _LICENCE, '---', '', f'# {name}', '')
    yield f'Examples of the task {name}, as token ids and texts, in the ArrayRecord format.'
    yield f'Written by xlbench {xlbench.__version__}.'
    if is_sample:
        yield from (
            '',
            'The data is artificial. Scores on it cannot be compared with published ones.',
        )
    for title, body in (
        ('Splits', _counts(splits)),
        ('Task', _task(splits)),
        ('Vocabulary', _vocabulary(splits)),
        ('Sources', _sources(splits)),
        ('Reading it', _reading(splits[0])),
        ('Licence and use', _licence('' if is_sample else name.partition('_')[0])),
    ):
        yield from ('', f'## {title}', '', *body)


def _metadata(splits: Sequence[Prepared], is_sample: bool) -> list[str]:
    """The lines of YAML, by huggingface_hub itself."""
    from huggingface_hub import DatasetCardData  # It takes a while.

    total = sum(split.pass_size for split in splits)
    size = next((name for name, most in _SIZES if total < most), 'n>1M')
    view = splits[0].manifest.get('view', 'generation')
    data = DatasetCardData(
        pretty_name=splits[0].name,
        language=_languages(splits) or None,
        task_categories=[_CATEGORIES.get(view, 'text-generation')],
        size_categories=[size],
        tags=['xlbench', 'seqio', 'array-record', *(['sample-data'] if is_sample else [])],
        viewer=False,  # The hub does not read ArrayRecord.
        dataset_info={
            'dataset_name': splits[0].name,
            'splits': [
                {
                    'name': split.split,
                    'num_bytes': _bytes(split),
                    'num_examples': split.num_examples,
                }
                for split in splits
            ],
        },
    )
    return data.to_yaml().splitlines()


def _counts(splits: Sequence[Prepared]) -> Iterator[str]:
    rows = [
        (
            split.split,
            f'{split.pass_size:,}' + (f' in {split.draws} draws' if split.draws > 1 else ''),
            *(_quantiles(split.lengths()[:, side]) for side in (0, 1)),
            f'{_bytes(split):,}',
            split.sha256[:12],
        )
        for split in splits
    ]
    heads = ('split', 'examples', 'tokens of inputs', 'tokens of targets', 'bytes', 'hash')
    yield from _table(heads, rows)
    yield from ('', 'Tokens are the median, the 95th percentile and the most, the end included.')


def _quantiles(lengths: np.ndarray) -> str:
    """Example: [3, 4, 5, 90] -> '4, 90, 90'"""
    values = np.quantile(lengths, (0.5, 0.95, 1), method='higher')
    return ', '.join(f'{value:,}' for value in values.tolist())


def _task(splits: Sequence[Prepared]) -> Iterator[str]:
    manifest = splits[0].manifest
    sides = {'Inputs': manifest.get('source_lang'), 'Targets': manifest.get('target_lang')}
    for side, lang in sides.items():
        yield f'- {side}: {lang or "in languages that the task does not state"}'
    yield f'- For models of the kind `{manifest.get("view", "generation")}`'
    if labels := manifest.get('labels'):
        yield f'- Labels, by their ids: {", ".join(map(_cell, labels))}'
    names = [str(spec.get('metric')) for spec in manifest.get('metrics') or ()]
    if names:
        yield f'- Metrics: {", ".join(map(_cell, names))}'
    features = {name for split in splits for name in split[0]}
    yield f'- Features of an example: {", ".join(map(_cell, sorted(features)))}'


def _vocabulary(splits: Sequence[Prepared]) -> Iterator[str]:
    for entry in {str(v): v for v in (split.manifest['vocabulary'] for split in splits)}.values():
        # A path says where it lay on one machine.
        name = pathlib.PurePath(entry['name']).name if _is_place(entry['name']) else entry['name']
        yield f'- {_cell(name)}: {entry["size"]:,} pieces, sha256 {_cell(entry["sha256"])}'


def _sources(splits: Sequence[Prepared]) -> Iterator[str]:
    rows = {}
    for split in splits:
        for entry in split.manifest.get('inputs') or ():
            path = entry['path']
            name = pathlib.PurePath(path).name if _is_place(path) else path
            facts = f'{entry["bytes"]:,}' if 'bytes' in entry else '', entry.get('sha256', '')
            rows.setdefault((name, *facts), []).append(split.split)
    listed = [(file, ', '.join(of), *facts) for (file, *facts), of in rows.items()]
    if listed:
        yield from _table(('file', 'splits', 'bytes', 'sha256'), listed[:_LONGEST])
    else:
        yield 'The files that the data was made of are not recorded.'
    if len(listed) > _LONGEST:
        yield from ('', f'{len(listed) - _LONGEST:,} more are in the files manifest.json.')
    for split in splits:
        if skipped := len(split.manifest.get('skipped') or ()):
            yield from ('', f'{split.split}: {skipped:,} records could not be used.')
        for reason, count in (split.manifest.get('left_out') or {}).items():
            yield from ('', f'{split.split}: without {count:,}: {_cell(reason)}.')


def _reading(split: Prepared) -> Iterator[str]:
    yield 'The folder of this card belongs below `prepared/VOCABULARY/` of a data root:'
    yield from ('', '```py', 'from xlbench.data import prepared', '')
    yield f"task = prepared.open_task('data', 'VOCABULARY', {split.name!r}, {split.split!r})"
    yield from ("print(len(task), task[0]['inputs_pretokenized'])", '```')


def _licence(benchmark: str) -> Iterator[str]:
    for corpus in corpora.CORPORA.values():
        if corpus.benchmark == benchmark:
            yield f'- Source: {corpus.title}, <{corpus.address}>. Its licence: {corpus.licence}.'
    yield '- Licence: to be filled in.'
    yield '- What the data may be used for: to be filled in.'
    yield '- Personal and sensitive information: to be filled in.'
    yield from ('- Citation: to be filled in.', '')


def _languages(splits: Sequence[Prepared]) -> list[str]:
    sides = ('source_lang', 'target_lang')
    langs = {split.manifest.get(side) for split in splits for side in sides}
    return sorted(filter(None, langs))


def _bytes(split: Prepared) -> int:
    return sum(shard['bytes'] for shard in split.manifest['shards'])


def _is_place(path: str) -> bool:
    """Returns whether a path leads to a place on one machine, which is nobody else's business."""
    return pathlib.PurePath(path).is_absolute() or '..' in pathlib.PurePath(path).parts


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f'| {" | ".join(heads)} |'
    yield f'|{"---|" * len(heads)}'
    for cells in rows:
        yield f'| {" | ".join(map(_cell, cells))} |'


def _cell(text: str) -> str:
    r"""A text in which nothing is markup. Example: 'a_b|c' -> '`a_b\|c`'; words are as they are."""
    plain = ''.join(c if c.isprintable() else ' ' for c in text)
    plain = plain.replace('`', "'").replace('|', r'\|')
    return plain if re.fullmatch('[A-Za-z0-9., ]*', plain) else f'`{plain}`'
