"""A new size of a model is one row of models/sizes.py."""

import pathlib

import pytest

from xlbench import models
from xlbench.models import sizes

ENCODERS = ('bert', 'sequence_classifier', 'token_classifier', 'dual_encoder', 'encoder_decoder')


@pytest.mark.parametrize(
    ('row', 'families'),
    [
        ("        'base': _stack(30522, 768, 12, 12),\n", ENCODERS),
        ("        'small': _GPT2_SMALL,\n", ('gpt2',)),
    ],
)
def test_a_size_is_one_row(row, families, monkeypatch):
    source = pathlib.Path(sizes.__file__).read_text('utf-8')
    mini = "        'mini': _stack(300, 16, 2, 3),\n"
    assert source.count(row) == 1
    made: dict = {}
    exec(source.replace(row, row + mini), made)
    monkeypatch.setattr(models, 'SIZES', made['SIZES'])
    for family in families:
        labels = {'num_labels': 2} if family.endswith('classifier') else {}
        built = models.config(family, 'mini', **labels)
        assert (built.vocab_size, built.emb_dim, built.num_layers) == (300, 16, 3)
