"""T5, T5 1.1 and mT5 as transformers stores them (T5ForConditionalGeneration and its MT5 twin)."""

from xlbench.huggingface.mapping import Entry
from xlbench.models.t5 import T5Config

MODEL_TYPES = ('t5', 'mt5')
FAMILIES = ('t5', 't5_1_1', 'mt5')

# Old public checkpoints hold a relative bias of cross-attention, which no T5 uses.
IGNORED = (r'decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight',)


def rename(name: str) -> str:
    """The name of a stored tensor as the table below spells it."""
    return name


def names(family: str, config: T5Config) -> dict[str, Entry]:
    """Our parameter -> its tensors. Relative biases are transposed."""
    del family
    tied = ('encoder.embed_tokens.weight', 'decoder.embed_tokens.weight')
    if config.tied_embeddings:
        tied = (*tied, 'lm_head.weight')
    table = {'token_embedder/embedding': Entry(('shared.weight',), tied=tied)}
    if not config.tied_embeddings:
        table['logits_dense/kernel'] = Entry(('lm_head.weight',))
    attentions = {
        'encoder': {'attention': 'SelfAttention'},
        'decoder': {
            'self_attention': 'SelfAttention',
            'encoder_decoder_attention': 'EncDecAttention',
        },
    }
    depths = {'encoder': config.num_encoder_layers, 'decoder': config.num_decoder_layers}
    for stack, depth in depths.items():
        bias = f'{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight'
        table[f'{stack}/relpos_bias/rel_embedding'] = Entry((bias,), form='transposed')
        table[f'{stack}/{stack}_norm/scale'] = Entry((f'{stack}.final_layer_norm.weight',))
        for i in range(depth):
            ours, theirs = f'{stack}/layers_{i}', f'{stack}.block.{i}.layer'
            for j, (name, their_name) in enumerate(attentions[stack].items()):
                norm = name.replace('encoder_decoder', 'cross')
                q, k, v, o = (f'{theirs}.{j}.{their_name}.{x}.weight' for x in 'qkvo')
                table[f'{ours}/pre_{norm}_layer_norm/scale'] = Entry(
                    (f'{theirs}.{j}.layer_norm.weight',)
                )
                if name == 'encoder_decoder_attention':
                    table[f'{ours}/{name}/query/kernel'] = Entry((q,))
                    table[f'{ours}/{name}/kv/kernel'] = Entry((k, v))
                else:
                    table[f'{ours}/{name}/qkv/kernel'] = Entry((q, k, v))
                table[f'{ours}/{name}/out/kernel'] = Entry((o,))
            mlp = f'{theirs}.{len(attentions[stack])}'
            wi = ('wi_0', 'wi_1') if config.gated_mlp else ('wi',)
            wi = tuple(f'{mlp}.DenseReluDense.{x}.weight' for x in wi)
            table[f'{ours}/pre_mlp_layer_norm/scale'] = Entry((f'{mlp}.layer_norm.weight',))
            table[f'{ours}/mlp/wi/kernel'] = Entry(wi)
            table[f'{ours}/mlp/wo/kernel'] = Entry((f'{mlp}.DenseReluDense.wo.weight',))
    return table
