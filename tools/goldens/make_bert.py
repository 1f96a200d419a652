"""Writes tests/goldens/{bert,roberta,xlm_roberta,bert2bert,xlmr2xlmr}.npz: tiny random models.

    pip install torch==2.13.0 transformers==5.23.0
    python tools/goldens/make_bert.py

Kept apart from the tests because the project itself does not need PyTorch. Each file holds weights
(`weights/NAME`; of encoders also those of the two heads, `sequence/NAME` and `token/NAME`), padded
inputs, and what transformers makes of them: states, logits, losses, the gradients of some weights
(`gradients/NAME`, after the head's prefix where there is one) and greedy generation.
"""

import copy

import golden
import numpy as np
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    EncoderDecoderConfig,
    EncoderDecoderModel,
    RobertaConfig,
    RobertaForSequenceClassification,
    RobertaForTokenClassification,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaForSequenceClassification,
    XLMRobertaForTokenClassification,
    XLMRobertaModel,
)

SIZES = dict(
    vocab_size=61, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40,
    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=3,
)  # fmt: skip
KINDS = {
    'bert': BertConfig(
        **SIZES, max_position_embeddings=40, pad_token_id=0, bos_token_id=2, eos_token_id=3
    ),
    'roberta': RobertaConfig(
        **SIZES, max_position_embeddings=42, type_vocab_size=1, layer_norm_eps=1e-5
    ),
    'xlm_roberta': XLMRobertaConfig(
        **SIZES, max_position_embeddings=42, type_vocab_size=1, layer_norm_eps=1e-5
    ),
}
CLASSES = {
    'bert': (BertModel, BertForSequenceClassification, BertForTokenClassification),
    'roberta': (RobertaModel, RobertaForSequenceClassification, RobertaForTokenClassification),
    'xlm_roberta': (
        XLMRobertaModel, XLMRobertaForSequenceClassification, XLMRobertaForTokenClassification,
    ),
}  # fmt: skip
PAIRS = {'bert2bert': 'bert', 'xlmr2xlmr': 'xlm_roberta'}
# One of each kind of parameter.
ENCODER_GRADIENTS = (
    'embeddings.word_embeddings.weight', 'embeddings.position_embeddings.weight',
    'embeddings.token_type_embeddings.weight', 'encoder.layer.0.attention.self.query.weight',
    'encoder.layer.1.attention.self.value.bias',
    'encoder.layer.0.attention.output.LayerNorm.weight',
    'encoder.layer.1.intermediate.dense.weight',
)  # fmt: skip
DECODER_GRADIENTS = (
    'embeddings.word_embeddings.weight', 'embeddings.position_embeddings.weight',
    'encoder.layer.0.attention.self.key.weight', 'encoder.layer.1.crossattention.self.query.bias',
    'encoder.layer.1.crossattention.self.value.weight',
    'encoder.layer.0.crossattention.output.LayerNorm.bias',
)  # fmt: skip
HEAD_GRADIENTS = {
    'bert2bert': ('cls.predictions.bias', 'cls.predictions.transform.dense.weight'),
    'xlmr2xlmr': ('lm_head.bias', 'lm_head.dense.weight'),
}


def randomise(model: torch.nn.Module) -> torch.nn.Module:
    """Weights of a size at which every part is felt, exact in float16 so that files are small."""
    with torch.no_grad():
        for key, value in model.named_parameters():
            noise = torch.randn_like(value)
            if key.endswith('bias'):
                noise = 0.2 * noise
            elif 'norm' in key.lower():
                noise = 1.0 + 0.2 * noise
            elif 'embeddings' not in key:
                noise = 1.4 * noise / value.shape[-1] ** 0.5
            elif 'position' in key:
                noise = 2.0 * noise  # Or else greedy decoding repeats one token.
            if key in ('decoder.cls.predictions.bias', 'decoder.lm_head.bias'):
                noise[model.config.eos_token_id] += 1.0  # The end has to come up in some rows.
            value.copy_(noise.half().float())
    return model.eval()


def build(name: str) -> torch.nn.Module:
    """An encoder, or a pair of them ('bert2bert', 'xlmr2xlmr')."""
    seeds = {'bert': 1, 'xlm_roberta': 2, 'roberta': 3, 'bert2bert': 172, 'xlmr2xlmr': 152}
    torch.manual_seed(seeds[name])
    if name in CLASSES:
        return randomise(CLASSES[name][0](KINDS[name]))
    half = KINDS[PAIRS[name]]
    halves = copy.deepcopy(half), copy.deepcopy(half)  # The decoder's will be changed.
    config = EncoderDecoderConfig.from_encoder_decoder_configs(*halves)
    start = half.bos_token_id
    special = dict(
        decoder_start_token_id=start, pad_token_id=half.pad_token_id,
        eos_token_id=half.eos_token_id, bos_token_id=start,
    )  # fmt: skip
    for key, value in special.items():
        setattr(config, key, value)
    model = randomise(EncoderDecoderModel(config=config))
    for key, value in special.items():
        setattr(model.generation_config, key, value)
    return model


def padded(rng: np.random.Generator, lengths: tuple[int, ...], pad: int) -> torch.Tensor:
    """Rows of ordinary tokens, padded to the longest."""
    tokens = rng.integers(4, SIZES['vocab_size'], (len(lengths), max(lengths)))
    for row, length in enumerate(lengths):
        tokens[row, length:] = pad
    return torch.tensor(tokens)


def record_encoder(name: str) -> dict[str, torch.Tensor]:
    """States, pooled output, and both heads with their losses and gradients."""
    base, rng, config = build(name), np.random.default_rng(3), KINDS[name]
    inputs = padded(rng, (30, 17, 4), config.pad_token_id)
    mask = (inputs != config.pad_token_id).long()
    types = torch.tensor(rng.integers(0, config.type_vocab_size, inputs.shape))
    labels = {
        'sequence': torch.tensor([2, 0, 1]),
        'token': torch.tensor(rng.integers(0, 3, inputs.shape)).masked_fill(mask == 0, -100),
    }
    given = dict(input_ids=inputs, attention_mask=mask, token_type_ids=types)
    with torch.no_grad():
        states = base(**given)
    values = {
        'inputs': inputs,
        'types': types,
        'states': states.last_hidden_state[:, ::3],  # Every third position: the file is small.
        'pooled': states.pooler_output,
        **{f'weights/{key}': value.half() for key, value in base.state_dict().items()},
    }
    for head, head_class in zip(('sequence', 'token'), CLASSES[name][1:], strict=True):
        model = randomise(head_class(config))
        model.base_model.load_state_dict(base.state_dict(), strict=False)  # May have no pooler.
        out = model(**given, labels=labels[head])
        out.loss.backward()
        values |= {
            f'{head}_labels': labels[head], f'{head}_logits': out.logits, f'{head}_loss': out.loss,
        }  # fmt: skip
        prefix = model.base_model_prefix + '.'
        for key, value in model.state_dict().items():
            if not key.startswith(prefix):
                values[f'{head}/{key}'] = value.half()
                values[f'gradients/{head}/{key}'] = model.get_parameter(key).grad
        for key in ENCODER_GRADIENTS:
            values[f'gradients/{head}/{prefix}{key}'] = model.get_parameter(prefix + key).grad
    return values


def record_pair(name: str) -> dict[str, torch.Tensor]:
    """Logits, loss, gradients and generation."""
    model, rng = build(name), np.random.default_rng(5)
    pad = model.config.pad_token_id
    inputs, targets = padded(rng, (30, 17, 4), pad), padded(rng, (24, 12, 5), pad)
    mask = (inputs != pad).long()
    labels = targets.masked_fill(targets == pad, -100)
    out = model(input_ids=inputs, attention_mask=mask, labels=labels)
    out.loss.backward()
    base = model.decoder.base_model_prefix
    keys = [f'encoder.{key}' for key in ENCODER_GRADIENTS]
    keys += [f'decoder.{base}.{key}' for key in DECODER_GRADIENTS]
    keys += [f'decoder.{key}' for key in HEAD_GRADIENTS[name]]
    tied = ('decoder.weight', 'decoder.bias')  # The token table and the head's bias again.
    return {
        'inputs': inputs,
        'targets': targets,
        'logits': out.logits[:, ::3],  # Every third position: the file is small.
        'loss': out.loss,
        'greedy': golden.greedy(model, inputs, mask),
        **{
            f'weights/{key}': value.half()
            for key, value in model.state_dict().items()
            if not key.endswith(tied)
        },
        **{f'gradients/{key}': model.get_parameter(key).grad for key in keys},
    }


def main():
    for name in (*CLASSES, *PAIRS):
        torch.manual_seed(0)
        values = record_encoder(name) if name in CLASSES else record_pair(name)
        golden.save(name, values, values.get('greedy', values.get('token_loss')))


if __name__ == '__main__':
    main()
