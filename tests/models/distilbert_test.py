"""DistilBERT: a folder with the names of transformers computes what a BERT of its weights does."""

import json

import encoder_folders
import jax
import msgspec
import numpy as np
import pytest
import safetensors.numpy

from xlbench import config as config_lib, convert, models
from xlbench.huggingface import checkpoint, described, mapping
from xlbench.models import bert, families
from xlbench.system.errors import UserError

SIZES = dict(dim=16, hidden_dim=24, n_heads=2, n_layers=2, max_position_embeddings=20)
CONFIG = dict(model_type='distilbert', vocab_size=50, activation='gelu', pad_token_id=0, **SIZES)
OTHERS = dict(  # Of one layer: our name of the BERT's tensor -> DistilBERT's.
    attention__self__query='attention.q_lin', attention__self__key='attention.k_lin',
    attention__self__value='attention.v_lin', attention__output__dense='attention.out_lin',
    attention__output__LayerNorm='sa_layer_norm', intermediate__dense='ffn.lin1',
    output__dense='ffn.lin2', output__LayerNorm='output_layer_norm',
)  # fmt: skip


def folders(where, architecture='DistilBertForMaskedLM', **labels):
    """A DistilBERT, and a BERT with the same weights and types that are all zero."""
    rng = np.random.default_rng(0)
    theirs, bert = {}, {}

    def both(name, other, *shape):
        values = rng.normal(size=shape).astype(np.float32)
        theirs[f'distilbert.{name}'] = bert[f'bert.{other or name}'] = values

    both('embeddings.word_embeddings.weight', '', 50, 16)
    both('embeddings.position_embeddings.weight', '', 20, 16)
    for kind in ('weight', 'bias'):
        both(f'embeddings.LayerNorm.{kind}', '', 16)
        for layer in range(2):
            for other, name in OTHERS.items():
                into, out = {'ffn.lin1': (16, 24), 'ffn.lin2': (24, 16)}.get(name, (16, 16))
                vector = kind == 'bias' or 'norm' in name
                both(
                    f'transformer.layer.{layer}.{name}.{kind}',
                    f'encoder.layer.{layer}.{other.replace("__", ".")}.{kind}',
                    *((out,) if vector else (out, into)),
                )
    bert['bert.embeddings.token_type_embeddings.weight'] = np.zeros((2, 16), np.float32)
    heads = {'vocab_transform': (16, 16), 'pre_classifier': (16, 16), 'classifier': (3, 16)}
    for name, shape in heads.items():
        theirs[f'{name}.weight'] = rng.normal(size=shape).astype(np.float32)
        theirs[f'{name}.bias'] = rng.normal(size=shape[:1]).astype(np.float32)
    like = dict(
        model_type='bert', vocab_size=50, hidden_size=16, intermediate_size=24,
        num_attention_heads=2, num_hidden_layers=2, max_position_embeddings=20,
    )  # fmt: skip
    for name, tensors, config in (
        ('distilbert', theirs, CONFIG | {'architectures': [architecture], **labels}),
        ('bert', bert, like | {'architectures': ['BertForMaskedLM']}),
    ):
        (where / name).mkdir()
        safetensors.numpy.save_file(tensors, where / name / 'model.safetensors')
        (where / name / 'config.json').write_text(json.dumps(config))
    return checkpoint.open(str(where / 'distilbert')), checkpoint.open(str(where / 'bert')), theirs


def states(source, **fields):
    model = models.build(**source.model | fields)
    tokens = np.array([[2, 7, 9, 3, 0, 0], [2, 11, 12, 13, 14, 3]])
    params = {'params': checkpoint.load_params(source)}
    return np.asarray(jax.jit(model.apply)(params, tokens, (tokens > 0).astype(int)))


def test_hidden_states_are_those_of_a_bert_without_types(tmp_path):
    found, bert, _ = folders(tmp_path)
    assert (found.family, found.model['variant']) == ('bert', 'distilbert')
    np.testing.assert_allclose(states(found), states(bert), rtol=2e-5, atol=2e-5)


def test_the_head_over_a_text_has_a_relu(tmp_path):
    head = dict(architecture='DistilBertForSequenceClassification')
    found, bert, tensors = folders(tmp_path, **head, id2label={'0': 'a', '1': 'b', '2': 'c'})
    assert (found.family, checkpoint.labels(found)) == ('sequence_classifier', ('a', 'b', 'c'))
    x = states(bert)[:, 0]
    x = np.maximum(x @ tensors['pre_classifier.weight'].T + tensors['pre_classifier.bias'], 0)
    expected = x @ tensors['classifier.weight'].T + tensors['classifier.bias']
    np.testing.assert_allclose(states(found), expected, rtol=1e-4, atol=1e-4)


# Variant -> (vocabulary, its file, fields of the config).
VARIANTS = {
    'distilbert': ('bert-cased', 'vocab.txt', {}),
    'deberta-v2': ('deberta-v2', 'spm.model', dict(relpos_buckets=8, norm_epsilon=1e-7)),
    'xlm': ('xlm', '', dict(num_languages=3, mlp_dim=64)),
}


@pytest.mark.parametrize('variant', VARIANTS)
def test_a_folder_describes_the_model_of_a_config(tmp_path, variant):
    vocabulary, _, fields = VARIANTS[variant]
    fields = dict(variant=variant, type_vocab_size=0) | fields
    folder = encoder_folders.write(tmp_path / 'one', vocabulary, **fields)
    for config, family in (
        ('fewshot_source.py:encoder', 'token_classifier'),
        ('fewshot_source.py:encoder,task=xnli', 'sequence_classifier'),
        ('xpersona.py:encoder', 'dual_encoder'),
    ):
        argv = ['train', f'--config=configs/{config}', f'--config.model.from={folder}']
        read, *_ = config_lib.parse_command(argv)
        labels = {} if family == 'dual_encoder' else {'num_labels': 3}
        model = models.config(**{**read.model, 'vocab_size': 99} | labels)
        assert (read.model.family, model.variant) == (family, variant)
        # Of the three, XLM's classifier of texts alone has a layer before it.
        assert model.has_pooler == ((variant, family) == ('xlm', 'sequence_classifier'))
        assert (model.type_vocab_size, model.num_languages) == (0, fields.get('num_languages', 0))
        assert read.data.vocabulary == folder


def test_distances_have_the_buckets_of_transformers():
    far = [127, 128, 129, 170, 200, 216, 303, 400, 511]
    found = bert.distance_buckets(1024, 256, 512)
    expected = 256 + np.array([127, 128, 129, 155, 169, 177, 208, 233, 255])
    np.testing.assert_array_equal(found[far, 0], expected)
    np.testing.assert_array_equal(found[0, far], 512 - expected)


def test_variants_follow_from_configs_of_earlier_versions():
    sizes = {'mbert': 'bert', 'xlmr_base': 'roberta', 'xlm_100': 'xlm', 'distilmbert': 'distilbert'}
    for size, variant in sizes.items():
        assert models.config('bert', size).variant == variant
    assert models.config('bert', 'mbert', type_vocab_size=0).variant == 'xlm'
    pooled = [models.config('sequence_classifier', size).has_pooler for size in sizes]
    assert pooled == [True, False, True, False]


@pytest.mark.parametrize('variant', ['distilbert', 'deberta-v2'])
def test_an_export_is_read_by_the_class_of_transformers(tmp_path, variant):
    """Which takes no types: there and back, and the tokeniser gives none."""
    vocabulary, file, fields = VARIANTS[variant]
    folder = encoder_folders.write(
        tmp_path / 'one', vocabulary, variant=variant, type_vocab_size=0, **fields
    )
    convert.main(['convert', folder, str(tmp_path / 'run')])
    convert.main(['convert', str(tmp_path / 'run'), str(tmp_path / 'two')])
    for name in ('config.json', 'model.safetensors', file):
        assert (tmp_path / 'two' / name).read_bytes() == (tmp_path / 'one' / name).read_bytes()
    about = json.loads((tmp_path / 'two' / 'tokenizer_config.json').read_text())
    assert about['model_input_names'] == ['input_ids', 'attention_mask']


def test_what_is_not_supported_is_told(tmp_path):
    for change in ({'sinusoidal_pos_embds': True}, {'activation': 'relu'}):
        with pytest.raises(UserError, match=f'config.json: {next(iter(change))} is'):
            mapping.fields(CONFIG | change)
    source, _, _ = folders(tmp_path)
    config = models.config(**source.model)
    with pytest.raises(UserError, match='transformers has no encoder_decoder of this form'):
        checkpoint.save(tmp_path / 'x', 'encoder_decoder', config, {}, {'pad_id': 0}, ())


def test_a_variant_is_two_rows(tmp_path, monkeypatch):
    """As DistilBERT's are, under another name."""
    like = mapping.KINDS['distilbert']
    fields = dict(like.fields) | {'variant': 'minibert'}
    kind = msgspec.structs.replace(like, classes='MiniBert', base='minibert.', fields=fields)
    monkeypatch.setitem(mapping.KINDS, 'minibert', kind)
    row = families.ModelType('bert', 'bert', head='relu', types=False)
    monkeypatch.setitem(families.MODEL_TYPES, 'minibert', row)
    fields = dict(variant='minibert', type_vocab_size=0)
    folder = encoder_folders.write(tmp_path / 'one', 'bert-cased', **fields)
    assert checkpoint.open(folder).config['model_type'] == 'minibert'
    assert described.describe(folder).model['variant'] == 'minibert'
    convert.main(['convert', folder, str(tmp_path / 'run')])
    convert.main(['convert', str(tmp_path / 'run'), str(tmp_path / 'two')])
    for name in ('config.json', 'model.safetensors', 'vocab.txt'):
        assert (tmp_path / 'two' / name).read_bytes() == (tmp_path / 'one' / name).read_bytes()
