"""Writes pytorch_model.bin as torch.save does, zip or legacy, without torch."""

import collections
import copy
import io
import pathlib
import pickle
import struct
import sys
import types
import zipfile
from unittest import mock

import ml_dtypes
import numpy as np

STORAGES = {
    'float32': 'FloatStorage', 'float16': 'HalfStorage', 'int64': 'LongStorage',
    'bfloat16': 'BFloat16Storage',
}  # fmt: skip


class Storage:
    """Numbers that tensors are views of; `key` names them in the file."""

    def __init__(self, key: str, values: np.ndarray):
        self.key, self.values = key, values.reshape(-1)


class View:
    """A tensor over a storage; strides in numbers."""

    def __init__(self, storage, shape, strides, offset=0):
        self.state = storage, offset, shape, strides, False, collections.OrderedDict()


def view(array: np.ndarray, key: str = '0') -> View:
    """The whole of an array."""
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return View(Storage(key, array.ravel('K')), array.shape, strides)


class _Pickler(pickle.Pickler):
    def __init__(self, stream, classes, rebuild, legacy):
        super().__init__(stream, protocol=2)
        self.classes, self.rebuild, self.legacy = classes, rebuild, legacy
        self.storages = {}

    def persistent_id(self, obj):
        if not isinstance(obj, Storage):
            return None
        self.storages[obj.key] = obj
        kind = self.classes[STORAGES[obj.values.dtype.name]]
        identity = ('storage', kind, obj.key, 'cpu', obj.values.size)
        return (*identity, None) if self.legacy else identity

    def reducer_override(self, obj):
        return (self.rebuild, obj.state) if isinstance(obj, View) else NotImplemented


def dumps(content, legacy: bool = False) -> tuple[bytes, dict[str, Storage]]:
    """The pickle, and the storages that it speaks of."""
    torch, utils = types.ModuleType('torch'), types.ModuleType('torch._utils')
    classes = {name: type(name, (), {'__module__': 'torch'}) for name in STORAGES.values()}
    vars(torch).update(classes)

    def _rebuild_tensor_v2():
        pass

    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = (
        'torch._utils', '_rebuild_tensor_v2',
    )  # fmt: skip
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    stream = io.BytesIO()
    with mock.patch.dict(sys.modules, {'torch': torch, 'torch._utils': utils}):
        pickler = _Pickler(stream, classes, _rebuild_tensor_v2, legacy)
        pickler.dump(content)
    return stream.getvalue(), pickler.storages


def write_zip(file: pathlib.Path, data: bytes, storages=(), root='archive', **members) -> None:
    """A zip archive as torch.save writes it; `members` are further files in it."""
    with zipfile.ZipFile(file, 'w') as archive:
        archive.writestr(f'{root}/data.pkl', data)
        archive.writestr(f'{root}/byteorder', 'little')
        for storage in dict(storages).values():
            archive.writestr(f'{root}/data/{storage.key}', storage.values.tobytes())
        for name, content in members.items():
            archive.writestr(name, content)


def save(file: pathlib.Path, content, legacy: bool = False) -> None:
    """A whole file. Arrays in a dict become tensors."""
    if isinstance(content, dict):
        content = copy.copy(content)
        for index, (name, value) in enumerate(content.items()):
            if isinstance(value, np.ndarray):
                content[name] = view(value, str(index))
    data, storages = dumps(content, legacy)
    if not legacy:
        write_zip(file, data, storages)
        return
    about = {'protocol_version': 1001, 'little_endian': True, 'type_sizes': {'int': 4}}
    head = [pickle.dumps(x, 2) for x in (0x1950A86A20F9469CFC6C, 1001, about)]
    keys = pickle.dumps(sorted(storages), 2)
    numbers = [
        struct.pack('<q', storages[key].values.size) + storages[key].values.tobytes()
        for key in sorted(storages)
    ]
    file.write_bytes(b''.join([*head, data, keys, *numbers]))


def bfloat16(values) -> np.ndarray:
    """An array of that type."""
    return np.asarray(values, ml_dtypes.bfloat16)
