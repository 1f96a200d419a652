"""Names of tasks, mixtures and scenarios, and the paper's numbers."""

import dataclasses
import itertools
import pickle

import pytest
import seqio

from xlbench import benchmarks, pipeline
from xlbench.benchmarks import FEWSHOT, MRS, MTG, XQUAD
from xlbench.system import errors


def test_task_names_in_both_directions():
    assert MTG.task_name('qg', 'en', 'de') == 'mtg_qg_en_de'
    assert MTG.task_name('qg', 'de') == 'mtg_qg_de_de'
    assert len(set(MTG.task_names())) == 48
    assert len(set(XQUAD.task_names())) == 12 * 12
    for benchmark in benchmarks.BENCHMARKS.values():
        for name in benchmark.task_names():
            parsed = benchmarks.parse_task(name)
            assert benchmark.task_name(*parsed[1:]) == name
    assert benchmarks.parse_task('mtg_qg_en_de') == ('mtg', 'qg', 'en', 'de')


@pytest.mark.parametrize('benchmark', benchmarks.BENCHMARKS.values(), ids=lambda one: one.name)
def test_a_task_file_registers_every_task_and_mixture(benchmark):
    names = benchmark.task_names()
    pipeline.get(names[0])
    start = f'{benchmark.name}_'
    registered = [name for name in seqio.TaskRegistry.names() if name.startswith(start)]
    assert sorted(registered) == sorted(names)
    for scenario in benchmark.scenarios():
        assert {*scenario.train, *scenario.evaluate} <= {*names}
        assert benchmarks.parse_mixture(scenario.mixture) == scenario
        for rate in benchmarks.RATES:
            mixture = pipeline.get(scenario.with_rate(rate).mixture)
            assert sorted(task.name for task in mixture.tasks) == sorted(scenario.train)


@pytest.mark.parametrize('name', ['mtg_qg_en_zh', 'mtg_qg_de', 'mtg', '', 'mtg_qg_en_de_fr', 'x_y'])
def test_parse_task_refuses_other_names(name):
    with pytest.raises(errors.UserError, match='unknown task'):
        benchmarks.parse_task(name)


@pytest.mark.parametrize(
    ('name', 'arguments', 'mixture', 'train', 'evaluate'),
    [  # Without evaluate: what it trains.
        ('mtg', ('mono', 'qg', 'de'), 'mono_qg_de', 'qg_de_de', ''),
        ('mtg', ('mono_multitask', None, 'de'), 'mono_multitask_de',
         'sg_de_de qg_de_de tg_de_de', ''),
        ('mtg', ('multi', 'qg'), 'multi_qg', 'qg_en_en qg_de_de qg_fr_fr qg_es_es', ''),
        ('mtg', ('cross', 'qg', 'en'), 'cross_qg_en', 'qg_en_de qg_en_fr qg_en_es', ''),
        ('mtg', ('cross', 'qg', 'en', 'de'), 'qg_en_de', 'qg_en_de', ''),
        ('mtg', ('zero_shot', 'tg'), 'zero_shot_tg', 'tg_en_en', 'tg_en_de tg_en_fr tg_en_es'),
        ('mtg', ('zero_shot', 'tg', None, 'de'), 'zero_shot_tg', 'tg_en_en', 'tg_en_de'),
        ('fewshot', ('zero_shot', 'pawsx'), 'zero_shot_pawsx', 'pawsx_en_en',
         'pawsx_en_en pawsx_de_de pawsx_es_es pawsx_fr_fr pawsx_ja_ja pawsx_ko_ko pawsx_zh_zh'),
        ('fewshot', ('zero_shot', 'panx', 'yo'), 'zero_shot_panx', 'panx_en_en', 'panx_yo_yo'),
        ('fewshot', ('mono', 'mldoc', 'ja'), 'mono_mldoc_ja', 'mldoc_ja_ja', ''),
        ('clidsum', ('mono', 'xsamsum'), 'xsamsum_en_en', 'xsamsum_en_en', ''),
        ('clidsum', ('cross', 'xmediasum40k', None, 'zh'), 'xmediasum40k_en_zh',
         'xmediasum40k_en_zh', ''),
        ('clidsum', ('cross', 'xsamsum'), 'cross_xsamsum', 'xsamsum_en_de xsamsum_en_zh', ''),
        ('clidsum', ('semi', 'xmediasum40k', None, 'de'), 'semi_xmediasum40k_en_de',
         'mediasum424kpseudo_en_de xmediasum40k_en_de', 'xmediasum40k_en_de'),
        ('clidsum', ('semi', 'xmediasum40ksummarize', None, 'en'),
         'semi_xmediasum40ksummarize_en_en',
         'mediasum424ksummarize_en_en xmediasum40ksummarize_en_en', 'xmediasum40ksummarize_en_en'),
        ('translation', ('cross', 'wmt20'), 'cross_wmt20', 'wmt20_en_de wmt20_en_zh', ''),
        ('translation', ('cross', 'wmt20', 'zh'), 'wmt20_zh_en', 'wmt20_zh_en', ''),
        ('translation', ('cross', 'wmt20', None, 'de'), 'wmt20_en_de', 'wmt20_en_de', ''),
        ('crosssum', ('cross', None, None, 'ha'), 'news_en_ha', 'news_en_ha', ''),
        ('crosssum', ('cross', None, 'ha', 'en'), 'news_ha_en', 'news_ha_en', ''),
    ],
)  # fmt: skip
def test_scenarios_have_names_and_members(name, arguments, mixture, train, evaluate):
    scenario = benchmarks.get(name).scenario(*arguments)
    assert scenario.mixture == f'{name}_{mixture}'
    assert scenario.train == tuple(f'{name}_{task}' for task in train.split())
    assert scenario.evaluate == tuple(f'{name}_{t}' for t in (evaluate or train).split())


def test_all_pairs_and_all_tasks():
    assert XQUAD.scenario('multi') == XQUAD.scenario('multi', 'qg')  # It has no other task.
    assert XQUAD.scenario('cross', source='en').mixture == 'xquad_cross_qg_en'
    everything = MTG.scenario('multi_multitask')
    assert everything.mixture == 'mtg_multi_multitask' and len(everything.train) == 12
    pairs = MTG.scenario('cross', task='qg')
    expected = {MTG.task_name('qg', s, t) for s, t in itertools.permutations(MTG.languages, 2)}
    assert pairs.mixture == 'mtg_cross_qg' and len(pairs.train) == 12
    assert set(pairs.train) == expected


def test_scenarios_lists_each_mixture_once():
    mixtures = [scenario.mixture for scenario in MTG.scenarios()]
    # mono 3x4, mono multitask 4, multi 3, all 1, cross 3x(1+4), zero-shot 3.
    assert len(mixtures) == len(set(mixtures)) == 12 + 4 + 3 + 1 + 15 + 3
    assert {scenario.name for scenario in MTG.scenarios()} == set(benchmarks.SCENARIOS)
    assert not set(mixtures) & set(MTG.task_names())


def test_rates_are_a_suffix():
    scenario = MTG.scenario('multi', 'qg')
    assert scenario.with_rate('proportional') == scenario
    equal = scenario.with_rate('equal')
    assert (equal.mixture, equal.train) == ('mtg_multi_qg.equal', scenario.train)
    assert equal.with_rate('capped').mixture == 'mtg_multi_qg.capped'
    assert benchmarks.parse_mixture('mtg_multi_qg.equal') == equal
    with pytest.raises(errors.UserError, match='unknown mixing rate'):
        benchmarks.parse_mixture('mtg_multi_qg.equl')
    single = MTG.scenario('cross', 'qg', 'en', 'de')
    assert single.with_rate('equal') == single


def test_a_task_is_a_mixture_of_itself():
    assert benchmarks.parse_mixture('mtg_qg_en_de') == MTG.scenario('cross', 'qg', 'en', 'de')
    assert benchmarks.parse_mixture('mtg_qg_de_de').train == ('mtg_qg_de_de',)
    with pytest.raises(errors.UserError, match=r'nearest.*mtg_multi_qg'):
        benchmarks.parse_mixture('mtg_mult_qg')


@pytest.mark.parametrize(
    ('name', 'arguments', 'message'),
    [
        ('mtg', ('crss', 'qg'), "unknown scenario 'crss'; nearest: cross"),
        ('mtg', ('mono', 'qa', 'de'), "unknown mtg task 'qa'"),
        ('mtg', ('mono', 'qg', 'zh'), "unknown mtg language 'zh'"),
        ('mtg', ('mono', 'qg'), 'give source, one of en, de, fr, es'),
        ('mtg', ('mono', 'qg', 'de', 'en'), 'same source and target'),
        ('mtg', ('mono', None, 'de'), 'needs a task, one of sg, qg, tg'),
        ('mtg', ('multi', 'qg', 'de'), 'takes no source'),
        ('mtg', ('multi_multitask', 'qg'), 'takes no task'),
        ('mtg', ('cross', 'qg', None, 'de'), 'give two different ones'),
        ('mtg', ('cross', 'qg', 'de', 'de'), 'give two different ones'),
        ('mtg', ('zero_shot', 'qg', 'de'), 'trains en -> en'),
        ('mtg', ('zero_shot', 'qg', 'en', 'en'), 'trains en -> en'),
        ('fewshot', ('mono', 'xnli', 'de'), 'got de; give source, for xnli one of en'),
        ('fewshot', ('mono', 'udpos'), 'trains one language, got None'),
        ('fewshot', ('zero_shot', 'marc', 'ko'), "language of marc 'ko'"),
        ('fewshot', ('zero_shot', 'xnli', 'de', 'fr'), 'has inputs and targets in one language'),
        ('fewshot', ('zero_shot',), 'needs a task'),
        ('clidsum', ('mono', 'xsamsum', 'en', 'de'), "source and target, got en -> de; .*'cross'"),
        ('clidsum', ('cross', 'xsamsum', 'en', 'en'), 'from en to another language, got en -> en'),
        ('clidsum', ('cross', 'xsamsum', 'de', 'zh'), 'xsamsum has no de -> zh; it has en -> en'),
        ('clidsum', ('cross', 'xsamsumdialogue'), 'from en to another language'),
        ('clidsum', ('semi', 'xsamsum'), "'semi' .* of xmediasum40k, xmediasum40ksummarize, got"),
        ('clidsum', ('semi', 'xmediasum40k', 'de', 'zh'), 'has no de -> zh; it has en -> en'),
        ('translation', ('cross', 'wmt20', 'de', 'zh'), 'has no de -> zh; it has en'),
        ('translation', ('cross', 'wmt20', None, 'en'), 'to another language, got en -> en'),
    ],
)
def test_wrong_scenarios_are_refused_in_one_line(name, arguments, message):
    with pytest.raises(errors.UserError, match=message) as caught:
        benchmarks.get(name).scenario(*arguments)
    assert '\n' not in str(caught.value)


def test_benchmarks_are_frozen_and_travel():
    with pytest.raises(dataclasses.FrozenInstanceError):
        MTG.name = 'other'
    assert pickle.loads(pickle.dumps(MTG)) == MTG
    assert len({MTG, XQUAD}) == 2
    with pytest.raises(errors.UserError, match="unknown benchmark 'mgt'; nearest: mtg"):
        benchmarks.get('mgt')


@pytest.mark.parametrize(
    ('name', 'task', 'split', 'lang', 'size'),
    [
        ('mtg', 'qg', 'test', 'en', 3000),
        ('mtg', 'tg', 'rough_train', 'de', 280_376),
        ('xquad', 'qg', 'test', 'en', None),
        # Table 1: 516,739 Russian pairs, split 80/10/10, and 31,475 responses.
        ('mrs', 'retrieval', 'train', 'ru', 413_391),
        ('mrs', 'generation', 'test', 'ru', 51_674),
        ('mrs', 'retrieval', 'responses', 'ru', 31_475),
        ('mrs', 'retrieval', 'mt_train', 'ru', 19_000_000),
        ('mrs', 'retrieval', 'dev', 'ru', None),
        ('xdailydialog', 'retrieval', 'test', 'de', None),
        # The dev sets that published shots are numbered in, and a table of the paper's appendix.
        ('fewshot', 'xnli', 'validation', 'sw', 2490),
        ('fewshot', 'pawsx', 'validation', 'ko', 2000),
        ('fewshot', 'udpos', 'test', 'mr', 47),
        ('fewshot', 'panx', 'test', 'yo', 100),
        ('fewshot', 'xnli', 'train', 'en', 392_702),
        ('fewshot', 'xnli', 'train', 'de', None),
        ('fewshot', 'udpos', 'validation', 'de', None),
        ('clidsum', 'xsamsum', 'test', 'en', 819),
        ('clidsum', 'mediasum424kpseudo', 'train', 'en', 423_596),
        ('translation', 'wmt20', 'test', 'en', 1418),
        ('translation', 'wmt20', 'test', 'de', 785),
        ('sib200', 'topic', 'train', 'de', 701),
        ('masakhaner2', 'ner', 'test', 'mos', 1613),
    ],
)
def test_official_sizes(name, task, split, lang, size):
    benchmark = benchmarks.get(name)
    assert benchmark.official_size(task, split, lang) == size
    assert benchmark.is_official(task, split, size or 0, lang) == (size is not None)
    if name != 'mrs':  # Whose splits are shares of the published totals.
        assert not benchmark.is_official(task, split, (size or 0) - 1, lang)
    # Those may differ by a hundredth.
    for count, official in ((51_674, True), (51_160, True), (52_190, True), (51_000, False)):
        assert MRS.is_official('retrieval', 'test', count, 'ru') == official


def replies(*scores):
    return dict(zip(('mrs_rouge', 'dist_1', 'dist_2'), scores, strict=True))


@pytest.mark.parametrize(
    ('name', 'arguments', 'expected'),
    [
        # Tables 11 to 14, 15 to 18, and 19 of arXiv:2108.07140.
        ('mtg', 'mT5 mono qg en', {'bleu': 17.55, 'rouge_l': 41.6, 'distinct_1': 96.7}),
        ('mtg', 'M-BERT mono sg en', {'meteor': 10.5, 'bertscore': 88.5, 'bleurt': -0.771}),
        ('mtg', 'mBART multi tg de', {'bleu': 9.42, 'rouge_l': 22.7, 'ensemble': 3.408}),
        ('mtg', 'XLM mono_multitask qg es', {'bleu': 18.85, 'rouge_l': 47.0}),
        ('mtg', 'mT5 multi_multitask tg es', {'bleu': 12.53, 'rouge_l': 28.4, 'ensemble': 3.544}),
        ('mtg', 'M-BERT cross sg en de', {'bleu': 2.13, 'rouge_l': 13.4}),
        ('mtg', 'mBART cross tg de es', {'bleu': 0.94, 'distinct_1': 37.4}),
        ('mtg', 'XLM cross qg fr en', {'bleu': 13.29, 'bleurt': -0.391}),
        ('mtg', 'mT5 cross tg es fr', {'bleu': 10.41, 'ensemble': 3.547}),
        ('mtg', 'mT5 zero_shot tg en es', {'bleu': 4.0, 'rouge_l': 10.6, 'ensemble': 3.149}),
        # Tables 3, 5 and 4 of arXiv:2106.02017, which print fractions.
        ('mrs', 'mBERT mono retrieval en', replies(3.31, 1.94, 4.80)),
        ('mrs', 'mBERT zero_shot retrieval en', replies(3.31, 1.94, 4.80)),
        ('mrs', 'mBERT mt retrieval it', replies(1.50, 3.78, 8.11)),
        ('mrs', 'mBERT multi retrieval ru', replies(2.46, 4.05, 7.61)),
        ('mrs', 'XLM-R zero_shot retrieval ja', replies(1.81, 0.97, 2.77)),
        ('mrs', 'XLM-R multi retrieval nl', replies(1.62, 1.35, 3.70)),
        ('mrs', 'Unicoder-xDAE mono generation pt', replies(5.66, 2.09, 19.4)),
        ('mrs', 'Unicoder-xDAE mt generation ja', replies(0.42, 28.12, 21.6)),
        ('mrs', 'Unicoder-xDAE multi generation ru', replies(1.65, 6.07, 22.4)),
        # Table 4 of arXiv:2202.05599.
        ('translation', 'Trans-WMT cross wmt20 en zh', {'bleu': 35.5, 'ter': 55.7}),
    ],
)
def test_paper_scores(name, arguments, expected):
    scores = benchmarks.get(name).paper_scores(*arguments.split())
    assert {score: scores[score] for score in expected} == expected
    assert name == 'mtg' or scores == expected


def test_the_paper_is_complete():
    """Every scenario has 3 tasks x 4 models x its language pairs, and every score."""
    same = [(lang, lang) for lang in MTG.languages]
    pairs = list(itertools.permutations(MTG.languages, 2))
    zero_shot = [('en', lang) for lang in ('de', 'fr', 'es')]
    directions = dict.fromkeys(('mono', 'mono_multitask', 'multi', 'multi_multitask'), same)
    directions |= {'cross': pairs, 'zero_shot': zero_shot}
    count = 0
    for scenario, model, task in itertools.product(
        benchmarks.SCENARIOS, MTG.paper_models, MTG.tasks
    ):
        for source, target in itertools.product(MTG.languages, repeat=2):
            scores = MTG.paper_scores(model, scenario, task, source, target)
            assert (scores is not None) == ((source, target) in directions[scenario])
            if scores:
                count += 1
                # BLEURT only scores English.
                assert len(scores) == 7 - (target != 'en')
                assert ('bleurt' in scores) == (target == 'en')
                assert set(MTG.scores) <= set(scores)
                assert all(0 < scores[name] <= 100 for name in MTG.scores)
    assert count == 372


def test_the_papers_tables_agree_with_each_other():
    """Table 4 prints the averages over targets of table 19."""
    printed = {('sg', 'M-BERT'): 3.2, ('sg', 'XLM'): 9.1, ('qg', 'mBART'): 5.3, ('qg', 'mT5'): 4.9}
    printed |= {('tg', 'XLM'): 13.7, ('tg', 'mBART'): 13.3, ('tg', 'mT5'): 11.2}
    for (task, model), average in printed.items():
        scores = [
            MTG.paper_scores(model, 'zero_shot', task, 'en', lang)['rouge_l']
            for lang in ('de', 'fr', 'es')
        ]
        assert abs(sum(scores) / 3 - average) <= 0.05


def test_paper_scores_are_copies_and_names_are_checked():
    MTG.paper_scores('mT5', 'mono', 'qg', 'en')['bleu'] = 99.0
    assert MTG.paper_scores('mT5', 'mono', 'qg', 'en')['bleu'] == 17.55
    with pytest.raises(errors.UserError, match="unknown mtg model 'mt5'; nearest: mT5"):
        MTG.paper_scores('mt5', 'mono', 'qg', 'en')
    with pytest.raises(errors.UserError, match='unknown scenario'):
        MTG.paper_scores('mT5', 'monolingual', 'qg', 'en')


def test_the_paper_of_replies_is_complete():
    """Ten languages in each setting; no translation into English, no zero-shot generation."""
    four = ('mono', 'zero_shot', 'mt', 'multi')
    columns = {('retrieval', model): four for model in ('mBERT', 'XLM-R')}
    columns['generation', 'Unicoder-xDAE'] = ('mono', 'mt', 'multi')
    # Of Japanese, where two columns seem to have been swapped.
    odd = {('mBERT', 'zero_shot'), ('mBERT', 'mt'), ('mBERT', 'multi'), ('Unicoder-xDAE', 'mt')}
    count = 0
    for task, model, setting in itertools.product(MRS.tasks, MRS.paper_models, MRS.scenario_names):
        for lang in MRS.languages:
            scores = MRS.paper_scores(model, setting, task, lang)
            printed = setting in columns.get((task, model), ()) and (setting, lang) != ('mt', 'en')
            assert (scores is not None) == printed
            count += printed
            if printed and (lang != 'ja' or (model, setting) not in odd):
                assert scores['dist_1'] < scores['dist_2']
    assert count == 107


def test_shots_of_few_shot_tasks():
    assert {task: FEWSHOT.shots(task) for task in FEWSHOT.tasks} == {
        'xnli': (1, 2, 4, 8), 'pawsx': (1, 2, 4, 8), 'mldoc': (1, 2, 4, 8), 'marc': (1, 2, 4, 8),
        'udpos': (1, 2, 4), 'panx': (1, 2, 4),
    }  # fmt: skip
    with pytest.raises(errors.UserError, match="unknown fewshot task 'ner'"):
        FEWSHOT.shots('ner')
