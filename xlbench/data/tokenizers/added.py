"""Words that a vocabulary is given beyond its own, such as mDialBART's token of summaries.

A vocabulary is then named `NAME+[word]`, or `NAME+[one]+[two]`: the files of NAME with the words
behind all pieces, as `tokenizer.add_tokens(['[word]'])` of transformers has them. They are plain
tokens, which stay in decoded text; text around them is tokenised as before.
"""

import dataclasses
import json
import os
import re
from collections.abc import Mapping

import msgspec

from xlbench.data import vocabulary_files
from xlbench.data.vocabulary_files import Files, Token
from xlbench.system import files as files_lib

_SPEC = re.compile(r'(.+?)((?:\+\[\w+\])+)')


def split_spec(spec: str) -> tuple[str, tuple[str, ...]]:
    """Returns the name of a vocabulary, and the words that it is given.

    Example: 'facebook/mbart-large-50+[summarize]' -> 'facebook/mbart-large-50', ('[summarize]',)
    """
    match = None if os.path.exists(os.path.expanduser(spec)) else _SPEC.fullmatch(spec)
    return (match[1], tuple(match[2][1:].split('+'))) if match else (spec, ())


def with_words(files: Files, words: Mapping[str, int]) -> Files:
    """Returns the files of a folder as they would be with these words, by their ids."""
    if tokens := files.tokenizer.added_tokens_decoder:
        tokens = tokens | {number: _token(word) for word, number in words.items()}
        settings = msgspec.structs.replace(files.tokenizer, added_tokens_decoder=tokens)
        return dataclasses.replace(files, tokenizer=settings)
    return dataclasses.replace(files, added={**files.added, **words})


def write(folder: str | os.PathLike, words: Mapping[str, int]) -> None:
    """Writes words, by their ids, into the files of a folder, where transformers reads them."""
    folder = os.fspath(folder)
    files = Files.read(folder)
    name, content = vocabulary_files.ADDED_TOKENS, {**files.added, **words}
    if files.tokenizer.added_tokens_decoder:
        name = vocabulary_files.TOKENIZER_CONFIG
        content = files_lib.read_json(files.path(name), dict)
        more = {str(n): msgspec.to_builtins(_token(word)) for word, n in words.items()}
        content['added_tokens_decoder'] |= more
    text = json.dumps(content, ensure_ascii=False, indent=2)
    files_lib.write(files.path(name), text + '\n')


def _token(word: str) -> Token:
    return Token(
        word, lstrip=False, rstrip=False, normalized=True, single_word=False, special=False
    )
