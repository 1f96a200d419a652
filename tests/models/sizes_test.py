"""Sizes of models: their parameters, their limits, and how one is added."""

import math
import pathlib
import runpy
import shutil

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import references
from flax import traverse_util
from nightly import nightly

from xlbench import models
from xlbench.huggingface import checkpoint
from xlbench.models import families as families_lib, lora
from xlbench.parallel import partitioning
from xlbench.system import errors

ENCODERS = ('bert', 'sequence_classifier', 'token_classifier', 'dual_encoder', 'encoder_decoder')


def count(family, size, **fields):
    """The number of a model's parameters."""
    labels = {'num_labels': 2} if family.endswith('classifier') else {}
    boxes = checkpoint.boxed_params(models.build(family, size, **labels, **fields)).values()
    return sum(math.prod(box.value.shape) for box in boxes)


@pytest.mark.parametrize(
    'family, size, fields, parameters',
    # Counted by transformers from the public configurations.
    [
        ('mt5', 'small', {}, 300_176_768),
        # It does not count the bias of the logits, a buffer there.
        ('bart', 'base', {}, 139_420_416 + 50_265),
        # Less the sinusoidal positions of both stacks, 2 x 1024 x 1024 and 2 x 512 x 512.
        *nightly(('pegasus', 'large', {}, 570_797_056 - 2_097_152 + 96_103)),
        ('marian', 'base', {}, 74_410_496 - 524_288 + 58_101),
        ('bert', 'mbert', {}, 177_853_440),
        ('sequence_classifier', 'xlmr_base', {}, 278_045_186),
        *nightly(
            ('token_classifier', 'mbert', {}, 177_264_386),
            ('encoder_decoder', 'xlmr_base', {'has_pooler': True}, 584_705_682),
            ('dual_encoder', 'mbert', {'shared': False}, 2 * 177_853_440),
            ('t5', 'small', {}, 60_506_624), ('t5', 'base', {}, 222_903_552),
            ('bart', 'large', {}, 406_291_456 + 50_265),
            ('mbart', 'large_50', {}, 610_879_488 + 250_054),
            ('bert', 'base', {}, 109_482_240), ('bert', 'large', {}, 335_141_888),
            ('bert', 'roberta_base', {}, 124_645_632), ('bert', 'roberta_large', {}, 355_359_744),
            ('bert', 'xlmr_base', {}, 278_043_648), ('bert', 'xlmr_large', {}, 559_890_432),
            ('sequence_classifier', 'mbert', {}, 177_854_978),
            ('encoder_decoder', 'mbert', {'has_pooler': True}, 384_194_811),
        ),
    ],
)  # fmt: skip
def test_parameter_counts_of_public_sizes(family, size, fields, parameters):
    assert count(family, size, **fields) == parameters


def test_parameters_of_large_sizes_in_millions():
    """As the hub counts them."""
    expected = {
        ('llama', '3.2_1b'): 1235.8, ('llama', '3.1_8b'): 8030.3, ('mistral', '7b'): 7241.7,
        ('qwen2', '2.5_0.5b'): 494.0, ('qwen3', '0.6b'): 596.0, ('gemma', '2b'): 2506.2,
        ('gemma2', '2b'): 2614.3, ('gemma3', '270m'): 268.1, ('gemma3', '1b'): 999.9,
        ('m2m_100', '418m'): 483.9, ('m2m_100', 'nllb_600m'): 615.1,
        ('t5_1_1', 'byt5_small'): 299.6, ('umt5', 'small'): 306.6,
        ('gpt2', 'small'): 124.4, ('gpt2', 'medium'): 354.8, ('gpt2', 'large'): 774.0,
        ('gpt2', 'xl'): 1557.6,
    }  # fmt: skip
    for (family, size), millions in expected.items():
        assert round(count(family, size) / 1e6, 1) == millions, (family, size)
    for size in ('small', 'medium', 'large'):
        assert models.SIZES['gpt2'][f'dialogpt_{size}'] == models.SIZES['gpt2'][size]


def test_every_size_can_be_built():
    for family, rows in models.SIZES.items():
        labels = {'num_labels': 2} if family.endswith('classifier') else {}
        for size, fields in rows.items():
            assert models.build(family, size, **labels).config.emb_dim == fields['emb_dim']


@pytest.mark.parametrize(
    ('row', 'mini', 'families'),
    [
        ('base = [30522, 768, 12, 64, 3072, 12]\n', 'mini = [300, 16, 2, 8, 64, 3]\n', ENCODERS),
        ('small = [768, 12, 64, 3072, 12]\n', 'mini = [16, 2, 8, 64, 3]\n', ('gpt2',)),
    ],
)
def test_a_size_is_one_row(row, mini, families, monkeypatch, tmp_path):
    source = pathlib.Path(families_lib.__file__)
    table = source.with_suffix('.toml').read_text('utf-8')
    assert table.count(f'\n{row}') == 1
    table = table.replace(f'\n{row}', f'\n{row}{mini}')
    (tmp_path / 'copy.toml').write_text(table, 'utf-8')
    made = runpy.run_path(shutil.copy(source, tmp_path / 'copy.py'))
    monkeypatch.setattr(families_lib, 'SIZES', made['SIZES'])
    for family in families:
        labels = {'num_labels': 2} if family.endswith('classifier') else {}
        built = models.config(family, 'mini', **labels)
        assert (built.emb_dim, built.mlp_dim, built.num_layers) == (16, 64, 3)


@pytest.mark.parametrize(
    'family, size, fields, message',
    [
        ('mt6', 'base', {}, "unknown model family 'mt6'; nearest: mt5"),
        ('mt5', 'bas', {}, "unknown size of mt5 'bas'; nearest: base"),
        ('mt5', 'base', {'droput_rate': 0.1}, "'droput_rate'; nearest: dropout_rate"),
        ('mt5', 'base', {'dtype': 'fp32'}, "unknown dtype 'fp32'; "),
        ('mt5', 'base', {'remat': 'all'}, "unknown remat 'all'; nearest: full"),
        ('mt5', 'base', {'dropout_rate': 1.0}, 'dropout_rate is 1.0; it must be 0'),
        ('bart', 'base', {'activation': 'mish'}, "unknown activation 'mish'; nearest: swish"),
        ('llama', '3.1_8b', {'activation': 'mish'}, "unknown activation 'mish'; nearest: swish"),
        ('bart', 'base', {'attention_dropout_rate': 1.0}, 'attention_dropout_rate is 1.0; it must'),
        ('bert', '', {'attention_dropout_rate': 1.0}, 'a bert model without a size needs vocab_'),
        ('sequence_classifier', 'base', {'num_labels': 0}, 'num_labels is 0; it must be 1 to 2**'),
        ('dual_encoder', 'base', {'pooling': 'maen'}, "unknown pooling 'maen'; nearest: mean"),
        (
            'dual_encoder', 'base', {'pooling': 'pooler', 'has_pooler': False},
            'needs has_pooler=True',
        ),
        ('dual_encoder', 'base', {'projection_dim': -1}, 'projection_dim is -1; it must be 0 to 2'),
    ],
)  # fmt: skip
def test_mistakes_are_named(family, size, fields, message):
    with pytest.raises(errors.UserError) as error:
        models.build(family, size, **fields)
    assert message in str(error.value)


# ------------------------------------------------------------------------------------ parameters


@pytest.mark.parametrize('family', sorted(models.FAMILIES))
def test_every_parameter_has_logical_axes_and_every_family_can_be_adapted(family):
    rules, boxes = dict(partitioning.LOGICAL_AXIS_RULES), references.boxed(family)
    tree = traverse_util.unflatten_dict(boxes, sep='/')
    adapted = jax.eval_shape(lambda tree: lora.Lora(2).add(tree, jax.random.key(1)), tree)
    adapted = traverse_util.flatten_dict(adapted, sep='/')
    assert boxes.keys() < adapted.keys()
    assert sum(name.endswith('lora_a') for name in adapted) >= 4
    for name, box in adapted.items():
        assert len(box.names) == box.value.ndim and set(box.names) <= rules.keys(), name


SOURCE = [f'encoder_decoder_attention/{name}' for name in ('query', 'kv', 'out')]
MLP = ['mlp/wi', 'mlp/wo']


@pytest.mark.parametrize(
    'family, top, of_stack, norms',
    [
        ('t5', '', 'relpos_bias {}_norm', 'pre_{}_layer_norm'),
        ('mt5', 'logits_dense', 'relpos_bias {}_norm', 'pre_{}_layer_norm'),
        ('bart', 'final_logits_bias', 'embeddings_norm position_embedder', '{}_norm'),
        ('pegasus', 'final_logits_bias', 'final_norm', '{}_norm'),
    ],
)
def test_parameters_have_the_names_that_checkpoints_have(family, top, of_stack, norms):
    expected = {'token_embedder', *top.split()}
    cross = 'cross_attention' if family.endswith('t5') else 'encoder_decoder_attention'
    for stack, own in (('encoder', 'attention'), ('decoder', 'self_attention')):
        expected |= {f'{stack}/{name}' for name in of_stack.format(stack).split()}
        source = [*SOURCE, norms.format(cross)] if stack == 'decoder' else []
        parts = [f'{own}/qkv', f'{own}/out', norms.format(own), *MLP, norms.format('mlp'), *source]
        expected |= {f'{stack}/layers_{i}/{part}' for i in range(2) for part in parts}
    assert {name.rpartition('/')[0] or name for name in references.boxed(family)} == expected


def test_fresh_parameters_have_the_spread_of_the_config():
    fields = dict(vocab_size=2000, num_encoder_layers=1, num_decoder_layers=1)
    model = models.build('mbart', 'sample', **references.BART, **fields)
    tokens = np.zeros((1, 4), np.int32)
    params = nn.unbox(jax.jit(model.init)(jax.random.key(0), tokens, tokens))['params']
    for name, value in traverse_util.flatten_dict(params, sep='/').items():
        if name.endswith(('kernel', 'embedding')):
            np.testing.assert_allclose(np.std(value), 0.02, rtol=0.1, err_msg=name)
        else:
            assert (value == float(name.endswith('scale'))).all(), name


@pytest.mark.parametrize('family', ['bart', 'bert', 'encoder_decoder'])
def test_a_text_beyond_the_positions_is_one_plain_error(family):
    with pytest.raises(errors.UserError, match=r'a sequence of 41 tokens does not fit .* 40'):
        references.boxed(family, max_positions=40, length=41)


def test_decoding_beyond_the_positions_is_one_plain_error():
    references.boxed('marian', max_positions=40, length=41)  # Sinusoidal positions have no end.
    for name in ('mbart', 'bert2bert'):
        known = references.of(name)
        encoded = jnp.zeros((1, 4, known.model.config.emb_dim))
        with pytest.raises(errors.UserError, match='a sequence of 41 tokens does not fit'):
            known.run(encoded, None, max_length=41, method='init_cache')
