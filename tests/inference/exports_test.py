"""Exported folders: AutoTokenizer's ids and PyTorch's texts are those of the run."""

import functools
import importlib.util
import json
import math
import re
import shutil
import unicodedata

import edits
import encoder_folders
import huggingface_hub
import jax
import numpy as np
import pytest
import tiny_replies
import tokenizer_files
import workdir_files
from flax import traverse_util
from nightly import nightly

from xlbench import config as config_lib, convert, predict, runs
from xlbench.data import tokenizers
from xlbench.evaluators.generation import Example
from xlbench.huggingface import checkpoint as hf_checkpoint, sentence_files
from xlbench.inference import exported
from xlbench.reporting import results
from xlbench.system.errors import UserError
from xlbench.training import checkpoints

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec('torch') is None, reason='needs PyTorch, which the lock does not have'
)
LANGS = ('de', 'fr')
LENGTHS = {'inputs': 32, 'targets': 12}
SENTENCES = tokenizer_files.SENTENCES
# Every language and every trap, and the same decomposed, which SentencePiece composes again.
TEXTS = (
    *tokenizer_files.TEXTS,
    *(unicodedata.normalize('NFD', text) for text in SENTENCES.values()),
    *(unicodedata.normalize('NFKD', text) for text in SENTENCES.values()),
    'ﾊﾟｿｺﾝ ｶﾞｷﾞ ㄱㅏㄴ ㅋㅋㅋ 각 ｅ\u0301 e\u0302\u0301 o\u0302\u0323 a\u0327\u0301',
    '\u3000 beginning\u3000and end \u00a0',
    '\u0301first \u0301 mark',
    '\ufdd0 \ufdd2\ufdd3 \ufdd4 \U000f0000',
)


def vocabulary(folder, kind):
    """What a user names as the vocabulary of a run."""
    spm = {
        'unigram': dict(symbols=('<de>', '<fr>', '<answer>'), size=1500),
        'bpe': dict(symbols=('<de>', '<fr>'), size=2500, model_type='bpe'),
        'plain bpe': dict(size=2500, model_type='bpe'),
    }
    path = folder / f'{kind}.model'
    if kind in spm:
        path.write_bytes(tokenizers.train_sentencepiece([*SENTENCES.values()] * 3, **spm[kind]))
        return str(path)
    if kind.startswith('spm '):
        _, normalizer, *more = kind.split()
        options = dict(byte_fallback='bytes' in more, symbols=('<DE>', 'ＡＢ'))
        path.write_bytes(tokenizer_files.sentencepiece_model('t5', normalizer, **options))
        return str(path)
    configs = {'bert-mrs': {'words': 'mrs'}, 'xlm': {'lang2id': {'de': 0, 'en': 1, 'fr': 2}}}
    family = 'bert-cased' if kind == 'bert-mrs' else kind
    return tokenizer_files.write(folder / kind, family, config=configs.get(kind))


FAMILY_OF = {
    'unigram': 't5', 'bpe': 'mt5', 'plain bpe': 'bart', 'pegasus': 'pegasus', 'mbart25': 'mbart',
    'mbart50': 'mbart', 'unicoder': 'bart', 'xlm-roberta': 'encoder_decoder',
    'roberta': 'encoder_decoder', 'bert-cased': 'encoder_decoder', 'bert-mrs': 'encoder_decoder',
    'bart': 'bart', 'marian-multilingual': 'marian', 'marian': 'marian', 't5': 't5_1_1',
    'mt5': 'mt5',
}  # fmt: skip


def write_run(folder, kind, family=None, langs=LANGS, **fields):
    """The workdir of a run of 0 steps, every parameter random and large enough to make texts."""
    spec = vocabulary(folder, kind)
    tokenizer = tokenizers.load(spec, '')
    family = family or FAMILY_OF.get(kind, 't5')
    sizes = dict(emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32, dropout_rate=0.0)
    if kind in ('xlm-roberta', 'roberta'):
        fields |= dict(position_offset=2, type_vocab_size=1)
    block = {'family': family, 'size': 'sample', **sizes, 'vocab_size': 0, **fields}
    if family == 'marian':
        block['vocab_size'] = tokenizer.num_pieces  # transformers' class decodes no others.
    if family == 'marian' and not tokenizer.languages():
        langs = ('de',)
    tasks = {
        f'mtg_tg_en_{lang}': {'source_lang': 'en', 'target_lang': lang, 'trained': True}
        for lang in langs
    }
    # Without a rule such a model repeats one word.
    final = {
        'every': 0, 'tasks': list(tasks), 'lengths': LENGTHS, 'decoding': {'no_repeat_ngram': 1}
    }  # fmt: skip
    config = {
        'seed': 0, 'data': {'root': '', 'vocabulary': spec, 'sample': False}, 'model': block,
        'init_from': '', 'lora': {'rank': 0}, 'objective': {'name': 'generation'},
        'stages': {'stage1': {}}, 'evals': {'test': final},
    }  # fmt: skip
    workdir = folder / 'run'
    workdir.mkdir()
    about = {'config': config, 'tasks': tasks, 'vocabulary': tokenizer.manifest()}
    (workdir / 'config.json').write_text(json.dumps(about))
    tokenizers.copy_files(spec, '', workdir)
    model = runs.build_model(config_lib.read_config(str(workdir)).model, tokenizer.vocab_size)
    rng = np.random.default_rng(0)
    params = {}
    for path, box in hf_checkpoint.boxed_params(model).items():
        params[path] = rng.normal(size=box.value.shape).astype(np.float32)
        params[path] *= 1.0 if 'embed' in path else 0.6
        if path.endswith('scale'):
            params[path] = np.ones_like(params[path])
        if path == 'final_logits_bias':
            params[path] *= 0
    checkpoints.save_params(str(workdir), 0, traverse_util.unflatten_dict(params, sep='/'))
    return workdir


@functools.cache
def auto_tokenizer(folder, **options):
    import transformers

    return transformers.AutoTokenizer.from_pretrained(folder, **options)


def export(workdir):
    folder = workdir.parent / 'exported'
    convert.main(['convert', str(workdir), str(folder)])
    return folder


def mark_of(folder, lang):
    """(text before the input, arguments of generate, arguments of from_pretrained) in the card."""
    lines = (folder / 'README.md').read_text().splitlines()
    (row,) = [line for line in lines if line.startswith(f'| {lang} |')]
    before, written = (cell.strip() for cell in row.split('|')[2:4])
    before = before.strip('`')
    parts = [part.split('=') for part in written.replace('`', '').split(',') if '=' in part]
    options = {name.strip(): eval(value) for name, value in parts}
    keys = ('forced_bos_token_id', 'decoder_start_token_id')
    forced = {k: v for k, v in options.items() if k in keys}
    return before, forced, {k: v for k, v in options.items() if k not in forced}


@pytest.mark.parametrize(
    'kind',
    ['unigram', 'bpe', 'spm nfkc bytes', 'bert-mrs', *nightly('spm nmt_nfkc_cf', 'pegasus')],
)
def test_ids_are_those_of_training(tmp_path, kind):
    workdir = write_run(tmp_path, kind, 't5')
    folder = export(workdir)
    ours = tokenizers.of_workdir(workdir, config_lib.read_about(str(workdir)))
    theirs, again = auto_tokenizer(folder), tokenizers.load(str(folder), '')
    differing = [
        text for text in TEXTS if theirs(text).input_ids != ours.encode_inputs([text])[0].tolist()
    ]
    for text in differing:  # Ties: SentencePiece sums in 32 bits, so that rounding decides.
        one, other = (
            math.fsum(ours._processor.get_score(i) for i in ids)
            for ids in (ours.encode(text).tolist(), theirs(text).input_ids[:-1])
        )
        assert one == pytest.approx(other, rel=1e-7)
    assert len({unicodedata.normalize('NFKC', text) for text in differing}) <= 1
    same = [text for text in TEXTS if text not in differing]
    for one, other in zip(ours.encode_batch(same), again.encode_batch(same), strict=True):
        np.testing.assert_array_equal(one, other)
    for text in same:
        ids = [i for i in ours.encode(text) if i != ours.eos_id]
        assert theirs.decode(ids, skip_special_tokens=True) == ours.decode(ids), text
        assert again.decode(ids) == ours.decode(ids)
    assert (again.pad_id, again.eos_id, again.decoder_start_id) == (
        ours.pad_id, ours.eos_id, ours.decoder_start_id
    )  # fmt: skip


@needs_torch
@pytest.mark.parametrize('kind, family', [*FAMILY_OF.items(), ('unigram', 'encoder_decoder')])
def test_texts_are_those_of_the_run(tmp_path, kind, family):
    """Three ways: the run, the folder with xlbench, the folder as its card says with PyTorch."""
    import transformers

    workdir = write_run(tmp_path, kind, family)
    folder = export(workdir)
    texts = [*[*SENTENCES.values()][::5], '', ' a  b\u3000c ', '</s> <unk> [SEP] and more']
    ours, again = (predict.load(str(path), batch_size=8) for path in (workdir, folder))
    lang = 'de' if kind == 'marian' else LANGS[-1]
    options = {'source_lang': 'en'} if family == 'mbart' else {}
    if kind != 'marian':
        options['target_lang'] = lang
    expected = ours.generate(texts, **options)
    assert again.generate(texts, **options) == expected
    assert len(set(expected)) > 4
    before, forced, loading = mark_of(folder, lang) if kind != 'marian' else ('', {}, {})
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **loading)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    inputs = tokenizer(
        [before + text for text in texts], return_tensors='pt', padding=True, truncation=True
    )
    found = tokenizer.batch_decode(model.generate(**inputs, **forced), skip_special_tokens=True)
    if family == 'marian':  # No special tokens there, which no trained model writes.
        found = [re.sub('>>.*?<<', '', text) for text in found]
    assert [a if text.strip() else '' for a, text in zip(found, texts, strict=True)] == expected


@pytest.mark.parametrize(
    'kind, family', [('bert-cased', 'encoder_decoder'), *nightly(('unigram', 'mt5'))]
)
def test_predict_opens_the_folder(tmp_path, kind, family):
    """With the marks of languages, lengths and decoding of the run, which has to be nowhere."""
    workdir = write_run(tmp_path, kind, family)
    folder = export(workdir)
    texts = [*SENTENCES.values()][::8]
    expected = predict.load(str(workdir), batch_size=8).generate(texts, target_lang='fr')
    shutil.rmtree(workdir)
    model = predict.load(str(folder), batch_size=8)
    assert model.generate(texts, target_lang='fr') == expected
    with pytest.raises(UserError, match="does not know the target language 'es'; allowed: de, fr"):
        model.generate(texts, target_lang='es')
    before, _, _ = mark_of(folder, 'fr')
    assert before == {'unigram': '<fr> ', 'bert-cased': '[unused16] '}[kind]
    for content in ('{', '{"objective": 1}', '{"objective": {}, "lengths": {"inputs": -1}}'):
        (folder / 'xlbench.json').write_text(content)
        with pytest.raises(UserError, match=r'xlbench\.json'):
            predict.load(str(folder))


@pytest.mark.skipif('xlm' not in tokenizer_files.FAMILIES, reason='needs sacremoses')
def test_an_xlm_writes_by_the_languages_that_it_is_told(tmp_path):
    fields = dict(type_vocab_size=0, num_languages=3)
    workdir = write_run(tmp_path, 'xlm', 'encoder_decoder', ('de', 'fr'), **fields)
    model = predict.load(str(workdir), batch_size=8)
    texts = [*SENTENCES.values()][::8]

    def written(**langs):
        return model.generate(texts, **{'source_lang': 'en', 'target_lang': 'de'} | langs)

    told = written()
    assert written(source_lang='fr') != told
    # The mark of the target language in the input is left out, so that the table alone differs.
    mark = model.mark('en', 'de')
    model._marks = {(lang, to): mark for lang in ('en', 'fr') for to in ('de', 'fr')}
    assert written(target_lang='fr') != told == written()


def test_unicoder_keeps_its_own_tokens(tmp_path):
    workdir = write_run(tmp_path, 'unicoder')
    folder = export(workdir)
    texts = [*SENTENCES.values()][::8]
    expected = predict.load(str(workdir), batch_size=8).generate(texts, target_lang='fr')
    again = predict.load(str(folder), batch_size=8)
    assert again.generate(texts, target_lang='fr') == expected
    theirs, ours = auto_tokenizer(str(folder)), tokenizers.load(str(folder), '')
    for text in ('Der Zug.', '[EOS] and </s>'):
        assert theirs(text).input_ids == [*ours.encode(text), ours.eos_id, ours.closing_id]
    start = {'decoder_start_token_id': ours.forced_first('fr')}
    assert mark_of(folder, 'fr')[:2] == ('', start)


def test_the_language_alone_starts_a_decoder(tmp_path):
    """As in krystalan/ClidSum: a run, its export, and a public folder whose config.json says so."""
    workdir = write_run(tmp_path, 'mbart50')
    before = predict.load(str(workdir), batch_size=8)
    start_with_language(workdir)
    folder, texts = export(workdir), [text[:8] for text in SENTENCES.values()][::5]
    ours, again = (predict.load(str(path), batch_size=8) for path in (workdir, folder))
    options = dict(source_lang='en', target_lang='fr')
    expected = ours.generate(texts, **options)
    assert again.generate(texts, **options) == expected != before.generate(texts, **options)
    french = tokenizers.load(str(folder), '').forced_first('fr')
    assert mark_of(folder, 'fr')[1] == {'decoder_start_token_id': french}
    # Without our notes, as the authors of another would publish it.
    with edits.edited(folder / 'generation_config.json') as said:
        said['decoder_start_token_id'] = french
    (folder / 'xlbench.json').unlink()
    public = predict.load(str(folder), batch_size=8)
    options |= dict(no_repeat_ngram=1, max_length=12)
    assert public.generate(texts, **options) == ours.generate(texts, **options)


@pytest.mark.parametrize(
    'kind', ['bart', 'language alone', *nightly('mbart50', 'mbart25', 'unicoder')]
)
def test_given_texts_are_scored_as_they_are_decoded(tmp_path, kind):
    """Only the text and its end count: a forced first token has the probability 1."""
    alone = kind == 'language alone'
    workdir = write_run(tmp_path, 'mbart50' if alone else kind)
    if alone:
        start_with_language(workdir)
    model = predict.load(str(workdir), batch_size=8)
    ids, module = model._tokenizer, model._opened.model
    example = Example('Ein Zug.', None if kind == 'bart' else 'en', 'fr')
    answers, pad = ['Un train.', 'Le train part demain.'], ids.pad_id
    found = model.log_probabilities([example] * 2, answers)
    (source,) = (part for part in model._inputs([example]))
    if kind in ('mbart25', 'unicoder'):
        source = np.roll(source, -1)
    first = ids.forced_first('fr')
    fed = {'bart': [ids.eos_id, ids.bos_id], 'mbart50': [ids.eos_id, first]}.get(kind, [first])
    apply = functools.partial(module.apply, {'params': model._params})
    run = jax.jit(apply, static_argnames='method')
    table, bias = (run(method=f'output_{name}') for name in ('embedding', 'bias'))
    for answer, score in zip(answers, found, strict=True):
        written = [*ids.encode(answer, True).tolist(), ids.eos_id]
        read = np.full((1, 40), pad)  # One length, and so one program, for both.
        read[0, : len(fed) + len(written) - 1] = [*fed, *written[:-1]]
        segments = np.ones((1, len(source)), int)
        hidden = run(source[None], read, encoder_segment_ids=segments, method='hidden')
        logits = np.asarray(hidden[0, len(fed) - 1 :][: len(written)] @ table.T, np.float64) + (
            0 if bias is None else np.asarray(bias)
        )
        nats = np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1)) + logits.max(1)
        expected = sum(logits[np.arange(len(written)), written] - nats)
        assert score == pytest.approx(expected, rel=1e-4)
        assert pad not in written


def test_a_public_bart_forces_what_its_files_say(tmp_path):
    folder = export(write_run(tmp_path, 'bart'))
    (folder / 'xlbench.json').unlink()
    texts = [*SENTENCES.values()][::5]
    found = {}
    for forced in (0, None):
        for name in ('config.json', 'generation_config.json'):
            with edits.edited(folder / name) as said:
                said['forced_bos_token_id'] = forced
        model = predict.load(str(folder), batch_size=8)
        assert model.mark(None, None).forced_first == forced
        found[forced] = model.generate(texts)
    assert found[0] != found[None]


def start_with_language(workdir):
    with edits.edited(workdir / 'config.json') as about:
        about['config']['objective']['decoder_start'] = 'language'


def test_the_card_says_what_was_measured(tmp_path):
    """The library that the hub uses reads its metadata; no path of the machine is in it."""
    workdir = write_run(tmp_path, 'unigram')
    with edits.edited(workdir / 'config.json') as about:
        about |= {
            'data': 'files', 'cwd': '/home/anna', 'git': 'abc123',
            'argv': ['/home/anna/xlbench/train.py', '--config=mtg_mt5', '--workdir=/run'],
            'examples': {'mtg_tg_en_de/train': 120, 'mtg_tg_en_de/test': 3000},
            'manifests': {'mtg_tg_en_de/train': 'b' * 64},
            'initialised_from': 'google/mt5-small (/home/anna/.cache/snapshot)',
        }  # fmt: skip
        about['config'] |= {'init_from': 'google/mt5-small'}
    scores = {'rouge_l': 41.23456, 'bleu': 5.0, 'loss': 2.0}
    step = checkpoints.find_step(str(workdir), 'best')
    for number in (step, step + 1):  # That of another checkpoint is not its own.
        place = workdir / 'eval' / str(number) / 'test'
        for task in ('mtg_tg_en_de', 'mtg_tg_en_fr'):
            workdir_files.write_result(place, task, scores, data='files')
        scores = {'rouge_l': 99.0}
    card = huggingface_hub.ModelCard.load(export(workdir) / 'README.md')
    data = card.data
    assert (data.language, data.library_name) == (['de', 'en', 'fr'], 'transformers')
    assert (data.base_model, data.datasets) == ('google/mt5-small', ['mtg'])
    assert data.license is None  # To be filled in.
    assert data.metrics == ['rouge', 'bleu'] and data.tags == ['xlbench', 'jax']
    found = {(r.dataset_config, r.metric_name): r.metric_value for r in data.eval_results}
    tasks = ('mtg_tg_en_de', 'mtg_tg_en_fr')
    assert found == {(t, s): v for t in tasks for s, v in (('rouge_l', 41.2346), ('bleu', 5.0))}
    # As the hub reads it: the scores of one task are not those of another.
    index = huggingface_hub.repocard_data.eval_results_to_model_index('m', data.eval_results)
    assert len(index[0]['results']) == 2
    _, back = huggingface_hub.repocard_data.model_index_to_eval_results(index)
    assert {(r.dataset_config, r.metric_name): r.metric_value for r in back} == found
    assert data.model_name == 'mtg_mt5'  # Not as the folder is called.
    assert data.eval_results[0].metric_args == {'signature': 'rouge|lang:de|v1'}
    text = (tmp_path / 'exported' / 'README.md').read_text()
    for line in (
        '| mtg_tg_en_de | test | 3000 | rouge_l | 41.23 |',
        '| mtg_tg_en_de/train | 120 | bbbbbbbbbbbb |',
        'python -m xlbench.train --config=mtg_mt5 --workdir=/run',
        '- Texts of more than 32 tokens are cut.',
        '- Nothing was measured in languages other than de, en, fr.',
    ):
        assert line in text.splitlines(), line
    assert 'rouge|lang:de|v1' in text and '99' not in text and '\n# license: ' in text
    assert '/home' not in text and str(tmp_path) not in text
    notes = json.loads((tmp_path / 'exported' / 'xlbench.json').read_text())
    assert notes['run'] == {'config': results.config_hash(about['config']), 'seed': 0, 'step': step}


def test_the_card_of_a_sample_that_was_not_scored(tmp_path):
    workdir = write_run(tmp_path, 'bert-cased', 'sequence_classifier', num_labels=2)
    with edits.edited(workdir / 'config.json') as about:
        about |= {'data': 'sample', 'labels': ['no', 'yes']}
        about['config'] |= {'init_from': 'RUNS/other', 'objective': {'name': 'classification'}}
        about['config'] |= {'stages': {'a': {'mixture': 'news\n```\n# Bought\n<script>'}}}
        free = '--workdir=a\n````\n# Free <b>money</b>'
        about['argv'] = ['xlbench/train.py', '--config=x.py', free]
    folder = export(workdir)
    card = huggingface_hub.ModelCard.load(folder / 'README.md')
    assert card.data.pipeline_tag == 'text-classification' and card.data.eval_results is None
    assert card.data.base_model is None and card.data.datasets is None
    assert 'sample-data' in card.data.tags and 'SAMPLE DATA' in card.text
    assert 'This checkpoint was not evaluated.' in card.text
    # What a downloaded workdir says closes no block of code, and makes no heading and no markup.
    outside = re.sub(r'^(`{3,}).*?^\1$', '', card.text, flags=re.DOTALL | re.MULTILINE)
    assert 'Free' in card.text and 'Free' not in outside and '<b>' not in outside
    assert not re.search(r'^# Bought|<script>', outside, re.MULTILINE)


@pytest.mark.parametrize('shared', [True, False])
def test_sentence_encoders(tmp_path, replies_root, shared):
    """A retriever suggests the same from its exported folder; vectors are those of the card."""
    config = tiny_replies.tiny_config(replies_root, model__shared=shared)
    tiny_replies.write_run(tmp_path / 'run', config)
    runs.copy_inputs(config, runs.build(config), str(tmp_path / 'run'))
    folder = export(tmp_path / 'run')
    library = huggingface_hub.ModelCard.load(folder / 'README.md').data.library_name
    assert library == ('sentence-transformers' if shared else 'transformers')
    messages, replies = ['magst du Tee', 'wie ist es heute mit Regen'], ['ich liebe Tee', 'kein']
    ours, again = (predict.load(str(p), batch_size=8) for p in (tmp_path / 'run', folder))
    for lang in tiny_replies.LANGS:
        assert again.suggest(messages, lang) == ours.suggest(messages, lang)
    if not shared:  # Two encoders alone, as another program may have written them.
        (folder / exported.NOTES).rename(tmp_path / 'notes')
        (tmp_path / 'replies.txt').write_text('ich liebe Tee\nkein\n')
        bare = predict.load(str(folder), responses=str(tmp_path / 'replies.txt'), batch_size=8)
        assert len(bare.suggest(messages, count=2)[0]) == 2
        (tmp_path / 'notes').rename(folder / exported.NOTES)
    relevance = ours.relevance(messages, replies)
    np.testing.assert_allclose(again.relevance(messages, replies), relevance, rtol=1e-6)
    sides = ('', '') if shared else ('left', 'right')
    for side in sides:  # As sentence-transformers has them.
        _, about = sentence_files.read(folder / side)
        cfg = ours._opened.model.config
        assert (about['pooling'], about['normalize']) == (cfg.pooling, cfg.normalize)
    tokenizer = tokenizers.load('sample', str(replies_root))
    for side, texts in zip(sides, (messages, replies), strict=True):
        found = auto_tokenizer(folder / side)(texts).input_ids
        assert found == [ids.tolist() for ids in tokenizer.encode_inputs(texts)]
    if importlib.util.find_spec('torch') is None:
        return
    vectors = []
    for side, texts in zip(sides, (messages, replies), strict=True):
        code = (folder / 'README.md').read_text().partition('```python\n')[2].partition('```')[0]
        place = next(line for line in code.splitlines() if line.startswith('folder = '))
        code = code.replace(place, f'folder = {str(folder / side)!r}')
        names: dict = {}
        exec(code.replace("['A text.']", repr(texts)), names)
        vectors.append(names['vectors'].detach().numpy())
    scale = ours._opened.objective.scale
    np.testing.assert_allclose(
        scale * np.einsum('nd,nd->n', *vectors), relevance, rtol=1e-4, atol=1e-5
    )


def test_a_folder_of_sentence_transformers_is_a_retriever(tmp_path):
    """Its prompts stand before messages and replies, as whoever wrote it trained it."""
    folder = encoder_folders.make_sentences(encoder_folders.write(tmp_path / 'encoder'))
    (tmp_path / 'replies.txt').write_text('Um drei.\nIm Garten.\nGern!\n')
    model = predict.load(folder, responses=str(tmp_path / 'replies.txt'), batch_size=8)
    cfg = model._opened.model.config
    assert (cfg.left_prompt, cfg.right_prompt) == ('query: ', 'passage: ')
    assert cfg.left_prefix and cfg.right_prefix and cfg.left_prefix != cfg.right_prefix
    assert {s.text for s in model.suggest(['Wo ist Anna?'], count=3)[0]} == {
        'Um drei.', 'Im Garten.', 'Gern!',
    }  # fmt: skip


@pytest.mark.parametrize(
    'change',
    [
        {'objective': {'name': 'generation', 'colour': 3}},
        {'objective': {'name': 'painting'}},
        {'objective': {'name': 'generation', 'z_loss': 'much'}},
        {'objective': {'name': []}},
        {'lengths': {'inputs': 8}},
        {'lengths': {'inputs': 8, 'targets': 0}},
        {'decoding': {'num_beam': 4}},
        {'decoding': {'num_beams': '4'}},
        {'tasks': {'a': {}}},
        {'tasks': {'a': {'trained': True, 'target_lang': 7}}},
        {'evaluation': {'tasks': 'a'}},
        {'evaluation': {'lengths': []}},
        {'model': []},
    ],
)
def test_strange_notes_are_one_line(tmp_path, change):
    notes = exported.Notes(
        {'name': 'generation', 'z_loss': 0.1}, {'inputs': 8, 'targets': 8}, {'num_beams': 4},
        {'a': {'trained': True, 'source_lang': 'de', 'target_lang': None, 'texts': 1}},
        evaluation={'tasks': ['a'], 'split': 'test', 'responses': 'responses'},
    )  # fmt: skip
    notes.write(tmp_path)
    assert exported.Notes.read(tmp_path) == notes
    with edits.edited(tmp_path / exported.NOTES) as content:
        content |= change
    with edits.refused(r'xlbench\.json|config\.objective'):
        exported.Notes.read(tmp_path)
