"""Writes tests/goldens/bart_variants.npz: mBART-25's use of an mBART, Unicoder's form of a BART.

    pip install torch==2.13.0 transformers==5.23.0
    python tools/goldens/make_bart_variants.py

The weights are those of mbart.npz and bart.npz. Of mBART-25 there are labels with the language
behind the end, the logits and the loss of what the model itself feeds its decoder, and what greedy
and beam search give from the language on. Unicoder-xDAE is a BART whose tokens are scaled.
"""

import golden
import torch
from make_bart import _FAIRSEQ, SIZES, examples
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    GenerationConfig,
    MBartConfig,
    MBartForConditionalGeneration,
)

LANGUAGES = (57, 58, 59)  # One a row.
PAD, EOS = _FAIRSEQ['pad_token_id'], _FAIRSEQ['eos_token_id']


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
                input_ids=inputs[[row]],
                attention_mask=mask[[row]],
                decoder_start_token_id=language,
                max_new_tokens=16,
                do_sample=False,
                **more,
            )[0, 1:]
            for row, language in enumerate(LANGUAGES)
        ]
        made[name] = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
    return {f'mbart25/{key}': value for key, value in made.items()}


def unicoder() -> dict[str, torch.Tensor]:
    """The logits of a BART with scaled tokens."""
    model = load('bart', BartConfig, BartForConditionalGeneration)
    ids, decoder_ids, _ = (torch.tensor(x).long() for x in examples('bart'))
    mask = (ids != PAD).long()
    logits = model(input_ids=ids, attention_mask=mask, decoder_input_ids=decoder_ids).logits
    return {'unicoder/logits': logits[:, ::3]}


if __name__ == '__main__':
    made = mbart_25() | unicoder()
    golden.save('bart_variants', made, {key: value.ravel()[:8] for key, value in made.items()})
