"""The folder of a checkpoint: on this machine, or on the Hugging Face hub.

  path/to/folder              with config.json, weights and tokenizer files
  google/mt5-base             fetched into the cache of huggingface_hub, or found there
  google/mt5-base@REVISION    a branch, tag or commit

Of a hub repository only the files named below are fetched: never code, and no pickle but
pytorch_model.bin, which `torch_pickles` reads without running it. An interrupted download goes on
where it stopped, and the hub is asked for nothing that is in the cache.
"""

import contextlib
import functools
import glob
import os
import pathlib
import re
from collections.abc import Sequence

from xlbench.huggingface import sentence_files, tensors
from xlbench.system import errors, files, untrusted, web
from xlbench.system.errors import UserError

CONFIG, GENERATION_CONFIG = 'config.json', 'generation_config.json'
TOKENIZER_JSON = 'tokenizer.json'
ASK = 2.0  # Seconds that the hub has to say whether it has a name.
# A download that adds less than 1 KiB a second to the cache over this time has stalled.
_PATIENCE, _LEAST = 300.0, 300 << 10
TOKENIZER_FILES = (
    'spiece.model', 'spm.model', 'sentencepiece.bpe.model', 'source.spm', 'target.spm', 'vocab.spm',
    'vocab.json', 'vocab.txt', 'merges.txt', TOKENIZER_JSON, 'tokenizer_config.json',
    'special_tokens_map.json', 'added_tokens.json', 'chat_template.jinja',
)  # fmt: skip


def local_folder(spec: str, weight_files: Sequence[str] = tensors.WEIGHT_FILES) -> pathlib.Path:
    """The folder that `spec` names; see the top of this file.

    Args:
      spec: a folder, NAME or NAME@REVISION.
      weight_files: of a repository, those that are taken, in order of preference.

    Raises:
      UserError: there is none, the hub cannot be reached, or the repository has no weights.
    """
    folder = pathlib.Path(os.path.expanduser(spec))
    if spec and folder.is_dir():
        return folder
    indices = [f'{name}.index.json' for name in weight_files]
    more = (GENERATION_CONFIG, *sentence_files.NAMES)
    names = (CONFIG, *more, *TOKENIZER_FILES, *indices, tensors.SAFETENSORS)
    weights = (*indices, *weight_files)
    folder = fetch(spec, names, all_of=[(CONFIG,), TOKENIZER_FILES, weights])
    if not untrusted.file(folder, CONFIG):
        raise UserError(f'hub repository {spec} has no {CONFIG}, so it holds no checkpoint')
    repository, _, revision = spec.partition('@')
    if re.fullmatch(r'[0-9a-f]{40}', folder.name):
        revision = folder.name  # So that all files are of one commit.
    commit = f'{repository}@{revision}' if revision else repository
    for name, index in zip(weight_files, indices, strict=True):
        if path := untrusted.file(folder, index):
            shards = sorted(set(tensors.index_shards(path).values()))
            folder = fetch(commit, shards, all_of=[(shard,) for shard in shards])
            for shard in shards:
                if not untrusted.file(folder, shard):
                    raise UserError(f'hub repository {spec} lacks {shard}, which its index names')
            return folder
        if name == tensors.BIN:  # Not fetched where there is another.
            folder = fetch(commit, [name], all_of=[(name,)])
        if untrusted.file(folder, name):
            return folder
    import huggingface_hub

    place = 'the cache' if huggingface_hub.constants.HF_HUB_OFFLINE else 'the hub'
    raise UserError(f'repository {spec} has no {" and no ".join(weight_files)} in {place}')


def fetch(spec: str, names: Sequence[str], all_of: Sequence[Sequence[str]]) -> pathlib.Path:
    """The folder in the cache of a hub repository, with those of the named files that it has.

    Args:
      spec: NAME or NAME@REVISION.
      names: of the files; all others stay where they are.
      all_of: groups of names; nobody is asked where the cache has a file of each.

    Raises:
      UserError: there is no such repository or revision, or no connection to ask.
    """
    _check_form(spec)
    import huggingface_hub as hub
    from huggingface_hub import constants, errors as hub_errors

    repository, _, revision = spec.partition('@')

    snapshot = functools.partial(
        hub.snapshot_download,
        repository,
        revision=revision or None,
        allow_patterns=[glob.escape(name) for name in names],
    )
    try:
        with contextlib.suppress(hub_errors.LocalEntryNotFoundError):
            folder = pathlib.Path(snapshot(local_files_only=True))
            if all(any(untrusted.file(folder, name) for name in group) for group in all_of):
                return folder
        cache = pathlib.Path(constants.HF_HUB_CACHE, f'models--{repository.replace("/", "--")}')
        made = web.while_growing(snapshot, lambda: _bytes_below(cache), _PATIENCE, _LEAST)
        return pathlib.Path(made)
    except hub_errors.HFValidationError:
        raise UserError(f'{spec!r} is neither a folder nor a hub name') from None
    except (hub_errors.RepositoryNotFoundError, hub_errors.RevisionNotFoundError):
        raise _no_repository(spec) from None
    except hub_errors.LocalEntryNotFoundError:
        raise UserError(
            f'{names[0]} of {spec!r} is not in the Hugging Face cache and the hub cannot be '
            'reached (HF_HUB_OFFLINE set, or no connection); give a folder with its files'
        ) from None
    except UserError:
        raise
    except Exception as error:  # Of the network, the disk, or an answer that is none.
        said = errors.printable(str(error).strip().partition('\n')[0] or type(error).__name__)
        raise UserError(f'{spec!r} cannot be fetched from the hub: {said}') from None


def _bytes_below(folder: pathlib.Path) -> int:
    """The bytes of all files below a folder, which others may rename meanwhile."""
    total = 0
    for path in files.below(folder):
        with contextlib.suppress(OSError):
            total += path.lstat().st_size
    return total


def check_name(spec: str) -> None:
    """Raises UserError unless the cache or the hub has a repository NAME or NAME@REVISION.

    Nothing is downloaded, and a hub that does not answer is asked once.
    """
    _check_form(spec)
    repository, _, revision = spec.partition('@')
    import huggingface_hub as hub
    from huggingface_hub import errors as hub_errors

    try:
        cached = hub.try_to_load_from_cache(repository, CONFIG, revision=revision or None)
        if not isinstance(cached, str):
            ask = hub.HfApi().model_info
            web.within(2 * ASK, lambda: ask(repository, revision=revision or None, timeout=ASK))
    except hub_errors.HFValidationError:
        raise UserError(f'{spec!r} is neither a folder nor a hub name') from None
    except (hub_errors.RepositoryNotFoundError, hub_errors.RevisionNotFoundError):
        raise _no_repository(spec) from None
    except Exception as error:  # Of the network; which ones, its library says nowhere.
        raise UserError(
            f'no folder or workdir {spec}, no such model in the Hugging Face cache, and the hub '
            f'cannot be reached ({type(error).__name__})'
        ) from None


def is_name(spec: str) -> bool:
    """Returns whether `spec` has the form of a hub name and no folder of that name is here."""
    form = re.fullmatch(r'[\w.-]+/[\w.-]+(@[\w./-]+)?', spec)
    return bool(form) and spec[0] not in './~' and not pathlib.Path(spec).is_dir()


def is_cached(spec: str) -> bool:
    """Returns whether the cache has the weights, or the tokenizer, of a hub name."""
    import huggingface_hub as hub

    repository, _, revision = spec.partition('@')
    return any(
        isinstance(hub.try_to_load_from_cache(repository, file, revision=revision or None), str)
        for file in (*tensors.WEIGHT_FILES, *TOKENIZER_FILES)
    )


def _check_form(spec: str) -> None:
    if not is_name(spec):
        raise UserError(
            f'{spec!r} is neither a folder nor a hub name; a hub name is like google/mt5-base, or '
            'google/mt5-base@REVISION'
        )


def _no_repository(spec: str) -> UserError:
    return UserError(
        f'the Hugging Face hub has no open repository {spec!r}; check the name, or give a '
        'folder with config.json and weights'
    )


def tokenizer_files(folder: pathlib.Path) -> Sequence[pathlib.Path]:
    """The files of a folder that its tokenizer is made of."""
    return [path for name in TOKENIZER_FILES if (path := untrusted.file(folder, name))]
