"""The sizes of every model, a row each: fields of its family's config, with their source.

No jax is imported here, so that a misspelt size is answered at once.
"""

from xlbench.models.families import MODEL_TYPES, Fields, variant_of


def _t5_sizes(*rows: tuple, **variant) -> dict[str, Fields]:
    fields = ('emb_dim', 'num_heads', 'head_dim', 'mlp_dim', 'num_encoder_layers')
    table = {}
    for name, *numbers in rows:
        row = dict(zip(fields, numbers, strict=False)) | variant
        table[name] = row | {'num_decoder_layers': numbers[-1]}
    return table


_T5_SAMPLE = ('sample', 128, 4, 32, 256, 2)  # Ours: learns the sample corpora in minutes on a CPU.
# T5 1.1: huggingface.co/google/t5-v1_1-{small,...,xxl} config.json; mT5 has the same (its table 1).
_V1_1 = (
    _T5_SAMPLE,
    ('small', 512, 6, 64, 1024, 8),
    ('base', 768, 12, 64, 2048, 12),
    ('large', 1024, 16, 64, 2816, 24),
    ('xl', 2048, 32, 64, 5120, 24),
    ('xxl', 4096, 64, 64, 10240, 24),
)


def _stacks(emb_dim: int, num_heads: int, mlp_dim: int, num_layers: int, **more) -> Fields:
    return dict(
        emb_dim=emb_dim,
        num_heads=num_heads,
        head_dim=emb_dim // num_heads,
        mlp_dim=mlp_dim,
        num_encoder_layers=num_layers,
        num_decoder_layers=num_layers,
        **more,
    )


def _with(sizes: dict[str, Fields], **same) -> dict[str, Fields]:
    return {size: same | fields for size, fields in sizes.items()}


_BART_SAMPLE = _stacks(128, 4, 256, 2)  # Ours: learns the sample corpora in minutes on a CPU.
_BART_LARGE = _stacks(1024, 16, 4096, 12)
_TRANSFORMER_BASE = _stacks(512, 8, 2048, 6)  # arXiv:1706.03762, table 3.


def _stack(vocab_size: int, emb_dim: int, num_heads: int, num_layers: int, **more) -> Fields:
    sizes = dict(
        vocab_size=vocab_size,
        emb_dim=emb_dim,
        num_heads=num_heads,
        head_dim=emb_dim // num_heads,
        mlp_dim=4 * emb_dim,
        num_layers=num_layers,
        max_positions=512,
    )
    return sizes | more


_XLM = dict(variant='xlm', type_vocab_size=0, has_pooler=False)
_DISTILBERT = _XLM | dict(variant='distilbert')
_DEBERTA = _XLM | dict(variant='deberta-v2', relpos_buckets=256, norm_epsilon=1e-7)
_ROBERTA = dict(position_offset=2, type_vocab_size=1, norm_epsilon=1e-5)


def _gpt2(emb_dim: int, num_heads: int, num_layers: int, **more) -> Fields:
    return _stack(50257, emb_dim, num_heads, num_layers, **{'max_positions': 1024} | more)


def _llama(
    vocab_size: int,
    emb_dim: int,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    mlp_dim: int,
    num_layers: int,
    **more,
) -> Fields:
    fields = _stack(vocab_size, emb_dim, num_heads, num_layers, mlp_dim=mlp_dim, head_dim=head_dim)
    return fields | dict(num_kv_heads=num_kv_heads, max_positions=8192) | more


_LLAMA_3_2 = dict(
    max_positions=131072, norm_epsilon=1e-5, rope_theta=500000.0, rope_form='llama3',
    rope_factor=32.0,
)  # fmt: skip
_QWEN = dict(max_positions=32768, rope_theta=1000000.0)
_QWEN3 = _QWEN | dict(max_positions=40960)
_GEMMA2 = dict(
    query_scale=256, attention_softcap=50.0, logits_softcap=30.0, window=4096, full_every=2
)
_GEMMA3 = dict(
    query_scale=256, window=512, full_every=6, rope_theta=1000000.0, local_rope_theta=10000.0,
    max_positions=32768,
)  # fmt: skip


_GPT2_SMALL, _GPT2_MEDIUM = _gpt2(768, 12, 12), _gpt2(1024, 16, 24)
_GPT2_LARGE = _gpt2(1280, 20, 36)

# SIZES[family][size].
SIZES: dict[str, dict[str, Fields]] = {
    # arXiv:1910.10683 section 3.6; huggingface.co/google-t5/t5-{small,...,11b} config.json.
    't5': _t5_sizes(
        _T5_SAMPLE,
        ('small', 512, 8, 64, 2048, 6),
        ('base', 768, 12, 64, 3072, 12),
        ('large', 1024, 16, 64, 4096, 24),
        ('3b', 1024, 32, 128, 16384, 24),
        ('11b', 1024, 128, 128, 65536, 24),
        vocab_size=32128,
    ),
    't5_1_1': _t5_sizes(*_V1_1, vocab_size=32128)
    # ByT5, arXiv:2105.13626 table 1; huggingface.co/google/byt5-{small,...,xxl} config.json.
    | _t5_sizes(
        ('byt5_small', 1472, 6, 64, 3584, 12, 4),
        ('byt5_base', 1536, 12, 64, 3968, 18, 6),
        ('byt5_large', 1536, 16, 64, 3840, 36, 12),
        ('byt5_xl', 2560, 32, 64, 6720, 36, 12),
        ('byt5_xxl', 4672, 64, 64, 12352, 36, 12),
        vocab_size=384,
    ),
    # arXiv:2010.11934; huggingface.co/google/mt5-{small,...,xxl} config.json. mT0 has the same.
    'mt5': _t5_sizes(*_V1_1, vocab_size=250112),
    # arXiv:2304.09151; huggingface.co/google/umt5-{small,base,xl,xxl} config.json.
    'umt5': _t5_sizes(*(row for row in _V1_1 if row[0] != 'large'), vocab_size=256384),
    # arXiv:1910.13461 section 2.1; huggingface.co/facebook/bart-{base,large} config.json. Unicoder:
    # arXiv:2004.01401; microsoft/MRS, generation_rs/train.sh: fairseq's mbart_base without
    # --encoder-normalize-before, so that norms come behind. Of its rows 250,002 are XLM-R's.
    'bart': _with(
        {
            'sample': _BART_SAMPLE,
            'base': _stacks(768, 12, 3072, 6),
            'large': _BART_LARGE,
            'unicoder': _stacks(
                768,
                12,
                3072,
                12,
                vocab_size=250_303,
                max_positions=512,
                scaled_embeddings=True,
                activation_dropout_rate=0.0,
            ),
        },
        vocab_size=50265,
        max_positions=1024,
        scaled_embeddings=False,
        activation='gelu',
        attention_dropout_rate=0.1,
        activation_dropout_rate=0.1,
    ),
    # arXiv:2001.08210 section 2.2 and arXiv:2008.00401 section 3, which adds 27 rows for new
    # languages; huggingface.co/facebook/mbart-large-{50,cc25} config.json.
    'mbart': _with(
        {
            'sample': _BART_SAMPLE | {'vocab_size': 250054},
            'large_50': _BART_LARGE | {'vocab_size': 250054},
            'large_cc25': _BART_LARGE | {'vocab_size': 250027},
        },
        max_positions=1024,
        scaled_embeddings=True,
        activation='gelu',
    ),
    # arXiv:1912.08777 section 6; huggingface.co/google/pegasus-large config.json.
    'pegasus': _with(
        {'sample': _BART_SAMPLE, 'large': _stacks(1024, 16, 4096, 16)},
        vocab_size=96103,
        max_positions=1024,
        scaled_embeddings=True,
        activation='relu',
        attention_dropout_rate=0.1,
        activation_dropout_rate=0.1,
    ),
    # Transformer-base of arXiv:1706.03762; huggingface.co/Helsinki-NLP/opus-mt-en-de config.json.
    # Every pair of languages has its own vocab_size.
    'marian': _with(
        {
            'sample': _BART_SAMPLE,
            'base': _TRANSFORMER_BASE,
            # As arXiv:1706.03762 itself has it, section 3.3.
            'transformer_base': _TRANSFORMER_BASE | {'activation': 'relu', 'max_positions': 1024},
        },
        vocab_size=58101,
        max_positions=512,
        scaled_embeddings=True,
        activation='swish',
    ),
    # arXiv:2010.11125 section 5.1 and arXiv:2207.04672 section 8.6;
    # huggingface.co/facebook/m2m100_{418M,1.2B}, nllb-200-{distilled-600M,1.3B,3.3B} config.json.
    'm2m_100': _with(
        {
            'sample': _BART_SAMPLE,
            '418m': _BART_LARGE,
            '1.2b': _stacks(1024, 16, 8192, 24),
            'nllb_600m': _BART_LARGE | {'vocab_size': 256206},
            'nllb_1.3b': _stacks(1024, 16, 8192, 24, vocab_size=256206),
            'nllb_3.3b': _stacks(2048, 16, 8192, 24, vocab_size=256206),
        },
        vocab_size=128112,
        max_positions=1024,
        scaled_embeddings=True,
        activation='relu',
        attention_dropout_rate=0.1,
    ),
    # The "tiny" students of Mozilla and Bergamot (aclanthology.org/2020.ngt-1.26, section 3):
    # github.com/mozilla/firefox-translations-models; every pair of languages has a vocabulary.
    'marian_ssru': _with(
        {
            'sample': _BART_SAMPLE,
            'tiny': _stacks(256, 8, 1536, 6) | {'num_decoder_layers': 2},
        },
        vocab_size=32000,
        max_positions=512,
        scaled_embeddings=True,
        activation='relu',
    ),
    'gpt2': {
        # Ours: learns the sample corpora in minutes on a CPU.
        'sample': _gpt2(128, 4, 4, mlp_dim=256),
        # GPT-2's report, table 2; huggingface.co/openai-community/gpt2{,-medium,-large,-xl}
        # config.json. The report counts fewer parameters than there are.
        'small': _GPT2_SMALL,
        'medium': _GPT2_MEDIUM,
        'large': _GPT2_LARGE,
        'xl': _gpt2(1600, 25, 48),
        # arXiv:1911.00536 table 2; huggingface.co/microsoft/DialoGPT-{small,medium,large}
        # config.json.
        'dialogpt_small': _GPT2_SMALL,
        'dialogpt_medium': _GPT2_MEDIUM,
        'dialogpt_large': _GPT2_LARGE,
    },
    # arXiv:2407.21783 table 3; on huggingface.co, config.json of meta-llama/Llama-3.2-{1B,3B} and
    # Llama-3.1-8B, mistralai/Mistral-7B-v0.1, Qwen/Qwen2.5-{0.5B,1.5B}, Qwen/Qwen3-{0.6B,1.7B,4B},
    # google/gemma-2b, gemma-2-2b and gemma-3-{270m,1b-pt}.
    'llama': {
        # Ours: learns the sample corpora in minutes on a CPU.
        'sample': _llama(4000, 128, 4, 2, 32, 256, 2),
        '3.2_1b': _llama(128256, 2048, 32, 8, 64, 8192, 16, tied_embeddings=True, **_LLAMA_3_2),
        '3.2_3b': _llama(128256, 3072, 24, 8, 128, 8192, 28, tied_embeddings=True, **_LLAMA_3_2),
        '3.1_8b': _llama(128256, 4096, 32, 8, 128, 14336, 32, **_LLAMA_3_2 | {'rope_factor': 8.0}),
    },
    'mistral': {
        'sample': _llama(4000, 128, 4, 2, 32, 256, 2, window=64),
        '7b': _llama(
            32000, 4096, 32, 8, 128, 14336, 32,
            window=4096, max_positions=32768, norm_epsilon=1e-5,
        ),
    },
    'qwen2': {
        'sample': _llama(4000, 128, 4, 2, 32, 256, 2),
        '2.5_0.5b': _llama(151936, 896, 14, 2, 64, 4864, 24, tied_embeddings=True, **_QWEN),
        '2.5_1.5b': _llama(151936, 1536, 12, 2, 128, 8960, 28, tied_embeddings=True, **_QWEN),
    },
    'qwen3': {
        'sample': _llama(4000, 128, 4, 2, 32, 256, 2),
        '0.6b': _llama(151936, 1024, 16, 8, 128, 3072, 28, tied_embeddings=True, **_QWEN3),
        '1.7b': _llama(151936, 2048, 16, 8, 128, 6144, 28, tied_embeddings=True, **_QWEN3),
        '4b': _llama(151936, 2560, 32, 8, 128, 9728, 36, tied_embeddings=True, **_QWEN3),
    },
    'gemma': {
        'sample': _llama(4000, 128, 4, 2, 32, 256, 2),
        '2b': _llama(256000, 2048, 8, 1, 256, 16384, 18),
    },
    'gemma2': {
        'sample': _llama(4000, 128, 4, 2, 32, 256, 2, **_GEMMA2 | {'window': 64}),
        '2b': _llama(256000, 2304, 8, 4, 256, 9216, 26, **_GEMMA2),
    },
    'gemma3': {
        'sample': _llama(4000, 128, 4, 2, 32, 256, 2, **_GEMMA3 | dict(query_scale=32, window=64)),
        '270m': _llama(262144, 640, 4, 1, 256, 2048, 18, **_GEMMA3),
        '1b': _llama(262144, 1152, 4, 1, 256, 6912, 26, **_GEMMA3),
    },
    'bert': {
        # Ours, with mBERT's vocabulary: learns the sample corpora in minutes on a CPU.
        'sample': _stack(119547, 128, 4, 2, mlp_dim=256),
        # arXiv:1810.04805 section 3; huggingface.co/google-bert/bert-{base,large}-uncased and
        # bert-base-multilingual-cased, config.json.
        'base': _stack(30522, 768, 12, 12),
        'large': _stack(30522, 1024, 16, 24),
        'mbert': _stack(119547, 768, 12, 12),
        # arXiv:2007.01852 section 3; huggingface.co/sentence-transformers/LaBSE config.json.
        'labse': _stack(501153, 768, 12, 12),
        # arXiv:1910.01108 section 3; huggingface.co/distilbert/distilbert-base-uncased and
        # distilbert-base-multilingual-cased, config.json.
        'distilbert': _stack(30522, 768, 12, 6, **_DISTILBERT),
        'distilmbert': _stack(119547, 768, 12, 6, **_DISTILBERT),
        # arXiv:2111.09543 section 5; huggingface.co/microsoft/deberta-v3-base, mdeberta-v3-base.
        'deberta_v3_base': _stack(128100, 768, 12, 12, **_DEBERTA),
        'mdeberta_v3_base': _stack(251000, 768, 12, 12, **_DEBERTA),
        # arXiv:1907.11692 section 3.1; huggingface.co/FacebookAI/roberta-{base,large} config.json.
        'roberta_base': _stack(50265, 768, 12, 12, **_ROBERTA),
        'roberta_large': _stack(50265, 1024, 16, 24, **_ROBERTA),
        # arXiv:1911.02116 table 6; huggingface.co/FacebookAI/xlm-roberta-{base,large} config.json.
        'xlmr_base': _stack(250002, 768, 12, 12, **_ROBERTA),
        'xlmr_large': _stack(250002, 1024, 16, 24, **_ROBERTA),
        # arXiv:1901.07291 section 5.1; huggingface.co/FacebookAI/xlm-mlm-tlm-xnli15-1024 and
        # xlm-mlm-100-1280 config.json.
        'xlm_xnli15': _stack(95000, 1024, 8, 12, num_languages=15, **_XLM),
        'xlm_100': _stack(200000, 1280, 16, 16, **_XLM),
    },
}
SIZES['mvbart'] = {size: SIZES['bart'][size] for size in ('sample', 'base', 'large')}
SIZES['dual_encoder'] = SIZES['bert']


def _encoders(pooled: bool) -> dict[str, Fields]:
    """The sizes of BERT, with a pooler where `pooled` and a head has no layer of its own."""
    return {
        size: fields | {'has_pooler': pooled and not MODEL_TYPES[variant_of(fields)].head}
        for size, fields in SIZES['bert'].items()
    }


SIZES['token_classifier'] = _encoders(pooled=False)
SIZES['encoder_decoder'] = {
    size: fields
    for size, fields in SIZES['token_classifier'].items()
    if 'relpos_buckets' not in fields
}
SIZES['sequence_classifier'] = _encoders(pooled=True)
