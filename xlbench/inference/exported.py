"""The files beside the weights of an exported folder, which make it answer as its run does.

tokenizer.json, tokenizer_config.json, ...   texts to the ids that training saw
generation_config.json                       how the run's final evaluation decodes
xlbench.json                                 what xlbench.predict knows of the run
README.md                                    the model card, see cards.py
"""

import dataclasses
import os
import pathlib
import shutil
from collections.abc import Mapping
from typing import Any, TypeAlias, TypedDict

from xlbench import config as config_lib
from xlbench.data import tokenizers, vocabularies
from xlbench.huggingface import hub, sentencepiece_models, tensors
from xlbench.settings import decoding
from xlbench.settings.decoding import Options
from xlbench.system import files, untrusted
from xlbench.system.errors import UserError
from xlbench.system.files import Block, Json
from xlbench.system.ranges import check_block

NOTES = 'xlbench.json'
# Of a run's config.json, or of xlbench.json, by their names; each as config.RunTask.
Tasks: TypeAlias = Mapping[str, Block]


class Origin(TypedDict, total=False):
    """The run that a folder is exported from: the hash of its config, its seed, the checkpoint."""

    config: str
    seed: int
    step: int


def objective(folder: str | os.PathLike, family: str) -> dict[str, Json]:
    """The objective that a folder's model was trained for: the block of the run, where it has one.

    Of another program's folder it is the usual one. Taggers of transformers label the first piece
    of a word (its run_ner.py, without label_all_tokens).
    """
    if notes := Notes.read(pathlib.Path(folder)):
        return notes.objective
    name = config_lib.trainers(family)[0]
    return {'name': name} | ({'word_piece': 'first'} if name == 'tagging' else {})


@dataclasses.dataclass(frozen=True)
class Notes:
    """The content of xlbench.json."""

    objective: dict[str, Any]  # The block of the run's config.
    lengths: dict[str, int]  # Most tokens of 'inputs' and 'targets'.
    # Options of the final evaluation.
    decoding: dict[str, Any] = dataclasses.field(default_factory=dict)
    tasks: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)  # See Tasks.
    # Fields of a dual encoder that no config.json has.
    model: dict[str, Any] = dataclasses.field(default_factory=dict)
    # Of a retriever: its final evaluation, with the tasks whose response sets are in the folder.
    evaluation: dict[str, Any] = dataclasses.field(default_factory=dict)
    run: Origin = dataclasses.field(default_factory=lambda: Origin())

    @classmethod
    def read(cls, folder: pathlib.Path) -> 'Notes | None':
        """Reads the notes of an exported folder; None if another program wrote it.

        Raises:
          UserError: the file is broken.
        """
        if not (path := untrusted.file(folder, NOTES)):
            return None
        notes = files.read_json(path, cls)
        for key in ('inputs', 'targets'):
            if notes.lengths.get(key, 0) < 1:
                raise UserError(f'{path}: lengths.{key} is not 1 or more')
        config_lib.check_blocks({'objective': notes.objective}, 'objective', file=f'{path}')
        check_block(decoding.FIELDS, notes.decoding, f'{path}: decoding')
        files.check_type(notes.tasks, dict[str, config_lib.RunTask], f'{path}: tasks')
        files.check_type(notes.evaluation, config_lib.RunEval, f'{path}: evaluation')
        return notes

    def write(self, folder: pathlib.Path) -> None:
        """Writes xlbench.json."""
        tensors.write_json(folder / NOTES, dataclasses.asdict(self))


def write_tokenizer(
    path: pathlib.Path,
    tokenizer: tokenizers.Tokenizer,
    folder: pathlib.Path,
    *,
    tasks: Tasks,
    max_length: int | None,
) -> list[str]:
    """Writes the files that AutoTokenizer reads; returns remarks for the user, a line each.

    The vocabulary is the file or folder `path`, see tokenizers.path_of_workdir. The run's tasks
    name its languages, and texts of more than `max_length` tokens are cut, if that is known.
    """
    if path.suffix == '.spm':
        shutil.copyfile(path, folder / tokenizers.PAIR_COPY)
        return []
    if isinstance(tokenizer, tokenizers.SentencePieceTokenizer):
        return _write_sentencepiece(path, tokenizer, folder, max_length)
    if not isinstance(tokenizer, tokenizers.HuggingFaceTokenizer):  # Bytes.
        about = {'tokenizer_class': tokenizers.BYTES_CLASS, 'extra_ids': tokenizers.BYTES_SENTINELS}
        about |= {'model_max_length': max_length} if max_length else {}
        tensors.write_json(folder / vocabularies.TOKENIZER_CONFIG, about)
        return []
    for file in hub.tokenizer_files(path) if path.is_dir() else [path]:
        shutil.copyfile(file, folder / (file.name if path.is_dir() else hub.TOKENIZER_JSON))
    config, family = folder / vocabularies.TOKENIZER_CONFIG, vocabularies.FAMILIES[tokenizer.family]
    content = tensors.read_json(config) if config.is_file() else {}
    before = dict(content)
    # transformers' classes decode no bytes, which a SentencePiece model may write.
    as_it_is = family.same_class and not content.get('words')
    if tokenizer.family == 'xlm-roberta' and (folder / hub.TOKENIZER_JSON).is_file():
        as_it_is = False  # Its class splits at spaces first, and loses one at the end.
    if not as_it_is or tokenizer.has_bytes:
        (folder / hub.TOKENIZER_JSON).write_text(tokenizer.with_ends(), encoding='utf-8')
        content |= {**family.named, 'tokenizer_class': 'PreTrainedTokenizerFast'}
        content |= {vocabularies.FAMILY: tokenizer.family}
        content |= {'split_special_tokens': True} if family.added else {}
    content |= _languages(tokenizer, tasks)
    if max_length and tasks:
        content['model_max_length'] = max_length
    if content != before:
        tensors.write_json(config, content)
    return []


def _write_sentencepiece(
    path: pathlib.Path,
    tokenizer: tokenizers.SentencePieceTokenizer,
    folder: pathlib.Path,
    max_length: int | None,
) -> list[str]:
    proto = sentencepiece_models.read(path)
    shutil.copyfile(path, folder / 'spiece.model')
    ends = {'eos_token': tokenizer.eos_id, 'pad_token': tokenizer.pad_id}
    tokens = {name: proto.pieces[number].piece for name, number in ends.items()}
    content: dict[str, Json] = tokens | {
        'clean_up_tokenization_spaces': False,
        'model_input_names': ['input_ids', 'attention_mask'],
        vocabularies.FAMILY: tokenizer.family,
    }
    if max_length:
        content['model_max_length'] = max_length
    remarks = []
    if fast := sentencepiece_models.fast_tokenizer(proto):
        (folder / hub.TOKENIZER_JSON).write_text(fast.to_str(), encoding='utf-8')
        content |= {'tokenizer_class': 'PreTrainedTokenizerFast', 'split_special_tokens': True}
    else:
        content |= {'tokenizer_class': 'T5Tokenizer', 'extra_ids': 0}
        remarks = [
            'AutoTokenizer may cut texts into other ids: a tokenizer.json is written for unigram '
            'and BPE models only; encode texts with the package sentencepiece'
        ]
    tensors.write_json(folder / vocabularies.TOKENIZER_CONFIG, content)
    tensors.write_json(folder / vocabularies.SPECIAL_TOKENS, tokens)
    return remarks


def _languages(tokenizer: tokenizers.Tokenizer, tasks: Tasks) -> dict[str, Json]:
    """The keys of tokenizer_config.json that name the languages of a run."""
    known = tokenizer.language_tokens()
    if tokenizer.family == 'bert':  # In a text, [unused3] would be four pieces.
        langs = target_languages(tasks)
        if 'source_lang' in tokenizer.source_words:
            langs += sorted({task['source_lang'] for task in tasks.values()} - {None, *langs})
        tokens = [known[lang] for lang in langs if lang in known]
        return {'additional_special_tokens': tokens} if tokens else {}
    if vocabularies.FAMILIES[tokenizer.family].source == ('source_lang',):
        sources = {task['source_lang'] for task in tasks.values() if task['trained']}
        token = known.get(sources.pop()) if len(sources) == 1 else None
        return {'src_lang': token} if token else {}
    return {'lang2id': dict(tokenizer.language_rows)} if tokenizer.language_rows else {}


def target_languages(tasks: Tasks) -> list[str]:
    """The target languages of a run's tasks, those that it was trained on first."""
    ordered = sorted(tasks.values(), key=lambda task: not task['trained'])
    return list(dict.fromkeys(task['target_lang'] for task in ordered if task['target_lang']))


def generation(
    tokenizer: tokenizers.Tokenizer,
    options: Options,
    tasks: Tasks,
    objective: Mapping[str, Json],
) -> dict[str, Json]:
    """The keys of generation_config.json that make `generate` answer as the run does."""
    content: dict[str, Json] = {
        'max_new_tokens': options.max_length,
        'num_beams': options.num_beams,
        'do_sample': options.method == 'sample',
    }
    theirs = {'min_length': 'min_new_tokens', 'no_repeat_ngram': 'no_repeat_ngram_size'}
    default = Options()
    for name in (
        'min_length', 'length_penalty', 'temperature', 'top_p', 'no_repeat_ngram',
        'repetition_penalty', 'early_stopping',
    ):  # fmt: skip
        if getattr(options, name) != getattr(default, name):
            content[theirs.get(name, name)] = getattr(options, name)
    if options.method == 'sample':
        content['top_k'] = options.top_k
    if options.banned:
        content['bad_words_ids'] = [
            [ids] if isinstance(ids, int) else list(ids) for ids in options.banned
        ]
    if options.forced_last:
        content['forced_eos_token_id'] = tokenizer.eos_id
    targets = target_languages(tasks)
    lang = targets[0] if len(targets) == 1 else None
    if (first := forced_first(tokenizer, lang)) is not None:
        content[first_key(tokenizer, objective)] = first
    return content


def first_key(tokenizer: tokenizers.Tokenizer, objective: Mapping[str, Json]) -> str:
    """Returns what `generate` calls the id that Tokenizer.forced_first gives."""
    last = vocabularies.FAMILIES[tokenizer.family].language_last
    is_start = last or objective.get('decoder_start') == 'language'
    return 'decoder_start_token_id' if is_start else 'forced_bos_token_id'


def forced_first(tokenizer: tokenizers.Tokenizer, lang: str | None) -> int | None:
    """Returns Tokenizer.forced_first, or None where the language is needed and not known."""
    try:
        return tokenizer.forced_first(lang)
    except UserError:
        return None
