"""What a block of `quietly` hides and puts off, and for how long."""

import importlib
import importlib.util
import os
import sys

import pytest

from xlbench.system import machine


def test_what_nothing_here_calls_is_hidden_in_the_block_alone(monkeypatch):
    monkeypatch.setattr(machine, '_UNUSED', ('colorsys', 'json'))
    monkeypatch.delitem(sys.modules, 'colorsys', raising=False)
    there = sys.modules['json']
    with machine.quietly():
        assert importlib.import_module('json') is there  # Loaded before: it stays.
        assert importlib.util.find_spec('colorsys').origin.endswith('colorsys.py')
        with pytest.raises(ImportError):
            importlib.import_module('colorsys')
    assert importlib.import_module('colorsys').rgb_to_hsv(0, 0, 0) == (0, 0, 0)


def test_what_loads_late_is_there_when_it_is_used(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, '_LATE', ('late_package',))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / 'late_package.py').write_text('import late_part\nname = "late"\n')
    (tmp_path / 'late_part.py').write_text('')
    with machine.quietly():
        late = importlib.import_module('late_package')
    assert 'late_part' not in sys.modules
    assert late.name == 'late' and 'late_part' in sys.modules


@pytest.mark.parametrize('error', [ImportError, KeyboardInterrupt])
def test_what_was_hidden_is_shown_if_the_block_fails_but_not_after_ctrl_c(error, capfd):
    with pytest.raises(error), machine.quietly():
        os.write(2, b'why it failed\n')
        raise error
    assert ('why it failed' in capfd.readouterr().err) == (error is ImportError)
