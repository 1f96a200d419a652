"""What a block of `quietly` hides, and for how long."""

import importlib
import sys

import pytest

from xlbench.preparation import loading


def test_what_keras_imports_without_need_is_hidden_in_the_block_alone(monkeypatch):
    monkeypatch.setattr(loading, '_UNUSED', ('colorsys', 'json'))
    monkeypatch.delitem(sys.modules, 'colorsys', raising=False)
    there = sys.modules['json']
    with loading.quietly():
        assert importlib.import_module('json') is there  # Loaded before: it stays.
        with pytest.raises(ImportError):
            importlib.import_module('colorsys')
    assert importlib.import_module('colorsys').rgb_to_hsv(0, 0, 0) == (0, 0, 0)
