import numpy as np
import pytest
from flax import traverse_util

from xlbench import models
from xlbench.huggingface import checkpoint, peft
from xlbench.system import errors

CONFIG = models.config('t5', 'sample', vocab_size=32)
LEAVES = {
    'encoder/layers_0/attention/qkv': dict(
        lora_a=np.arange(3 * 2 * 128, dtype=np.float32).reshape(3, 2, 128),
        lora_b=np.ones((3, 128, 2), np.float32),
        lora_scale=np.float32(4.0),
    ),
    'decoder/layers_1/mlp/wo': dict(
        lora_a=np.ones((2, 256), np.float32),
        lora_b=np.full((128, 2), 3.0, np.float32),
        lora_scale=np.float32(4.0),
    ),
}


def test_every_part_of_a_fused_kernel_is_an_adapter_of_its_own():
    tensors, config = peft.adapter(
        checkpoint.names('t5', CONFIG),
        traverse_util.flatten_dict(LEAVES, sep='/'),
        'google-t5/t5-small',
    )
    attention = 'base_model.model.encoder.block.0.layer.0.SelfAttention'
    mlp = 'base_model.model.decoder.block.1.layer.2.DenseReluDense.wo'
    assert sorted(tensors) == sorted(
        f'{module}.lora_{side}.weight'
        for module in (f'{attention}.q', f'{attention}.k', f'{attention}.v', mlp)
        for side in 'AB'
    )
    qkv = LEAVES['encoder/layers_0/attention/qkv']['lora_a']
    for part, letter in enumerate('qkv'):
        np.testing.assert_array_equal(tensors[f'{attention}.{letter}.lora_A.weight'], qkv[part])
    assert tensors[f'{mlp}.lora_B.weight'].shape == (128, 2)
    assert config['r'] == 2 and config['lora_alpha'] == 8.0
    assert config['base_model_name_or_path'] == 'google-t5/t5-small'
    assert 'encoder.block.0.layer.0.SelfAttention.k' in config['target_modules']


def test_a_kernel_without_counterpart_is_refused():
    with pytest.raises(errors.UserError, match='has none for head/kernel; leave the flag out'):
        peft.adapter(checkpoint.names('t5', CONFIG), {'head/lora_a': np.ones((2, 3))}, 'x')
