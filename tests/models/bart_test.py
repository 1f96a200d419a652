"""BART's relatives under the names of transformers."""

import pytest

from xlbench import models
from xlbench.huggingface import bart as bart_names
from xlbench.system import errors

FAMILIES = ('bart', 'mbart', 'pegasus', 'marian')
IDS = dict(pad_id=1, bos_id=0, eos_id=2, decoder_start_id=2, forced_bos_id=59, forced_eos_id=2)


def test_names_of_headless_checkpoints_get_their_first_word():
    rename = bart_names.rename
    assert rename('encoder.layers.0.fc1.weight') == 'model.encoder.layers.0.fc1.weight'
    assert rename('shared.weight') == 'model.shared.weight'
    for name in ('model.decoder.embed_tokens.weight', 'lm_head.weight', 'final_logits_bias'):
        assert rename(name) == name


@pytest.mark.parametrize('family', FAMILIES)
def test_config_survives_the_round_trip(family):
    for size in models.SIZES[family]:
        config = models.config(family, size)
        written = bart_names.to_config(family, config, IDS)
        assert written['model_type'] == family and written['forced_bos_token_id'] == 59
        back = bart_names.from_config(written)
        assert back.pop('family') == family
        assert models.config(family, **back) == config


@pytest.mark.parametrize(
    'change, message',
    [
        ({'decoder_attention_heads': 2}, 'decoder_attention_heads is 2; supported: 4, as encoder_'),
        ({'decoder_ffn_dim': 64}, 'decoder_ffn_dim is 64; supported: 256, as encoder_ffn_dim is'),
        ({'share_encoder_decoder_embeddings': False}, 'embeddings is False; supported: True'),
        ({'decoder_vocab_size': 7}, 'decoder_vocab_size is 7; supported: 58101, as vocab_size is'),
        ({'tie_word_embeddings': False}, 'tie_word_embeddings is False; supported: True'),
        ({'activation_function': 'mish'}, "is 'mish'; supported: relu, gelu, gelu_new, gelu_py"),
        ({'encoder_layerdrop': 0.1}, 'encoder_layerdrop is 0.1; supported: 0.0'),
        ({'d_model': 130}, 'd_model is 130; supported: multiples of encoder_attention_heads, 4'),
        ({'d_model': None}, "config.json lacks 'd_model', which a marian model needs"),
    ],
)
def test_unsupported_configs_are_named(change, message):
    config = bart_names.to_config('marian', models.config('marian', 'sample'), IDS)
    with pytest.raises(errors.UserError) as error:
        bart_names.from_config(config | change)
    assert message in str(error.value)


def test_what_old_configs_leave_out_is_filled_in():
    config = bart_names.to_config('bart', models.config('bart', 'base'), IDS)
    for key in ('scale_embedding', 'init_std', 'dropout', 'tie_word_embeddings'):
        del config[key]
    built = models.build(**bart_names.from_config(config | {'normalize_before': False}))
    assert built.config == models.config('bart', 'base')


def test_models_that_transformers_lacks_are_not_written():
    for field, value in {'pre_norm': True, 'head_dim': 16}.items():
        with pytest.raises(errors.UserError, match=f'a bart model with {field}={value} cannot be'):
            bart_names.to_config('bart', models.config('bart', 'sample', **{field: value}), IDS)
