"""The dataset card of a prepared task: README.md beside its splits, with what the hub reads.

It says what the data was made of, and its sizes. The licence and the intended use are left to the
person who publishes it. No program that prepares or reads data reads a card.
"""

import hashlib
import pathlib
import re
from collections.abc import Sequence

import numpy as np

import xlbench
from xlbench.data import corpora, prepared
from xlbench.data.prepared import Prepared
from xlbench.system import files, untrusted

NAME = 'README.md'
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
    text = _text(splits)
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


def _text(splits: Sequence[Prepared]) -> str:
    """All of a card but the last line: card.md, filled in."""
    import jinja2  # It takes a while.

    name, manifest = splits[0].name, splits[0].manifest
    is_sample = any(split.manifest.get('data') == 'sample' for split in splits)
    benchmark = '' if is_sample else name.partition('_')[0]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, ''),
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {'cell': _cell, 'number': '{:,}'.format}
    return environment.get_template('card.md').render(
        name=name,
        version=xlbench.__version__,
        metadata=_metadata(splits, is_sample),
        is_sample=is_sample,
        splits=splits,
        counts=_counts(splits),
        manifest=manifest,
        view=manifest.get('view', 'generation'),
        features={feature for split in splits for feature in split[0]},
        vocabularies=_vocabularies(splits),
        sources=_sources(splits),
        longest=_LONGEST,
        corpora=[c for c in corpora.CORPORA.values() if c.benchmark == benchmark],
    )


def _metadata(splits: Sequence[Prepared], is_sample: bool) -> str:
    """YAML, by huggingface_hub itself."""
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
    return '\n'.join(data.to_yaml().splitlines())


def _counts(splits: Sequence[Prepared]) -> list[tuple[str, ...]]:
    return [
        (
            split.split,
            f'{split.pass_size:,}' + (f' in {split.draws} draws' if split.draws > 1 else ''),
            *(_quantiles(split.lengths()[:, side]) for side in (0, 1)),
            f'{_bytes(split):,}',
            split.sha256[:12],
        )
        for split in splits
    ]


def _quantiles(lengths: np.ndarray) -> str:
    """Example: [3, 4, 5, 90] -> '4, 90, 90'"""
    values = np.quantile(lengths, (0.5, 0.95, 1), method='higher')
    return ', '.join(f'{value:,}' for value in values.tolist())


def _vocabularies(splits: Sequence[Prepared]) -> list[tuple[str, int, str]]:
    entries = [split.manifest['vocabulary'] for split in splits]
    different = {str(entry): entry for entry in entries}.values()
    return [(_named(entry['name']), entry['size'], entry['sha256']) for entry in different]


def _sources(splits: Sequence[Prepared]) -> list[tuple[str, ...]]:
    rows: dict[tuple[str, ...], list[str]] = {}
    for split in splits:
        for entry in split.manifest.get('inputs') or ():
            facts = f'{entry["bytes"]:,}' if 'bytes' in entry else '', entry.get('sha256', '')
            rows.setdefault((_named(entry['path']), *facts), []).append(split.split)
    return [(file, ', '.join(of), *facts) for (file, *facts), of in rows.items()]


def _languages(splits: Sequence[Prepared]) -> list[str]:
    sides = ('source_lang', 'target_lang')
    langs = {split.manifest.get(side) for split in splits for side in sides}
    return sorted(filter(None, langs))


def _bytes(split: Prepared) -> int:
    return sum(shard['bytes'] for shard in split.manifest['shards'])


def _named(path: str) -> str:
    """A path, of which only the name stays where it says a place on one machine."""
    pure = pathlib.PurePath(path)
    return pure.name if pure.is_absolute() or '..' in pure.parts else path


def _cell(text: str) -> str:
    r"""A text in which nothing is markup. Example: 'a_b|c' -> '`a_b\|c`'; words are as they are."""
    plain = ''.join(c if c.isprintable() else ' ' for c in text)
    plain = plain.replace('`', "'").replace('|', r'\|')
    return plain if re.fullmatch('[A-Za-z0-9., ]*', plain) else f'`{plain}`'
