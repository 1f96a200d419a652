"""Writes tests/goldens/family_NAME.npz: tiny random models of families that share other files.

    pip install torch==2.13.0 transformers==5.23.0
    python tools/goldens/make_families.py [NAME ...]

Each file holds a config.json and the weights as transformers stores them, 20 inputs padded on the
right, what a decoder is fed, logits of four rows, and what generation writes, greedily and with
five beams. Seeds are tried until texts vary, some end, and no choice is close.
"""

import pathlib
import sys
import tempfile

import golden
import numpy as np
import safetensors.torch
import torch
import transformers

ROWS, INPUTS, NEW, LOGITS = 20, 9, 12, 4
_IDS = dict(vocab_size=61, pad_token_id=0, eos_token_id=1, bos_token_id=2)
_T5 = dict(
    vocab_size=61, d_model=16, d_kv=8, d_ff=24, num_heads=2, dropout_rate=0.0, num_layers=2,
    relative_attention_num_buckets=8, relative_attention_max_distance=6,
    feed_forward_proj='gated-gelu', tie_word_embeddings=False,
)  # fmt: skip
_SIDES = {
    f'{side}_{key}': value
    for side in ('encoder', 'decoder')
    for key, value in (('layers', 2), ('attention_heads', 2), ('ffn_dim', 24))
}
_ONE = _IDS | dict(
    hidden_size=16, intermediate_size=24, num_attention_heads=2, num_key_value_heads=1, head_dim=8,
    num_hidden_layers=2, max_position_embeddings=64, attn_implementation='eager',
)  # fmt: skip
_GEMMA = dict(sliding_window=4, query_pre_attn_scalar=12, num_attention_heads=4)
# Name -> (the start of the names of classes, the end of that of the model, keys of the config).
FAMILIES = {
    'm2m_100': (
        'M2M100', 'ForConditionalGeneration',
        dict(
            vocab_size=61, d_model=16, dropout=0.0, attention_dropout=0.0, bos_token_id=0,
            pad_token_id=1, eos_token_id=2, decoder_start_token_id=2, **_SIDES,
        ),
    ),
    'umt5': ('UMT5', 'ForConditionalGeneration', _T5),
    'byt5': (
        'T5', 'ForConditionalGeneration',
        _T5 | dict(num_decoder_layers=1, decoder_start_token_id=0),
    ),
    'llama': (
        'Llama', 'ForCausalLM',
        _ONE | dict(
            rope_theta=500.0, attention_bias=True, mlp_bias=True,
            rope_scaling=dict(
                rope_type='llama3', factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                original_max_position_embeddings=16,
            ),
        ),
    ),
    'qwen2': ('Qwen2', 'ForCausalLM', _ONE | dict(tie_word_embeddings=True)),
    'qwen3': ('Qwen3', 'ForCausalLM', _ONE | dict(head_dim=12)),
    'mistral': ('Mistral', 'ForCausalLM', _ONE | dict(sliding_window=5)),
    'gemma': ('Gemma', 'ForCausalLM', _ONE),
    'gemma2': (
        'Gemma2', 'ForCausalLM',
        _ONE | _GEMMA | dict(attn_logit_softcapping=2.0, final_logit_softcapping=4.0),
    ),
    'gemma3': ('Gemma3', 'ForCausalLM', _ONE | _GEMMA | dict(sliding_window_pattern=2)),
    'deberta': (
        'DebertaV2', 'ForSequenceClassification',
        dict(
            vocab_size=61, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=24, relative_attention=True, position_buckets=4,
            max_position_embeddings=8,
            share_att_key=True, norm_rel_ebd='layer_norm', position_biased_input=False,
            pos_att_type=['p2c', 'c2p'], type_vocab_size=0, num_labels=3, pooler_hidden_act='gelu',
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, pooler_dropout=0.0,
        ),
    ),
}  # fmt: skip
FORCED = {'m2m_100': 57}  # The language, which comes first.


def build(name: str, seed: int) -> torch.nn.Module:
    """A model with weights, float16 numbers, so large that texts vary."""
    start, end, keys = FAMILIES[name]
    torch.manual_seed(seed)
    text = 'Text' if start == 'Gemma3' else ''
    config = getattr(transformers, f'{start}{text}Config')(**keys)
    if start.endswith('T5'):  # As in make_t5.py.
        config.tie_word_embeddings = False
    model = getattr(transformers, f'{start}{end}')(config)
    if start.endswith('T5'):
        model.encoder.embed_tokens.weight = model.shared.weight
        model.decoder.embed_tokens.weight = model.shared.weight
    scaled = start == 'M2M100' or 'emma' in start  # Tokens are multiplied by 4 after the table.
    with torch.no_grad():
        for key, value in model.named_parameters():
            draw = torch.randn_like(value)
            if value.ndim == 1:
                is_norm = 'norm' in key.lower() and key.endswith('weight')
                draw = 0.2 * draw + (1.0 if is_norm and 'emma' not in start else 0.0)
                if scaled and key.endswith(('model.norm.weight', 'decoder.layer_norm.weight')):
                    draw = draw + 3.0
            elif key.endswith(('shared.weight', 'embed_tokens.weight', 'lm_head.weight')):
                draw *= 0.2 if scaled else 0.7
            elif 'relative' not in key:
                gain = 3.0 if scaled else 1.1 if start.endswith('T5') else 1.6
                draw *= gain / value.shape[1] ** 0.5
            value.copy_(draw.half())
    return model.eval()


def made(name: str, seed: int) -> dict[str, np.ndarray] | None:
    """The content of a file; None where the seed does not suit."""
    model, rng = build(name, seed), np.random.default_rng(7)
    both = getattr(model.config, 'is_encoder_decoder', False)
    writes = model.can_generate()
    pad, end = model.config.pad_token_id, model.config.eos_token_id
    lengths = rng.integers(2, INPUTS + 1, ROWS)
    inputs = rng.integers(3, 56, (ROWS, INPUTS))
    inputs[np.arange(INPUTS) >= lengths[:, None]] = pad
    targets = rng.integers(3, 56, (LOGITS, INPUTS))
    values = {'inputs': inputs.astype(np.int8), 'targets': targets.astype(np.int8)}
    logits = np.zeros((LOGITS, INPUTS, 61) if writes else (LOGITS, 3), np.float32)
    with torch.no_grad():
        for row in range(LOGITS):
            ids = torch.tensor(inputs[row, : lengths[row]])[None]
            fed = {'decoder_input_ids': torch.tensor(targets[row])[None]} if both else {}
            found = model(input_ids=ids, **fed).logits[0].numpy()
            logits[row][: len(found)] = found
        values['logits'] = logits
        if not writes:
            return values | stored(model)
        model.generation_config = transformers.GenerationConfig(
            pad_token_id=pad, eos_token_id=end, bos_token_id=2,
            decoder_start_token_id=getattr(model.config, 'decoder_start_token_id', None),
            forced_bos_token_id=FORCED.get(name),
        )  # fmt: skip
        for case, beams in (('greedy', 1), ('beam5', 5)):
            texts, scores = np.full((ROWS, NEW), pad, np.int8), []
            for row in range(ROWS):
                ids = torch.tensor(inputs[row, : lengths[row]])[None]
                out = model.generate(
                    input_ids=ids, attention_mask=torch.ones_like(ids), num_beams=beams,
                    do_sample=False, max_new_tokens=NEW, return_dict_in_generate=True,
                    output_scores=True,
                )  # fmt: skip
                text = out.sequences[0, 1 if both else ids.shape[1] :].numpy()
                texts[row, : len(text)] = text
                if beams == 1:
                    best = torch.stack(out.scores).topk(2).values[:, 0]
                    scores.append(float((best[:, 0] - best[:, 1]).min()))
                else:
                    scores.append(float(out.sequences_scores[0]))
            values[case] = texts
            if beams == 1:
                ended = (texts == end).any(axis=1).sum()
                if min(scores) < 5e-4 or not 1 <= ended < ROWS or len(np.unique(texts)) < 16:
                    return None
            if beams > 1:
                values['scores'] = np.array(scores, np.float32)
    return values | stored(model)


def stored(model: torch.nn.Module) -> dict[str, np.ndarray]:
    """The content of a model's folder."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        weights = safetensors.torch.load_file(f'{folder}/model.safetensors')
        config = np.array(pathlib.Path(folder, 'config.json').read_text())
    return {'config': config} | {f'weights/{k}': v.half().numpy() for k, v in weights.items()}


def main():
    for name in sys.argv[1:] or FAMILIES:
        seed, values = next((s, v) for s in range(200) if (v := made(name, s)))
        golden.save(f'family_{name}', values, seed)


if __name__ == '__main__':
    main()
