"""What SECURITY.md says in numbers and names is what the code has."""

import pathlib
import re

import bin_files
import msgspec
import numpy as np
import pytest

from tests.fuzz import cases, mutate
from xlbench.huggingface import described, stored, tensors, torch_pickles
from xlbench.system import errors, untrusted

ROOT = pathlib.Path(__file__).parents[1]
PAGE = (ROOT / 'SECURITY.md').read_text(encoding='utf-8')
WORDS = ' '.join(PAGE.split())


def test_limits():
    rows = dict(
        re.findall(r'^\| `(XLBENCH_MAX_\w+)` \| ([\d,]+(?: [MG]iB)?) \|', PAGE, re.MULTILINE)
    )
    units = {'': 1, 'MiB': 1 << 20, 'GiB': 1 << 30}
    said = {}
    for name, text in rows.items():
        number, _, unit = text.partition(' ')
        said[name] = int(number.replace(',', '')) * units[unit]
    assert said == {limit.variable: limit.default for limit in untrusted.ALL}
    assert untrusted._FREE == 1 << 20 and 'the first MiB is not counted' in WORDS


def test_limits_that_stay():
    (layers,) = [
        meta.le
        for meta in described.Layers.__metadata__
        if isinstance(meta, msgspec.Meta)
    ]
    most = torch_pickles._MAX_HEADER
    assert f'the header of a file of weights has at most {most:,} bytes' in WORDS
    assert f'at most {stored.MOST_AXES} axes' in WORDS
    assert f'a name of at most {stored.LONGEST_NAME} characters' in WORDS
    assert f'at most {layers} layers' in WORDS


def test_what_the_fuzzing_asks():
    assert f'more than {cases.SECONDS} seconds or a GiB' in WORDS and cases.MEMORY == 1 << 30
    assert f'`make test` runs {mutate.SUITE} seeded cases' in WORDS


def test_every_promise_names_its_test():
    rows = re.findall(r'^\| .* \|$', PAGE.split('## Limits')[0], re.MULTILINE)
    assert len(rows) > 15
    for row in rows[2:]:
        assert re.search(r'\| `tests/\w+/\w+_test\.py` \|$', row), row


def test_names():
    assert f'`{"=".join(untrusted.FOLLOW)}`' in WORDS
    assert f'exit code {errors.UserError.exit_code}' in WORDS
    for path in re.findall(r'`((?:xlbench|tests)/[\w./]+)`', PAGE):
        assert (ROOT / path).exists(), path
    sources = ' '.join(path.read_text('utf-8') for path in (ROOT / 'xlbench').rglob('*.py'))
    for name in set(re.findall(r'XLBENCH_\w+', PAGE)):
        assert name in sources, name
    assert '--require-hashes' in (ROOT / 'Makefile').read_text() or '--hash=sha256:' in (
        ROOT / 'requirements.lock'
    ).read_text(encoding='utf-8')
    assert '(SECURITY.md)' in (ROOT / 'README.md').read_text(encoding='utf-8')


def test_axes_of_a_tensor(tmp_path):
    """numpy has no more of them, in either kind of file."""
    shape = (1,) * (stored.MOST_AXES + 1)
    bin_files.save(tmp_path / 'pytorch_model.bin', {'a': bin_files.View(
        bin_files.Storage('0', np.ones(1, np.float32)), shape, shape
    )})  # fmt: skip
    with pytest.raises(errors.UserError, match='impossible shape'):
        tensors.find(tmp_path)
