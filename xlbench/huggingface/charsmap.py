"""Normalisation of a SentencePiece model, as steps of the `tokenizers` library.

SentencePiece rewrites the longest sequence that its table has, from left to right
(google/sentencepiece, src/normalizer.cc). The library has that table as `Precompiled`, but looks up
user-perceived characters of up to five bytes by their shortest prefix, and longer ones character by
character: 'e' + circumflex + acute loses the acute, half-width 'カ' + dakuten stays two characters,
and so do the parts of a Hangul syllable. Here every character is looked up on its own, and what
SentencePiece composes is composed by NFC, which is kept from what SentencePiece leaves apart.
"""

import collections
import functools
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from tokenizers import Regex, normalizers

# Pairs of characters that no text has ("noncharacters" of Unicode): between what must not be
# composed, and between what is looked up.
_APART, _ALONE = '\ufdd0\ufdd1', '\ufdd2\ufdd3'
_MOST_EXCEPTIONS = 64
# SentencePiece's own tables have 265,000 nodes at most, keys of 12 bytes, texts of 33.
_MOST_NODES, _LONGEST_KEY, _LONGEST_TEXT = 1 << 20, 256, 1024
# Behind the first character: what is inserted at the very start makes the library panic later.
_INSIDE = '(?<=(?m:.))'


def _parts(charsmap: bytes) -> tuple[np.ndarray, np.ndarray, bytes]:
    """The units of the trie, their offsets, and the texts."""
    size = int.from_bytes(charsmap[:4], 'little')
    if size % 4 or not 1024 <= size < len(charsmap) - 4:
        raise ValueError(f'its trie has {size} of {len(charsmap)} bytes')
    units = np.frombuffer(charsmap[4 : 4 + size], '<u4').astype(np.int64)
    return units, (units >> 10) << ((units & 512) >> 6), charsmap[4 + size :]


def check(charsmap: bytes) -> None:
    """Raises ValueError for a table that would lead a library out of its memory.

    Neither SentencePiece nor `tokenizers` looks where an offset leads: the one reads what is there,
    the other ends the program. An empty table, see `read`, is none.
    """
    if not charsmap:
        return
    units, offsets, texts = _parts(charsmap)
    if not texts.endswith(b'\0'):
        raise ValueError('its last text has no end')
    texts.decode()
    ends = np.flatnonzero(np.frombuffer(texts, np.uint8) == 0)
    seen = np.zeros(len(units), bool)
    children, of_bases = _children(units)
    nodes = np.zeros(1, np.int64)
    while len(nodes):
        seen[nodes] = True
        bases = nodes ^ offsets[nodes]
        if (bases | 255).max() >= len(units):  # Any byte may be looked up from here.
            raise ValueError('its trie leads out of itself')
        values = units[bases[((units[nodes] >> 8) & 1).astype(bool)]] & 0x7FFFFFFF
        if values.size and values.max() >= len(texts):
            raise ValueError('its trie points behind the texts')
        if values.size and (ends[np.searchsorted(ends, values)] - values).max() > _LONGEST_TEXT:
            raise ValueError('one of its texts is too long')
        if any(texts[value] & 0xC0 == 0x80 for value in values.tolist()):
            raise ValueError('its trie points into a character')
        nodes, _ = _next(np.unique(bases), children, of_bases)
        nodes = nodes[~seen[nodes]]


def _children(units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The units that have a label, and of each the base from which that label leads to it.

    They are in the order of their bases, and of their labels.
    """
    labels = units & 0x800000FF  # Of a value, the highest bit is set.
    children = np.flatnonzero((labels > 0) & (labels < 256))
    bases = children ^ labels[children]
    order = np.lexsort((labels[children], bases))
    return children[order], bases[order]


def _next(
    bases: np.ndarray, children: np.ndarray, of_bases: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The children of some bases, and of each the place of its base among them."""
    first, last = (np.searchsorted(of_bases, bases, side) for side in ('left', 'right'))
    ranges = zip(first.tolist(), last.tolist(), strict=True)
    found = [children[slice(*places)] for places in ranges]
    return np.concatenate(found), np.repeat(np.arange(len(bases)), last - first)


def read(charsmap: bytes) -> dict[str, str]:
    """The table of a model: what is rewritten -> what it becomes.

    Args:
      charsmap: `normalizer_spec.precompiled_charsmap`: the length of a double-array trie
        (github.com/s-yata/darts-clone), the trie, and the texts that its values point to.

    Raises:
      ValueError: it is damaged; see `check`.
    """
    check(charsmap)
    units, offsets, texts = _parts(charsmap)
    tree, table = _children(units), {}
    nodes, keys, count = np.zeros(1, np.int64), [b''], 0
    while len(nodes):
        count += len(nodes)
        if count > _MOST_NODES or len(keys[0]) > _LONGEST_KEY:  # A circle goes on without end.
            raise ValueError('its trie has too many entries')
        bases = nodes ^ offsets[nodes]
        for row in np.flatnonzero((units[nodes] >> 8) & 1):
            start = int(units[bases[row]] & 0x7FFFFFFF)
            table[keys[row].decode()] = texts[start : texts.index(b'\0', start)].decode()
        nodes, parents = _next(bases, *tree)
        labels = (nodes ^ bases[parents]).tolist()
        keys = [keys[i] + bytes([label]) for i, label in zip(parents.tolist(), labels, strict=True)]
    return table


@functools.lru_cache(maxsize=4)
def steps(charsmap: bytes) -> list[normalizers.Normalizer]:
    """Steps that rewrite as the table does; none for an empty one."""
    if not charsmap:
        return []
    table = read(charsmap)
    composed = {key: text for key, text in table.items() if len(key) > 1}
    # Also '\r\n' would be looked up as one.
    alone = normalizers.Replace(Regex(rf'{_INSIDE}(?=[^\x00-\x7f]|(?<=\r)\n)'), _ALONE)
    looked_up = [alone, normalizers.Precompiled(charsmap), normalizers.Replace(_ALONE, '')]
    if not composed:
        return looked_up
    return [
        *_exceptions(table, composed),
        normalizers.Replace(Regex(_uncomposed(table, composed)), _APART),
        *looked_up,
        normalizers.NFC(),
        normalizers.Replace(_APART, ''),
    ]


def _exceptions(
    table: Mapping[str, str], composed: Mapping[str, str]
) -> list[normalizers.Normalizer]:
    """Sequences that NFC of their characters does not give.

    They are of scripts newer than the library's Unicode, and of models that fold case, which write
    the iota below Greek letters in their own way.
    """
    nfc, groups = normalizers.NFC(), collections.defaultdict(list)
    for key, text in composed.items():
        alone = ''.join(table.get(c, c) for c in key)
        stays = ''.join(table.get(c, c) for c in text) == text
        if stays and nfc.normalize_str(alone) != text:
            groups[text].append(key)
    longest = sorted(groups, key=lambda text: -max(map(len, groups[text])))
    return [
        normalizers.Replace(Regex('|'.join(sorted(groups[text], key=len, reverse=True))), text)
        for text in longest[:_MOST_EXCEPTIONS]
    ]


def _uncomposed(table: Mapping[str, str], composed: Iterable[str]) -> str:
    """A pattern of the places before a character that NFC might join to what stands before it.

    It leaves out the places where the table itself joins them: there, what stands before a
    character is a sequence of the table, because each of its sequences begins with another one.
    """
    before: dict[str, dict[tuple[str, ...], set[str]]] = collections.defaultdict(
        lambda: collections.defaultdict(set)
    )
    firsts = {key[0] for key in composed}
    for key in composed:
        # Characters that begin sequences and go on with them: four, of scripts of Unicode 16.
        if firsts.isdisjoint(key[1:]):
            before[key[-1]][tuple(key[1:-1])].add(key[0])
    groups = collections.defaultdict(list)
    for last, starts in before.items():
        # 'Any of these, then any of those': parts that follow the same characters are joined.
        joined = collections.defaultdict(set)
        for middle, start in starts.items():
            joined[frozenset(start), middle[:-1], len(middle)].add(middle[-1:])
        parts = frozenset(
            (start, *rest, frozenset().union(*ends)) for (start, rest, _), ends in joined.items()
        )
        groups[parts].append(last)
    joining = set(_combining()) | set(before)
    joining |= {key for key, text in table.items() if len(key) == 1 and text[:1] in joining}
    places = [f'(?=[{_class(joining - set(before))}])']
    for parts, lasts in groups.items():
        sequences = [
            ''.join(f'[{_class(characters)}]' for characters in sequence if characters)
            for sequence in parts
        ]
        places.append(f'(?=[{_class(lasts)}])(?<!{"|".join(sorted(sequences))})')
    return f'{_INSIDE}(?=[{_class(joining)}])(?:{"|".join(places)})'


@functools.cache
def _combining() -> Sequence[str]:
    """Every character that NFC may move past others."""
    return [c for c in map(chr, range(0x110000)) if unicodedata.combining(c)]


def _class(characters: Iterable[str]) -> str:
    points = sorted(map(ord, characters))
    starts = [p for i, p in enumerate(points) if not i or points[i - 1] != p - 1]
    ends = [p for i, p in enumerate(points) if i + 1 == len(points) or points[i + 1] != p + 1]
    return ''.join(
        f'\\x{{{a:x}}}' + (f'-\\x{{{b:x}}}' if b > a else '')
        for a, b in zip(starts, ends, strict=True)
    )
