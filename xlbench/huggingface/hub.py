"""A checkpoint's folder: one that is here, or one that the Hugging Face hub has.

  path/to/folder              with config.json, weights and tokenizer files
  google/mt5-base             fetched into the cache of huggingface_hub, or found there
  google/mt5-base@REVISION    a branch, tag or commit

Of a hub repository only the files named below are fetched: never code, and no pickle but
pytorch_model.bin, which `torch_pickles` reads without running it. An interrupted download goes on
where it stopped, and with HF_HUB_OFFLINE=1 nothing is asked for that is in the cache.
"""

import os
import pathlib
import re
from collections.abc import Sequence

from xlbench import foreign
from xlbench.errors import UserError
from xlbench.huggingface import tensors

CONFIG, GENERATION_CONFIG = 'config.json', 'generation_config.json'
TOKENIZER_JSON = 'tokenizer.json'
ASK = 2.0  # Seconds that the hub has to say whether it has a name.
TOKENIZER_FILES = (
    'spiece.model', 'sentencepiece.bpe.model', 'source.spm', 'target.spm', 'vocab.json',
    'vocab.txt', 'merges.txt', TOKENIZER_JSON, 'tokenizer_config.json',
    'special_tokens_map.json', 'added_tokens.json',
)  # fmt: skip


def local_folder(spec: str) -> pathlib.Path:
    """The folder that `spec` names; see the top of this file.

    Raises:
      UserError: there is none, the hub cannot be reached, or the repository has no weights.
    """
    folder = pathlib.Path(os.path.expanduser(spec))
    if spec and folder.is_dir():
        return folder
    _check_form(spec)
    repository, _, revision = spec.partition('@')
    path = fetch(repository, CONFIG, revision)
    if path is None:
        raise UserError(f'hub repository {spec} has no {CONFIG}, so it holds no checkpoint')
    folder = path.parent
    if re.fullmatch(r'[0-9a-f]{40}', folder.name):
        revision = folder.name  # So that all files are of one commit.
    for name in tensors.WEIGHT_FILES:
        if index := fetch(repository, f'{name}.index.json', revision):
            for shard in sorted(set(tensors.index_shards(index).values())):
                if not fetch(repository, shard, revision):
                    raise UserError(f'hub repository {spec} lacks {shard}, which its index names')
            break
        if fetch(repository, name, revision):
            break
    else:
        import huggingface_hub

        place = 'the cache' if huggingface_hub.constants.HF_HUB_OFFLINE else 'the hub'
        names = ' and no '.join(tensors.WEIGHT_FILES)
        raise UserError(f'repository {spec} has no {names} in {place}')
    for name in (GENERATION_CONFIG, *TOKENIZER_FILES):
        fetch(repository, name, revision)
    return folder


def check_name(spec: str) -> None:
    """Raises UserError unless the cache or the hub has a repository of that name.

    Nothing is downloaded, and a hub that does not answer is asked once.

    Args:
      spec: NAME or NAME@REVISION.
    """
    _check_form(spec)
    repository, _, revision = spec.partition('@')
    import huggingface_hub as hub
    from huggingface_hub import errors as hub_errors

    try:
        cached = hub.try_to_load_from_cache(repository, CONFIG, revision=revision or None)
        if not isinstance(cached, str):
            hub.HfApi().model_info(repository, revision=revision or None, timeout=ASK)
    except hub_errors.HFValidationError:
        raise UserError(f'{spec!r} is neither a folder nor a hub name') from None
    except (hub_errors.RepositoryNotFoundError, hub_errors.RevisionNotFoundError):
        raise _no_repository(spec) from None
    except Exception as error:  # Of the network; which ones, its library says nowhere.
        raise UserError(
            f'{spec!r} is not in the Hugging Face cache and the hub cannot be reached '
            f'({type(error).__name__}); give a folder with its files'
        ) from None


def is_name(spec: str) -> bool:
    """Whether `spec` has the form of a hub name, and is no folder that is here."""
    form = re.fullmatch(r'[\w.-]+/[\w.-]+(@[\w./-]+)?', spec)
    return bool(form) and spec[0] not in './~' and not pathlib.Path(spec).is_dir()


def is_cached(spec: str) -> bool:
    """Whether the cache has the weights, or the tokenizer, of a hub name."""
    repository, _, revision = spec.partition('@')
    return _has_cached(repository, revision, (*tensors.WEIGHT_FILES, *TOKENIZER_FILES))


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
    """Those of a folder's files that its tokenizer is made of."""
    return [path for name in TOKENIZER_FILES if (path := foreign.file(folder, name))]


def _has_cached(repository: str, revision: str, files: Sequence[str]) -> bool:
    """Whether the cache has one of these files of a repository."""
    import huggingface_hub as hub

    return any(
        isinstance(hub.try_to_load_from_cache(repository, file, revision=revision or None), str)
        for file in files
    )


def fetch(repository: str, file: str, revision: str = '') -> pathlib.Path | None:
    """The local path of a repository's file; None if the repository does not have it.

    With HF_HUB_OFFLINE, a file that the cache lacks counts as one that the repository lacks.

    Raises:
      UserError: there is no such repository or revision, or no connection to ask.
    """
    import huggingface_hub as hub
    from huggingface_hub import errors as hub_errors

    spec = f'{repository}@{revision}' if revision else repository
    try:
        cached = hub.try_to_load_from_cache(repository, file, revision=revision or None)
        if cached is not None:  # A path, or the knowledge that there is no such file.
            return pathlib.Path(cached) if isinstance(cached, str) else None
        return pathlib.Path(hub.hf_hub_download(repository, file, revision=revision or None))
    except hub_errors.HFValidationError:
        raise UserError(f'{spec!r} is neither a folder nor a hub name') from None
    except (hub_errors.RepositoryNotFoundError, hub_errors.RevisionNotFoundError):
        raise _no_repository(spec) from None
    except hub_errors.LocalEntryNotFoundError:  # A kind of EntryNotFoundError: no connection.
        known_by = CONFIG, 'tokenizer_config.json', TOKENIZER_JSON
        is_offline = file != CONFIG and hub.constants.HF_HUB_OFFLINE
        if is_offline and _has_cached(repository, revision, known_by):
            return None  # Other programs fetch fewer files, and note less about absent ones.
        raise UserError(
            f'{file} of {spec!r} is not in the Hugging Face cache and the hub cannot be reached '
            '(HF_HUB_OFFLINE set, or no connection); give a folder with its files'
        ) from None
    except hub_errors.EntryNotFoundError:
        return None
    except (OSError, hub_errors.HfHubHTTPError) as error:
        reason = str(error).strip().partition('\n')[0] or type(error).__name__
        raise UserError(f'{file} of {spec!r} cannot be fetched from the hub: {reason}') from None
