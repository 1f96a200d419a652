"""Writes tests/goldens/decoding_FAMILY.npz: what transformers' generate makes of the tiny models.

    pip install torch==2.13.0 transformers==5.23.0
    python tools/goldens/make_decoding.py
    pip install torch==2.13.0 transformers==4.49.0
    python tools/goldens/make_decoding.py diverse

The weights are those of FAMILY.npz, which the other scripts of this folder write. Each file holds
the tokens and scores of each case, `cases` as JSON in the words of decoding.Options, and the
special ids. Diverse beam search needs version 4 (decoding_diverse_FAMILY.npz).
"""

import importlib
import json
import sys

import golden
import numpy as np
import torch

MAX_LENGTH = 20
# The script with `build(name)` of each family.
SCRIPTS = {
    't5': 'make_t5', 't5_1_1': 'make_t5', 'mt5': 'make_t5', 'bart': 'make_bart',
    'mbart': 'make_bart', 'pegasus': 'make_bart', 'marian': 'make_bart', 'bert2bert': 'make_bert',
    'xlmr2xlmr': 'make_bert',
}  # fmt: skip
PENALTIES = (0.6, 1.0, 2.0)
ONE_BY_ONE = {
    'greedy': {},
    'greedy_rules': dict(
        no_repeat_ngram=2, repetition_penalty=1.4, banned=[17, [23, 5]], min_length=12,
        forced_last=True, forced_first=[9, 11, 30],
    ),
}  # fmt: skip
BEAMS = {
    f'beam{beams}_{early}_{penalty}': dict(
        num_beams=beams, num_return=3, early_stopping=early, length_penalty=penalty
    )
    for beams in (3, 5)
    for early in (True, False, 'never')
    for penalty in PENALTIES
}
RULES = {
    'rules': dict(
        num_beams=3, num_return=3, no_repeat_ngram=3, forced_first=[9, 11, 30], forced_last=True
    ),
}
# Of one family only.
MORE_RULES = {
    **ONE_BY_ONE,
    'no_repeat': dict(num_beams=3, num_return=3, no_repeat_ngram=3),
    'forced': dict(num_beams=3, num_return=3, forced_first=[9, 11, 30], forced_last=True),
    'min_length': dict(num_beams=3, num_return=3, min_length=11),
    'repetition': dict(num_beams=3, num_return=3, repetition_penalty=1.4, no_repeat_ngram=1),
    'banned': dict(num_beams=3, num_return=3, banned=[[17], [23, 5], [8, 30, 12]]),
    'all': dict(ONE_BY_ONE['greedy_rules'], num_beams=4, num_return=2, early_stopping='never'),
}
DIVERSE = {
    f'diverse_{penalty}': dict(
        num_beams=6, num_groups=3, num_return=6, diversity_penalty=0.7, length_penalty=penalty
    )
    for penalty in PENALTIES
}  # fmt: skip
MORE_DIVERSE = {
    'diverse_True': dict(DIVERSE['diverse_1.0'], early_stopping=True),
    'diverse_never': dict(DIVERSE['diverse_2.0'], early_stopping='never'),
    'diverse_rules': dict(
        num_beams=4, num_groups=2, num_return=4, diversity_penalty=2.0, no_repeat_ngram=2,
        repetition_penalty=1.3, forced_first=[9, 11, 30],
    ),
}  # fmt: skip
NAMES = dict(
    num_return='num_return_sequences', no_repeat_ngram='no_repeat_ngram_size',
    min_length='min_new_tokens', banned='bad_words_ids', num_groups='num_beam_groups',
)  # fmt: skip


def load(family: str) -> tuple[torch.nn.Module, np.ndarray]:
    """The model with the stored weights (versions draw others), and its inputs."""
    model = importlib.import_module(SCRIPTS[family]).build(family)
    # What is tied comes once.
    _, unexpected = model.load_state_dict(golden.weights(family), strict=False)
    assert not unexpected, unexpected
    model.generation_config.forced_bos_token_id = None
    model.generation_config.forced_eos_token_id = None
    return model.eval(), np.load(golden.FOLDER / f'{family}.npz')['inputs']


def generate(model: torch.nn.Module, inputs: np.ndarray, case: dict) -> tuple[np.ndarray, ...]:
    """Tokens [rows, num_return, MAX_LENGTH], padded after the end, and scores of beams."""
    case = dict(case)
    config = model.generation_config
    options = dict(num_beams=1, do_sample=False, max_new_tokens=MAX_LENGTH)
    options |= dict(return_dict_in_generate=True, output_scores=True)
    if case.pop('forced_last', False):
        options['forced_eos_token_id'] = config.eos_token_id
    forced = case.pop('forced_first', None)
    options |= {NAMES.get(name, name): value for name, value in case.items()}
    if 'bad_words_ids' in options:
        words = options['bad_words_ids']
        options['bad_words_ids'] = [[w] if isinstance(w, int) else w for w in words]
    found = []
    # One by one and without padding: a call forces one token on all its rows, and the beams of
    # version 4 see padding.
    for row in range(len(inputs)):
        if forced:
            options['forced_bos_token_id'] = forced[row]
        ids = torch.tensor(inputs[row][inputs[row] != config.pad_token_id])[None]
        with torch.no_grad():
            out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **options)
        found.append(out)
    count = options.get('num_return_sequences', 1)
    tokens = np.full((len(inputs), count, MAX_LENGTH), config.pad_token_id, np.int16)
    for row, out in enumerate(found):
        for i, text in enumerate(out.sequences[:, 1:].tolist()):
            end = text.index(config.eos_token_id) + 1 if config.eos_token_id in text else len(text)
            tokens[row, i, :end] = text[:end]
    if options['num_beams'] == 1:
        return (tokens,)
    return tokens, np.stack([out.sequences_scores.numpy() for out in found])


def main():
    diverse = sys.argv[1:] == ['diverse']
    prefix = 'decoding_diverse_' if diverse else 'decoding_'
    for family in SCRIPTS:
        if not (golden.FOLDER / f'{family}.npz').exists():
            print(f'{family}: no weights')
            continue
        model, inputs = load(family)
        cases = dict(DIVERSE) if diverse else BEAMS | RULES
        if family == 'mt5':
            cases |= MORE_DIVERSE if diverse else MORE_RULES
        config = model.generation_config
        names = ('decoder_start_token_id', 'eos_token_id', 'pad_token_id')
        values = {'ids': np.array([getattr(config, name) for name in names], np.int32)}
        for name, case in cases.items():
            result = generate(model, inputs, case)
            values |= {f'{name}/{k}': v for k, v in zip(('tokens', 'scores'), result, strict=False)}
        texts = [values[f'{name}/tokens'] for name in cases]
        ends = np.mean([np.mean((t == config.eos_token_id).any(-1)) for t in texts])
        values['cases'] = json.dumps(cases)
        golden.save(f'{prefix}{family}', values, f'{ends:.2f} of the texts end')


if __name__ == '__main__':
    main()
