"""The description of a model in the small files of its checkpoint, read before any weights.

config.json has its family and sizes, and modules.json of sentence-transformers says how its states
become a vector. From a hub repository, only these files are fetched.
"""

import dataclasses
import os
import pathlib

from xlbench.huggingface import declared, hub, marian_files, sentence_files
from xlbench.huggingface.mapping import fields
from xlbench.system import untrusted
from xlbench.system.errors import UserError
from xlbench.system.files import Json

_FILES = (hub.CONFIG, *sentence_files.NAMES)


@dataclasses.dataclass(frozen=True)
class Described:
    """A checkpoint, as its small files describe it.

    Attributes:
      start: what to start from, for init_from.
      vocabulary: the same folder or name, for config.data.vocabulary.
      model: arguments of models.build.
      sentences: fields of a dual encoder, where the folder is of sentence-transformers.
    """

    start: str
    vocabulary: str
    model: dict[str, Json]
    sentences: dict[str, Json]


def describe(spec: str) -> Described:
    """Reads the small files of a folder in the form of Hugging Face, or behind a hub name.

    Raises:
      UserError: there is none, a file is broken, or the model is none of ours.
    """
    folder = pathlib.Path(os.path.expanduser(spec))
    is_here = folder.is_dir()
    if not is_here:
        folder = hub.fetch(spec, (*_FILES, *hub.TOKENIZER_FILES), all_of=[(hub.CONFIG,)])
    if is_here and (marian := marian_files.find(folder)):
        return Described(spec, spec, fields(marian_files.read(marian)[0]), {})
    sentences = sentence_files.read(folder)
    encoder = sentences.encoder if sentences else folder
    if not untrusted.file(encoder, hub.CONFIG):
        raise UserError(f'{spec} has no {hub.CONFIG}, so it holds no checkpoint of one model')
    if encoder != folder and not is_here:
        raise UserError(f'{spec} has its encoder in a subfolder; fetch it, and name that folder')
    config = declared.read(encoder / hub.CONFIG)
    if not config.get('model_type'):
        raise UserError(f'{encoder / hub.CONFIG} has no model_type, so it holds no model')
    start = str(encoder) if encoder != folder else spec
    return Described(start, start, fields(config), sentences.fields() if sentences else {})
