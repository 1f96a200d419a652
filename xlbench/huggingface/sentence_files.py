"""The files with which sentence-transformers makes a vector of an encoder's states.

  modules.json                        the steps: the encoder, pooling, the length 1
  1_Pooling/config.json               which states become the vector
  config_sentence_transformers.json   prompts: what stands before a text
  2_Dense/config.json                 of LaBSE: a layer and tanh over the first state, BERT's pooler

Older versions keep the encoder in a subfolder, which modules.json names.
"""

import pathlib
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from xlbench.system import files, untrusted
from xlbench.system.errors import UserError, shortened
from xlbench.system.files import Json

Value = TypeVar('Value')
MODULES, PROMPTS = 'modules.json', 'config_sentence_transformers.json'
LENGTH = 'sentence_bert_config.json'
POOLING = '1_Pooling/config.json'
_DENSE = ('2_Dense/config.json', '2_Dense/model.safetensors', '2_Dense/pytorch_model.bin')
NAMES = (MODULES, POOLING, PROMPTS, LENGTH, *_DENSE)
# What a retriever's sides are called among the prompts.
_LEFT, _RIGHT = ('query',), ('document', 'passage')
# How versions before 6 write the ways of pooling -> how models/dual_encoder.py calls them.
_POOLER = 'torch.nn.modules.activation.Tanh'  # The activation of a layer that is BERT's pooler.
_POOLINGS = {'pooling_mode_cls_token': 'first', 'pooling_mode_mean_tokens': 'mean'}
_NEW_POOLINGS = {'cls': 'first', 'mean': 'mean'}


class _Module(msgspec.Struct):
    """A step of modules.json; `type` is a class, whose last word tells the kind."""

    type: str
    path: str = ''

    @property
    def kind(self) -> str:
        return self.type.rpartition('.')[2]


class _Dense(msgspec.Struct):
    activation_function: str = ''
    bias: bool = True


class _Prompts(msgspec.Struct):
    prompts: dict[str, str] | None = None
    default_prompt_name: str | None = None


def read(folder: pathlib.Path) -> tuple[pathlib.Path, dict[str, Any]] | None:
    """The steps that a folder describes; None where it is not of sentence-transformers.

    Returns:
      The folder of the encoder itself, and fields of a dual encoder: `pooling`, `normalize`, and
      what stands before queries, `left_prompt`, and before what they look for, `right_prompt`.

    Raises:
      UserError: a step that xlbench does not have, or a broken file.
    """
    if not (path := untrusted.file(folder, MODULES)):
        return None
    modules = files.read_json(path, list[_Module])
    kinds = [module.kind for module in modules]
    further = [kind for kind in kinds[2:] if kind != 'Dense']
    if kinds[:2] != ['Transformer', 'Pooling'] or further not in ([], ['Normalize']):
        raise UserError(
            f'{path} has the steps {shortened(", ".join(kinds), 200)}; supported: Transformer, '
            'Pooling, a Dense or none, and Normalize or nothing'
        )
    said = _read_if_there(folder, PROMPTS, _Prompts)
    prompts = said.prompts or {}
    default = prompts.get(said.default_prompt_name or '', '')
    left, right = (
        next((prompts[name] for name in names if prompts.get(name)), default)
        for names in (_LEFT, _RIGHT)
    )
    pooling = _pooling(folder, modules[1].path, prompted=bool(left or right))
    if layer := pooler(folder):
        if pooling != 'first' or _read_if_there(layer, 'config.json', _Dense) != _Dense(_POOLER):
            raise UserError(f'{layer} is no layer and tanh over the first state, as BERT has it')
        pooling = 'pooler'
    encoder = folder / modules[0].path
    if modules[0].path and not untrusted.file(folder, f'{modules[0].path}/config.json'):
        raise UserError(f'{path} names the folder {shortened(modules[0].path)}, which has no model')
    prompts = {'left_prompt': left, 'right_prompt': right}
    return encoder, {'pooling': pooling, 'normalize': 'Normalize' in kinds, **prompts}


def pooler(folder: pathlib.Path) -> pathlib.Path | None:
    """The folder with linear.weight and linear.bias of a pooler beside an encoder; None: none."""
    path = untrusted.file(folder, MODULES)
    modules = files.read_json(path, list[_Module]) if path else []
    for module in modules:
        if module.kind == 'Dense':
            if not untrusted.file(folder, f'{module.path}/config.json'):
                place = shortened(module.path)
                raise UserError(f'{path} names the layer {place}, which is not there')
            return folder / module.path
    return None


def _pooling(folder: pathlib.Path, place: str, prompted: bool) -> str:
    path = untrusted.file(folder, f'{place}/config.json')
    if not path:
        raise UserError(f'{folder} has no {place}/config.json, which {MODULES} asks for')
    content = files.read_json(path, dict)
    if 'pooling_mode' in content:
        chosen, known = [content['pooling_mode']], _NEW_POOLINGS
    else:
        chosen = [k for k, on in content.items() if k.startswith('pooling_mode_') and on is True]
        known = _POOLINGS
    if len(chosen) != 1 or not isinstance(chosen[0], str) or chosen[0] not in known:
        given = shortened(', '.join(map(str, chosen)) or 'nothing', 200)
        raise UserError(f'{path} pools by {given}; supported: one of {", ".join(known)}')
    if prompted and content.get('include_prompt') is False:
        raise UserError(f'{path} leaves prompts out of the mean; supported: include_prompt true')
    return known[chosen[0]]


def _read_if_there(folder: pathlib.Path, name: str, kind: type[Value]) -> Value:
    path = untrusted.file(folder, name)
    return files.read_json(path, kind) if path else kind()


def contents(
    pooling: str, normalize: bool, prompts: Mapping[str, str], max_length: int, emb_dim: int
) -> dict[str, Json]:
    """The files of a folder that sentence-transformers opens, from version 2 on.

    Args:
      pooling: 'mean' or 'first'.
      normalize: whether vectors get the length 1.
      prompts: {'query': 'query: ', ...}; those that are empty are left out.
      max_length: most tokens of a text, its prompt and special tokens among them.
      emb_dim: of the states.

    Returns:
      {name in the folder: content}.
    """
    kinds = [('', 'Transformer'), ('1_Pooling', 'Pooling'), ('2_Normalize', 'Normalize')]
    modules = [
        {'idx': i, 'name': str(i), 'path': path, 'type': f'sentence_transformers.models.{kind}'}
        for i, (path, kind) in enumerate(kinds[: 3 if normalize else 2])
    ]
    modes = {name: ours == pooling for name, ours in _POOLINGS.items()}
    return {
        MODULES: modules,
        POOLING: {'word_embedding_dimension': emb_dim, **modes},
        PROMPTS: {
            'prompts': {name: prompt for name, prompt in prompts.items() if prompt},
            'default_prompt_name': None,
            'similarity_fn_name': 'cosine' if normalize else 'dot',
        },
        LENGTH: {'max_seq_length': max_length, 'do_lower_case': False},
    }
