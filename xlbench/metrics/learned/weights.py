"""The folders of the models that metrics take, and what to type for those that are not here."""

import os
import pathlib

from xlbench.huggingface import hub
from xlbench.system.errors import UserError

# Names of the hub's early days, which papers and packages still use.
_OWNERS = {'bert': 'google-bert', 'roberta': 'FacebookAI', 'xlm-roberta': 'FacebookAI'}


def hub_name(model: str) -> str:
    """A model's full name: roberta-large -> FacebookAI/roberta-large."""
    if '/' in model or os.path.isdir(os.path.expanduser(model)):
        return model
    kind = next((kind for kind in _OWNERS if model.startswith(f'{kind}-')), '')
    return f'{_OWNERS[kind]}/{model}' if kind else model


def missing(metric: str, model: str, size: str = '') -> list[str]:
    """Lists the steps that are needed before a model can be read; none if it is here.

    The message names the metric that takes it, and the size of the download, if it is known.
    """
    name = hub_name(model)
    if pathlib.Path(name).expanduser().is_dir():
        return []
    if not hub.is_name(name):
        return [
            f'{metric} takes a model from a folder or the Hugging Face hub, and {model!r} is '
            'neither; a hub name is like google-bert/bert-base-multilingual-cased'
        ]
    if hub.is_cached(name):
        return []
    about = f', {size}' if size else ''
    return [f'{metric} needs the model {name}{about}, which is not here: hf download {name}']


def folder(model: str) -> pathlib.Path:
    """The folder of a model; see `missing`."""
    if lines := missing('the metric', model):
        raise UserError(lines[0])
    return hub.local_folder(hub_name(model))
