"""How transformers names the tensors and the keys of each kind of encoder: a row of `KINDS`."""

import dataclasses
from collections.abc import Mapping

from xlbench.system.files import Json

LAST = {'classifier': 'classifier'}  # A head but for the layer over a text.


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of encoder.

    Attributes:
      name: for messages.
      classes: what the names of its classes in transformers begin with.
      base: the encoder's name below a head.
      top: our parts outside the layers -> their tensors, see mapping.table.
      layers: stands before the tensors of a layer, whose number is {i}.
      layer: our parts of a layer -> their tensors; those of `cross_attention` are a decoder's.
      head: those over a text, where there is no pooler; {} where heads cannot be written.
      keys: our field -> the key of config.json with the same meaning.
      defaults: of keys that files may leave out, as transformers has them.
      fixed: keys with the only value that our model has.
      fields: of ours that no key says.
      form: fields that transformers' class has at these values alone.
      dropout: the key of a head's dropout rate, and the rate without it; None: the encoder's.
      special: ids that config.json names.
    """

    name: str
    classes: str
    base: str
    top: Mapping[str, str]
    layers: str
    layer: Mapping[str, str]
    head: Mapping[str, str]
    keys: Mapping[str, str]
    defaults: Mapping[str, Json]
    fixed: Mapping[str, Json]
    fields: Mapping[str, int | bool | str] = dataclasses.field(default_factory=dict)
    form: Mapping[str, float | bool] = dataclasses.field(default_factory=dict)
    dropout: tuple[str, float | None] = ('classifier_dropout', None)
    special: tuple[str, ...] = ('pad_token_id',)


BERT = Kind(
    'a BERT',
    'Bert',
    'bert.',
    top={
        'embeddings_norm': 'embeddings.LayerNorm',
        'token_embedder': 'embeddings.word_embeddings',
        'position_embedder': 'embeddings.position_embeddings',
        'type_embedder': 'embeddings.token_type_embeddings',
    },
    layers='encoder.layer.{i}.',
    layer={
        'attention/qkv': 'attention.self.query attention.self.key attention.self.value',
        'attention/out': 'attention.output.dense',
        'attention_norm': 'attention.output.LayerNorm',
        'cross_attention/query': 'crossattention.self.query',
        'cross_attention/kv': 'crossattention.self.key crossattention.self.value',
        'cross_attention/out': 'crossattention.output.dense',
        'cross_attention_norm': 'crossattention.output.LayerNorm',
        'mlp/wi': 'intermediate.dense',
        'mlp/wo': 'output.dense',
        'mlp_norm': 'output.LayerNorm',
    },
    head={'dense': 'classifier.dense', 'classifier': 'classifier.out_proj'},
    keys={
        'vocab_size': 'vocab_size',
        'emb_dim': 'hidden_size',
        'num_heads': 'num_attention_heads',
        'mlp_dim': 'intermediate_size',
        'num_layers': 'num_hidden_layers',
        'type_vocab_size': 'type_vocab_size',
        'norm_epsilon': 'layer_norm_eps',
        'dropout_rate': 'hidden_dropout_prob',
        'attention_dropout_rate': 'attention_probs_dropout_prob',
    },
    defaults={
        'max_position_embeddings': 512,
        'type_vocab_size': 2,
        'layer_norm_eps': 1e-12,
        'hidden_dropout_prob': 0.1,
        'attention_probs_dropout_prob': 0.1,
    },
    fixed={'hidden_act': 'gelu', 'position_embedding_type': 'absolute'},
    special=('pad_token_id', 'bos_token_id', 'eos_token_id'),
)
ROBERTA = dataclasses.replace(BERT, classes='XLMRoberta', base='roberta.')
KINDS = {
    'bert': BERT,
    'roberta': ROBERTA,
    'xlm-roberta': ROBERTA,
    'xlm': Kind(
        'an XLM',
        'XLM',
        'transformer.',
        top={
            'token_embedder': 'embeddings',
            'position_embedder': 'position_embeddings',
            'embeddings_norm': 'layer_norm_emb',
            'language_embedder': 'lang_embeddings',
        },
        layers='',
        layer={
            'attention/qkv': ' '.join(f'attentions.{{i}}.{x}_lin' for x in 'qkv'),
            'attention/out': 'attentions.{i}.out_lin',
            'attention_norm': 'layer_norm1.{i}',
            'mlp/wi': 'ffns.{i}.lin1',
            'mlp/wo': 'ffns.{i}.lin2',
            'mlp_norm': 'layer_norm2.{i}',
        },
        head={},
        keys={
            'vocab_size': 'vocab_size',
            'emb_dim': 'emb_dim',
            'num_heads': 'n_heads',
            'num_layers': 'n_layers',
            'max_positions': 'max_position_embeddings',
            'norm_epsilon': 'layer_norm_eps',
            'dropout_rate': 'dropout',
            'attention_dropout_rate': 'attention_dropout',
        },
        defaults={
            'max_position_embeddings': 512,
            'layer_norm_eps': 1e-12,
            'dropout': 0.1,
            'attention_dropout': 0.1,
            'n_langs': 1,
            'use_lang_emb': True,
        },
        fixed={'gelu_activation': True, 'causal': False, 'asm': False, 'is_encoder': True},
        fields=dict(variant='xlm', type_vocab_size=0, position_offset=0, has_pooler=False),
        form=dict(position_offset=0),
        special=BERT.special,
    ),
    'distilbert': Kind(
        'a DistilBERT',
        'DistilBert',
        'distilbert.',
        top={name: tensor for name, tensor in BERT.top.items() if name != 'type_embedder'},
        layers='transformer.layer.{i}.',
        layer={
            'attention/qkv': ' '.join(f'attention.{x}_lin' for x in 'qkv'),
            'attention/out': 'attention.out_lin',
            'attention_norm': 'sa_layer_norm',
            'mlp/wi': 'ffn.lin1',
            'mlp/wo': 'ffn.lin2',
            'mlp_norm': 'output_layer_norm',
        },
        head={'dense': 'pre_classifier', **LAST},  # Layer and ReLU in place of the pooler's tanh.
        keys={
            'vocab_size': 'vocab_size',
            'emb_dim': 'dim',
            'mlp_dim': 'hidden_dim',
            'num_heads': 'n_heads',
            'num_layers': 'n_layers',
            'max_positions': 'max_position_embeddings',
            'dropout_rate': 'dropout',
            'attention_dropout_rate': 'attention_dropout',
        },
        defaults={'max_position_embeddings': 512, 'dropout': 0.1, 'attention_dropout': 0.1},
        fixed={'activation': 'gelu', 'sinusoidal_pos_embds': False},
        fields=dict(variant='distilbert', type_vocab_size=0, position_offset=0, has_pooler=False),
        form=dict(has_pooler=False, norm_epsilon=1e-12),
        dropout=('seq_classif_dropout', 0.2),
    ),
    'deberta-v2': Kind(
        'a DeBERTa v3',
        'DebertaV2',
        'deberta.',
        top={
            'embeddings_norm': 'embeddings.LayerNorm',
            'distance_norm': 'encoder.LayerNorm',
            'token_embedder': 'embeddings.word_embeddings',
            'distance_embedder': 'encoder.rel_embeddings',
        },
        layers=BERT.layers,
        layer={name: tensors for name, tensors in BERT.layer.items() if name[:5] != 'cross'}
        | {'attention/qkv': BERT.layer['attention/qkv'].replace(' ', '_proj ') + '_proj'},
        head={'dense': 'pooler.dense', **LAST},  # transformers' ContextPooler: layer and GELU.
        keys={name: key for name, key in BERT.keys.items() if name != 'type_vocab_size'}
        | {'max_positions': 'max_position_embeddings', 'relpos_buckets': 'position_buckets'},
        defaults={
            'max_position_embeddings': 512,
            'layer_norm_eps': 1e-7,
            'hidden_dropout_prob': 0.1,
            'attention_probs_dropout_prob': 0.1,
        },
        fixed={
            'hidden_act': 'gelu',
            'relative_attention': True,
            'position_biased_input': False,
            'share_att_key': True,
            'norm_rel_ebd': 'layer_norm',
            'type_vocab_size': 0,
            'pooler_hidden_act': 'gelu',
            'conv_kernel_size': 0,
        },
        fields=dict(variant='deberta-v2', type_vocab_size=0, has_pooler=False),
        form=dict(has_pooler=False),
        dropout=('cls_dropout', None),
    ),
}
