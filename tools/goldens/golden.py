"""What the programs of this folder share: greedy texts, weights, gradients and files of goldens."""

import pathlib
from collections.abc import Iterable, Mapping

import numpy as np
import torch

FOLDER = pathlib.Path(__file__).parents[2] / 'tests' / 'goldens'


def save(name: str, values: Mapping[str, object], *said: object) -> None:
    """Writes a file of arrays and tensors, whole numbers of 64 bits in 32, and says its size."""
    arrays = {}
    for key, value in values.items():
        array = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        arrays[key] = array.astype(np.int32) if array.dtype == np.int64 else array
    path = FOLDER / f'{name}.npz'
    np.savez_compressed(path, **arrays)
    print(path.name, path.stat().st_size, *said)


def weights(name: str) -> dict[str, torch.Tensor]:
    """The weights that a file holds, by the model's own names of them."""
    stored = np.load(FOLDER / f'{name}.npz')
    kept = (key for key in stored if key.startswith('weights/'))
    return {key.removeprefix('weights/'): torch.tensor(stored[key]).float() for key in kept}


def gradients(model: torch.nn.Module, names: Iterable[str]) -> dict[str, torch.Tensor]:
    """The gradients of those parameters of these names that a model has and trains."""
    parameters = dict(model.named_parameters())
    trained = [name for name in names if name in parameters and parameters[name].requires_grad]
    return {f'gradients/{name}': parameters[name].grad for name in trained}


def greedy(model: torch.nn.Module, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The likeliest next token, 24 times at most, without the first one."""
    options = dict(max_new_tokens=24, do_sample=False, num_beams=1)
    with torch.no_grad():
        return model.generate(input_ids=ids, attention_mask=mask, **options)[:, 1:]
