"""Writes tests/goldens/{bart,mbart,pegasus,marian,bart_variants}.npz: tiny random models.

    pip install torch==2.13.0 transformers==5.23.0
    python tools/goldens/make_bart.py

Each file holds the weights (`weights/NAME`), padded inputs, what the decoder is fed, logits with
and without a mask, loss, the gradients of some weights (`gradients/NAME`), what greedy generation
gives, and the special ids. The variants have the weights of mbart.npz and bart.npz. Of mBART-25
there are labels with the language behind the end, the logits and the loss of what the model itself
feeds its decoder, and what greedy and beam search give from the language on. Unicoder-xDAE is a
BART whose tokens are scaled.
"""

import golden
import numpy as np
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    GenerationConfig,
    MarianConfig,
    MarianMTModel,
    MBartConfig,
    MBartForConditionalGeneration,
    PegasusConfig,
    PegasusForConditionalGeneration,
)

SIZES = dict(
    vocab_size=61, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
    decoder_attention_heads=4, encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=40,
    dropout=0.0, attention_dropout=0.0, activation_dropout=0.0,
)  # fmt: skip
# As in the public checkpoints, but for the numbers at the vocabulary's end.
_FAIRSEQ = dict(bos_token_id=0, pad_token_id=1, eos_token_id=2, decoder_start_token_id=2)
SPECIAL = {
    'bart': _FAIRSEQ,
    'mbart': _FAIRSEQ | dict(forced_bos_token_id=59),  # The target language.
    'pegasus': dict(bos_token_id=None, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0),
    'marian': dict(bos_token_id=None, pad_token_id=60, eos_token_id=0, decoder_start_token_id=60),
}
MODELS = {
    'bart': (BartConfig, BartForConditionalGeneration, 'gelu', False),
    'mbart': (MBartConfig, MBartForConditionalGeneration, 'gelu', True),
    'pegasus': (PegasusConfig, PegasusForConditionalGeneration, 'relu', True),
    'marian': (MarianConfig, MarianMTModel, 'swish', True),
}
LANGUAGES = (57, 58, 59)  # Of mBART-25, one a row.
PAD, EOS = _FAIRSEQ['pad_token_id'], _FAIRSEQ['eos_token_id']
# Chosen so that greedy texts vary, and some end.
SEEDS = {'bart': 32, 'mbart': 14, 'pegasus': 6, 'marian': 32}
# The norm before the logits, in models with and without one at the top of the stack.
LAST_NORMS = ('model.decoder.layer_norm', 'model.decoder.layers.1.final_layer_norm')
# One of each kind of parameter.
GRADIENTS = (
    'model.shared.weight', 'model.encoder.embed_positions.weight',
    'model.decoder.embed_positions.weight', 'model.encoder.layernorm_embedding.weight',
    'model.decoder.layernorm_embedding.bias', 'model.encoder.layer_norm.weight',
    'model.decoder.layer_norm.bias', 'model.encoder.layers.1.self_attn.q_proj.weight',
    'model.encoder.layers.0.self_attn.v_proj.bias',
    'model.encoder.layers.0.self_attn_layer_norm.weight', 'model.encoder.layers.1.fc1.bias',
    'model.encoder.layers.0.fc2.weight', 'model.decoder.layers.1.self_attn.q_proj.bias',
    'model.decoder.layers.1.encoder_attn.k_proj.weight',
    'model.decoder.layers.0.encoder_attn.v_proj.weight',
    'model.decoder.layers.0.encoder_attn_layer_norm.bias',
    'model.decoder.layers.0.final_layer_norm.weight',
)  # fmt: skip


def build(name: str) -> torch.nn.Module:
    """A model of each family, with weights large enough for decoding to vary and to end.

    All numbers are float16 ones, and stored as such: the files are small.
    """
    torch.manual_seed(SEEDS[name])
    config_class, model_class, activation, scaled = MODELS[name]
    special = {key: value for key, value in SPECIAL[name].items() if not key.startswith('forced')}
    config = config_class(
        **SIZES, **special, forced_eos_token_id=None, activation_function=activation,
        scale_embedding=scaled,
    )  # fmt: skip
    model = model_class(config)
    assert model.lm_head.weight is model.model.shared.weight
    with torch.no_grad():
        for key, value in model.named_parameters():
            draw = torch.randn_like(value)
            if key.endswith(('norm.weight', 'layernorm_embedding.weight')):
                # The last one makes up for a small table.
                draw = (4.0 if key.startswith(LAST_NORMS) else 1.0) * (1.0 + 0.2 * draw)
            elif key.endswith('bias') or 'shared' in key:
                draw = 0.1 * draw
            elif 'embed_positions' in key:
                draw = 0.6 * draw
            else:
                # What the layers add must outweigh the token, which would else repeat itself, but
                # not by what attention takes from the source, which is alike at all positions.
                large = {'fc2.weight': 4.0, 'encoder_attn.out_proj.weight': 0.3}
                draw *= next((x for end, x in large.items() if key.endswith(end)), 2.0)
                draw /= value.shape[-1] ** 0.5
            if value.requires_grad:  # Sinusoidal positions do not.
                value.copy_(draw.half())
        if name in ('pegasus', 'marian'):
            model.final_logits_bias.copy_((0.3 * torch.randn(1, SIZES['vocab_size'])).half())
        # The end of a text has to come up in some rows.
        end = model.model.shared.weight[config.eos_token_id]
        end.copy_((2.6 * end).half())
    model.generation_config = GenerationConfig(**SPECIAL[name])
    return model.eval()


def examples(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs [3, 40], what the decoder is fed and its targets [3, 20], of several lengths."""
    rng = np.random.default_rng(3)
    pad, eos = SPECIAL[name]['pad_token_id'], SPECIAL[name]['eos_token_id']
    inputs, targets = rng.integers(3, 59, (3, 40)), rng.integers(3, 59, (3, 20))
    for row, (input_length, target_length) in enumerate(((40, 20), (17, 9), (5, 4))):
        inputs[row, input_length - 1] = targets[row, target_length - 1] = eos
        inputs[row, input_length:] = targets[row, target_length:] = pad
    decoder_inputs = np.roll(targets, 1, axis=1)
    decoder_inputs[:, 0] = SPECIAL[name]['decoder_start_token_id']
    return tuple(x.astype(np.int32) for x in (inputs, decoder_inputs, targets))


def record(name: str, model: torch.nn.Module) -> dict[str, np.ndarray | torch.Tensor]:
    """All that the tests compare."""
    pad = SPECIAL[name]['pad_token_id']
    arrays = examples(name)
    ids, decoder_ids, labels = (torch.tensor(x).long() for x in arrays)
    mask = (ids != pad).long()
    labels = labels.masked_fill(labels == pad, -100)
    out = model(input_ids=ids, attention_mask=mask, decoder_input_ids=decoder_ids, labels=labels)
    out.loss.backward()
    unmasked = model(input_ids=ids, decoder_input_ids=decoder_ids)
    greedy = golden.greedy(model, ids, mask)
    weights = {
        key: value
        for key, value in model.state_dict(keep_vars=True).items()
        if (value.requires_grad or 'bias' in key) and 'embed_tokens' not in key
    }
    del weights['lm_head.weight']
    ids = {key: -1 if value is None else value for key, value in SPECIAL[name].items()}
    return {
        **dict(zip(('inputs', 'decoder_inputs', 'targets'), arrays, strict=True)),
        # Every third position, or sixth: the file is small.
        'logits': out.logits[:, ::3],
        'logits_without_mask': unmasked.logits[:, ::6],
        'loss': out.loss,
        'greedy': greedy,
        **{key: np.int32(value) for key, value in ids.items()},
        **{f'weights/{key}': value.half() for key, value in weights.items()},
        **golden.gradients(model, GRADIENTS),
    }


def load(name: str, config_class: type, model_class: type) -> torch.nn.Module:
    """A model with the weights of a family's goldens, whose tokens are scaled."""
    config = config_class(**SIZES, **_FAIRSEQ, forced_eos_token_id=None, scale_embedding=True)
    model = model_class(config)
    missing, unexpected = model.load_state_dict(golden.weights(name), strict=False)
    assert not unexpected and all('embed_tokens' in k or 'lm_head' in k for k in missing), missing
    return model.eval()


def mbart_25() -> dict[str, torch.Tensor]:
    """What mBART-25 makes of three examples, each in another language."""
    model = load('mbart', MBartConfig, MBartForConditionalGeneration)
    model.generation_config = GenerationConfig(**_FAIRSEQ)
    inputs, _, targets = (torch.tensor(x).long() for x in examples('mbart'))
    for row, language in enumerate(LANGUAGES):
        for ids in (inputs, targets):  # Without their first id, so that there is room.
            end = int((ids[row] == EOS).nonzero()[0])
            ids[row, :end] = ids[row, 1 : end + 1].clone()
            ids[row, end] = language
    mask = (inputs != PAD).long()
    out = model(input_ids=inputs, attention_mask=mask, labels=targets)
    made = dict(inputs=inputs, targets=targets, logits=out.logits[:, ::3])
    labels = targets.masked_fill(targets == PAD, -100)
    flat = torch.nn.functional.cross_entropy(out.logits.flatten(0, 1), labels.flatten())
    made |= {'loss': flat}
    for name, more in (('greedy', {}), ('beam', dict(num_beams=3))):
        rows = [
            model.generate(
                input_ids=inputs[[row]], attention_mask=mask[[row]],
                decoder_start_token_id=language, max_new_tokens=16, do_sample=False, **more,
            )[0, 1:]
            for row, language in enumerate(LANGUAGES)
        ]  # fmt: skip
        made[name] = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
    return {f'mbart25/{key}': value for key, value in made.items()}


def unicoder() -> dict[str, torch.Tensor]:
    """The logits of a BART with scaled tokens."""
    model = load('bart', BartConfig, BartForConditionalGeneration)
    ids, decoder_ids, _ = (torch.tensor(x).long() for x in examples('bart'))
    mask = (ids != PAD).long()
    logits = model(input_ids=ids, attention_mask=mask, decoder_input_ids=decoder_ids).logits
    return {'unicoder/logits': logits[:, ::3]}


def main():
    for name in MODELS:
        values = record(name, build(name))
        golden.save(name, values, values['loss'].item(), values['greedy'].tolist())
    made = mbart_25() | unicoder()
    golden.save('bart_variants', made, {key: value.ravel()[:8] for key, value in made.items()})


if __name__ == '__main__':
    main()
