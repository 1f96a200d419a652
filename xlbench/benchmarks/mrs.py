"""MRS: replies to messages in ten languages (arXiv:2106.02017)."""

from xlbench.benchmarks.monolingual import REPLY_SCENARIOS, REPLY_SCORES, TASKS, ReplyBenchmark

MRS = ReplyBenchmark(
    name='mrs',
    languages=('en', 'es', 'de', 'pt', 'fr', 'ja', 'it', 'sv', 'nl', 'ru'),
    # `reverse` is of a model that ranks replies by the message that they answer (arXiv:1510.03055).
    task_titles=TASKS | {'reverse': 'message to a reply'},
    title='A Dataset and Baselines for Multilingual Reply Suggestion',
    arxiv='2106.02017',
    multi=('en', 'es', 'de', 'pt', 'fr'),
    scenario_names=REPLY_SCENARIOS,
    paper_models=('mBERT', 'XLM-R', 'Unicoder-xDAE'),
    fractions=REPLY_SCORES,
    paper_checkpoints={'mBERT': 'bert-base-multilingual-cased', 'XLM-R': 'xlm-roberta-base'},
    # Table 1 of the paper, columns Examples and Response Set; section 3.2 for what is translated.
    num_pairs={
        'en': 48_750_948, 'es': 2_325_877, 'de': 1_864_688, 'pt': 1_822_594, 'fr': 1_396_806,
        'ja': 727_668, 'it': 736_296, 'sv': 738_254, 'nl': 638_634, 'ru': 516_739,
    },
    # Section 2. The counts of the splits themselves are not published, and readers drop pairs with
    # an empty side. A tolerance below 1 % would refuse what a random split of the smallest
    # language, ru, may well have (one standard deviation of its test split is 0.4 %).
    shares={'train': 0.8, 'validation': 0.1, 'test': 0.1},
    size_tolerance=0.01,
    num_responses={
        'en': 36_997, 'es': 45_152, 'de': 34_747, 'pt': 45_225, 'fr': 32_350,
        'ja': 38_817, 'it': 31_855, 'sv': 32_165, 'nl': 32_293, 'ru': 31_475,
    },
    num_mt_pairs=19_000_000,
    paper_note='Columns marked paper are printed in arXiv:2106.02017. Its code pins no version of '
    'its rouge package and leaves undefined what dist_1 and dist_2 divide by. For Japanese alone '
    'dist_1 is near or above dist_2 (mBERT but for Monolingual, Unicoder-xDAE in MT): two columns '
    'seem to have been swapped.',
)  # fmt: skip
