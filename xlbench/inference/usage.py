"""The lines of Python and of a shell with which an exported folder gives the answers of its run."""

from xlbench.data import tokenizers
from xlbench.inference.exported import (
    Notes,
    first_key,
    forced_first,
    target_languages,
)
from xlbench.models.dual_encoder import DualEncoderConfig
from xlbench.models.transformer import TransformerConfig


def lines(
    family: str, config: TransformerConfig, tokenizer: tokenizers.Tokenizer, notes: Notes
) -> list[str]:
    """Says in Markdown how to use a folder.

    Args:
      family: of the model.
      config: of the model.
      tokenizer: of the run.
      notes: of the folder.
    """
    if isinstance(config, DualEncoderConfig):
        return _vectors(config)
    kinds = {
        'sequence_classifier': 'SequenceClassification',
        'token_classifier': 'TokenClassification',
    }
    if family in kinds:
        code = _LABELS.replace('KIND', kinds[family])
        if any(task['trained'] and task.get('texts') == 2 for task in notes.tasks.values()):
            code = code.replace("['A text.']", "[('A text.', 'Another text.')]")
        tagged = ['', "A word's tag is that of its last piece."]
        return [*_code(code), *(tagged if family == 'token_classifier' else [])]
    if family == 'bert':
        return _code(_ENCODER)
    marks = {
        lang: mark
        for lang in target_languages(notes.tasks)
        if (mark := _mark(tokenizer, lang, notes))
    }
    if family == 'marian_ssru':
        return [*_MARIAN, '', 'With xlbench:', '', '```sh', f'{_PREDICT} < texts.txt', '```']
    before, forced, more = next(iter(marks.values()), ('', '', ''))
    text = _CONTINUED if family == 'gpt2' else _TEXTS
    text = text.replace('BEFORE', before).replace('FORCED', forced).replace('MORE', more)
    # The other tokenizers put it there themselves.
    end = ' + tokenizer.eos_token' if tokenizer.family == 'gpt2' else ''
    text = text.replace('END', end)
    lines = [
        'The answers of the run, with [transformers](https://github.com/huggingface/transformers):',
        '',
    ]
    lines += _code(text)
    if marks:
        lines += ['', 'The model is told the target language as in training:', '']
        lines += ['| language | before the text | arguments |', '|---|---|---|']
        lines += [
            f'| {lang} | `{before}` | {" ".join(f"`{x}`" for x in (more, forced) if x)} |'
            for lang, (before, forced, more) in marks.items()
        ]
        lines += ['', 'A space stands between the mark and the text.']
    if isinstance(tokenizer, tokenizers.SentencePieceTokenizer):
        lines += ['', *_TIES]
    first = next(iter(marks), None)
    flag = f' --target_lang={first}' if first else ''
    itself = ', which writes the mark itself' if marks else ''
    lines += ['', f'With xlbench{itself}:', '', '```sh']
    return [*lines, f'{_PREDICT}{flag} < texts.txt', '```']


def _vectors(config: DualEncoderConfig) -> list[str]:
    """The card's words about how states become a vector."""
    pool = {
        'mean': '(states * mask).sum(1) / mask.sum(1)',
        'first': 'states[:, 0]',
        'pooler': 'out.pooler_output',
    }[config.pooling]
    lines = [
        "A text's vector, with [transformers](https://github.com/huggingface/transformers); "
        + (
            'both sides share this encoder:'
            if config.shared
            else 'left/ is for messages, right/ for replies:'
        ),
        '',
        '```python',
        'from transformers import AutoModel, AutoTokenizer',
        '',
        f"folder = '{'.' if config.shared else './left'}'  # Started in this folder.",
        'tokenizer = AutoTokenizer.from_pretrained(folder)',
        'model = AutoModel.from_pretrained(folder)',
        f'texts = [{config.left_prompt + "A text."!r}]',
        "inputs = tokenizer(texts, return_tensors='pt', padding=True, truncation=True)",
        'out = model(**inputs)',
        "states, mask = out.last_hidden_state, inputs['attention_mask'][..., None]",
        f'vectors = {pool}',
    ]
    if config.normalize:
        lines.append('vectors = vectors / vectors.norm(dim=-1, keepdim=True)')
    lines.append('```')
    if config.pooling != 'pooler':
        named = ", prompt_name='query'" if config.left_prompt else ''
        lines += ['', 'The same with [sentence-transformers](https://sbert.net):', '', '```python']
        lines += ['from sentence_transformers import SentenceTransformer', '']
        lines += [f"model = SentenceTransformer('{'.' if config.shared else './left'}')"]
        lines += [f"vectors = model.encode(['A text.']{named})", '```']
    return [
        *lines,
        '',
        'With xlbench:',
        '',
        '```sh',
        'python -m xlbench.predict . < messages.txt',
        '```',
    ]


_PREDICT = 'python -m xlbench.predict .'
_MARIAN = (
    'model.bin and vocab.spm are files of [Marian](https://marian-nmt.github.io), with one',
    'vocabulary for both languages; transformers has no such model.',
)
_TEXTS = """
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained('.'MORE)  # Started in this folder.
model = AutoModelForSeq2SeqLM.from_pretrained('.')
texts = ['BEFOREA text.']
inputs = tokenizer(texts, return_tensors='pt', padding=True, truncation=True)
answers = model.generate(**inputsFORCED)
print(tokenizer.batch_decode(answers, skip_special_tokens=True))
"""
_CONTINUED = """
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained('.', padding_side='left')  # Started in this folder.
tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
model = AutoModelForCausalLM.from_pretrained('.')
texts = ['BEFOREA text.'END]
inputs = tokenizer(texts, return_tensors='pt', padding=True, truncation=True)
answers = model.generate(**inputsFORCED)[:, inputs['input_ids'].shape[1] :]
print(tokenizer.batch_decode(answers, skip_special_tokens=True))
"""
_LABELS = """
from transformers import AutoModelForKIND, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained('.')  # Started in this folder.
model = AutoModelForKIND.from_pretrained('.')
inputs = tokenizer(['A text.'], return_tensors='pt', padding=True, truncation=True)
best = model(**inputs).logits.argmax(-1)
print(best, model.config.id2label)
"""
_ENCODER = """
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained('.')  # Started in this folder.
model = AutoModel.from_pretrained('.')
inputs = tokenizer(['A text.'], return_tensors='pt', padding=True, truncation=True)
print(model(**inputs).last_hidden_state.shape)
"""
_TIES = (
    'tokenizer.json gives the ids of the SentencePiece model spiece.model. Where two ways to cut a',
    'word are equally likely to the last digit, it may take the other one.',
)


def _code(text: str) -> list[str]:
    return ['```python', *text.strip().split('\n'), '```']


def _mark(
    tokenizer: tokenizers.Tokenizer, lang: str, notes: Notes
) -> tuple[str, str, str] | None:
    """(text before the input, arguments of generate, arguments of from_pretrained), if any."""
    if tokenizer.tags == 'target_in_source':
        return f'<{lang}> ', '', ''
    token = tokenizer.language_tokens().get(lang)
    first = forced_first(tokenizer, lang)
    forced = '' if first is None else f', {first_key(tokenizer, notes.objective)}={first}'
    if token is None:
        return None
    if 'source_lang' in tokenizer.source_words:
        tasks = notes.tasks.values()
        sources = [task['source_lang'] for task in tasks if task['target_lang'] == lang]
        source = tokenizer.language_tokens().get(sources[0], 'CODE')
        if tokenizer.family == 'bert':
            return f'{source} ', forced, ''
        return '', forced, f', src_lang={source!r}'
    before = f'{token} ' if 'target_lang' in tokenizer.source_words else ''
    return before, forced, ''
