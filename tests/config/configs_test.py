"""Every config, size and scenario that a file documents can be built, as far as shapes go."""

import collections
import contextlib
import functools
import importlib
import itertools
import pathlib
import re

import encoder_folders
import jax
import ml_collections
import pytest
from nightly import by_day

from xlbench import benchmarks, config as config_lib, models, runs
from xlbench.configs import finetune
from xlbench.fewshot import sweep
from xlbench.parallel import partitioning
from xlbench.settings import blocks, epochs
from xlbench.system.errors import UserError
from xlbench.training import objectives, optimizers, train_step

FOLDER = pathlib.Path(__file__).parents[2] / 'configs'
SWEEPS = ('fewshot', 'fewshot_any')  # Of xlbench.fewshot; all others are of xlbench.train.
ENCODER: dict[str, str] = {}  # Its `folder`.
FILES = sorted({path.stem for path in FOLDER.glob('*.py')} - {'__init__', *SWEEPS})
BENCHMARKS = [name for name in FILES if name != 'finetune']  # That one takes any task.
# What a scenario cannot do without.
NEEDS = {
    'mono': 'task=qg,source=de', 'mono_multitask': 'source=de', 'multi': 'task=qg',
    'multi_multitask': '', 'cross': 'task=qg', 'zero_shot': 'task=qg', 'mt': 'source=de',
    'mixed': 'source=de', 'adapters': '',
}  # fmt: skip
NEEDS_OF = {
    'clidsum_mbart': {'mono': 'corpus=xmediasum40k', 'cross': 'target=zh', 'semi': 'target=de'},
    'convsumx': {'mono': '', 'cross': 'target=zh'},
    'translation': {'cross': 'target=zh'},
    'clidsum_summariser': dict.fromkeys(('mono', 'semi'), 'corpus=xmediasum40k,model=mbart'),
    'clidsum_mdialbart': {'cross': 'target=zh', 'semi': 'target=de'},
    'xpersona': {'mono': 'source=ja', 'zero_shot': '', 'multi': ''},
    'masakhanews_bert2bert': {'mono': 'source=fr', 'zero_shot': '', 'multi': ''},
}


def documented(name: str, key: str) -> list[str]:
    """The values of a key as the file's docstring lists them: `size (sample, small)`."""
    doc = importlib.import_module(f'configs.{name}').__doc__
    found = re.search(rf'\b{key} \(([^)]*)\)', doc)
    return re.split(r',\s*', found[1]) if found else []


def variants() -> list[tuple[str, str]]:
    """(file, what follows the colon) for each size, scenario and rate."""
    found = []
    for name in FILES:
        found += [(name, whole(name, size)) for size in documented(name, 'size')]
        for scenario in documented(name, 'scenario'):
            paper_size = documented(name, 'size')[-1]
            needs = NEEDS_OF.get(name, NEEDS)[scenario]
            words = [paper_size, f'scenario={scenario}', *needs.split(',')]
            tasks = documented(name, 'task')
            words = [
                f'task={tasks[0]}' if word[:5] == 'task=' else word
                for word in words
                if tasks or word[:5] != 'task='
            ]
            found.append((name, ','.join(filter(None, words))))
        found += [(name, f'rate={rate}') for rate in documented(name, 'rate')]
    return found


def whole(name: str, size: str) -> str:
    """What follows the colon for a size, with all that the file asks for."""
    if name != 'finetune':
        return size
    encoder = size == 'tiny' or finetune.MODELS[size][0] == 'encoder'
    return f'{size},mixture=news_x' + (',objective=tagging' if encoder else '')


@pytest.fixture(scope='module', autouse=True)
def encoder(tmp_path_factory):
    """The folder that the size `encoder` of a config takes its model from."""
    ENCODER['folder'] = encoder_folders.write(tmp_path_factory.mktemp('encoders') / 'encoder')


def load(name: str, variant: str, *extra: str):
    """The config as the command line gives it."""
    argv = ['train', f'--config={FOLDER / name}.py:{variant}', *extra]
    size = variant.partition(',')[0]
    if not size or '=' in size:
        size = (documented(name, 'size') or [''])[0]
    if size in ('encoder', 'pretrained'):
        key = 'source.model.from' if name in SWEEPS else 'model.from'
        argv.append(f'--config.{key}={ENCODER["folder"]}')
    return config_lib.parse_command(argv)[0]


def test_the_documentation_was_read():
    assert 'mtg_mt5' in FILES
    assert documented('mtg_mt5', 'size') == ['sample', 'small', 'base', 'large', 'xl', 'xxl']
    assert documented('mtg_mt5', 'scenario') == list(benchmarks.SCENARIOS)
    assert documented('mtg_mt5', 'rate') == list(benchmarks.RATES)
    assert len(variants()) > 20


@pytest.mark.parametrize('name, variant', variants())
def test_variants_are_accepted_and_fit_eight_devices(name, variant):
    config = load(name, variant, '--config.seed=1')
    runs.check_config(config)
    mesh = partitioning.make_mesh(**config.mesh)
    partitioning.check_batch_size(config.batches.batch_size, mesh, config.accumulate)
    if config.batches.length_buckets > 1 and not config.batches.get('equal_rows'):
        # The rows of the other shapes are multiples of this.
        partitioning.check_batch_size(config.batches.row_multiple, mesh, config.accumulate)
    for block in config.evals.values():
        partitioning.check_batch_size(block.batch_size, mesh)
        for task in block.tasks if name in BENCHMARKS else ():
            benchmarks.parse_task(task)
    labels = {'num_labels': 3} if 'num_labels' in config.model else {}
    models.config(**dict(config.model) | labels)
    # A public encoder knows the most of it already.
    least = 50 if variant.startswith('encoder') else 100
    stages = epochs.as_steps(config).stages.values()
    assert sum(stage.num_steps for stage in stages) >= least
    # Without a dev set there is no best checkpoint to look for.
    assert any(block.every for block in config.evals.values()) or not config.best.score


@functools.cache
def settings(name: str) -> dict[str, ml_collections.ConfigDict]:
    """{what may follow the colon of a file: the config}, of each size, scenario and narrowing."""
    module = importlib.import_module(f'configs.{name}')
    benchmark = benchmarks.get(name.partition('_')[0])
    accepted = {}
    for size, scenario, task, source, target in itertools.product(
        documented(name, 'size'), documented(name, 'scenario'), ['', *documented(name, 'task')],
        ['', *benchmark.languages],
        ['', *benchmark.languages] if 'target' in module.__doc__ else [''],
    ):  # fmt: skip
        words = dict(scenario=scenario, task=task, source=source, target=target)
        text = ','.join([size, *(f'{key}={word}' for key, word in words.items() if word)])
        with contextlib.suppress(UserError):
            accepted[text] = module.get_config(text)
    return accepted


def test_mtg_has_two_versions():
    """What another version is trained on and scored on has names of its own."""
    config = load('mtg_mt5', 'base,version=2,scenario=cross,task=summ,source=zh')
    assert config.stages.stage2.mixture == 'mtg2_cross_summ_zh'
    targets = ('en', 'de', 'fr', 'es')
    assert {*config.evals.test.tasks} == {f'mtg2_summ_zh_{lang}' for lang in targets}
    first = load('mtg_mt5', 'base,scenario=multi,task=tg')
    second = load('mtg_mt5', 'base,version=2,scenario=multi,task=tg')
    assert first.stages.stage1.mixture == 'mtg_multi_tg'
    assert second.stages.stage1.num_steps > first.stages.stage1.num_steps  # Five languages.
    with pytest.raises(UserError, match='the sample is of version 1'):
        load('mtg_mbart', 'version=2')


@pytest.mark.parametrize('name', BENCHMARKS)
def test_checkpoints_are_chosen_by_what_the_scenario_has_alone(name):
    """Zero-shot sees no dev example of its targets, and mt none that was written in its language.

    What is allowed stands here by hand, apart from what the configs take it from.
    """
    scenarios = collections.Counter()
    for text, c in settings(name).items():
        scenario = re.search(r'scenario=(\w+)', text)[1]
        scenarios[scenario] += 1
        splits = {stage.split for stage in c.stages.values()}
        assert splits <= {'train', 'rough_train', 'mt_train'}
        assert ('mt_train' in splits) == (scenario == 'mt')
        added = [pair for s in c.stages.values() for pair in config_lib.stage_pairs(s)[1:]]
        assert bool(added) == (scenario in ('mixed', 'adapters'))
        assert {split for _, split in added} <= {'train' if scenario == 'adapters' else 'mt_train'}
        if not c.best.score:  # The last step.
            continue
        dev = c.evals[c.best.score.partition('/')[0]]
        assert dev.split == 'validation' and dev.every
        sides = {tuple(task.split('_')[2:]) for task in dev.tasks}
        trained = {
            task
            for s in c.stages.values()
            for mixture, _ in config_lib.stage_pairs(s)
            for task in benchmarks.parse_mixture(mixture).train
        }
        if scenario == 'zero_shot':
            assert sides == {('en', 'en')}, text
        if scenario in ('mt', 'mixed'):
            lang = re.search(r'source=(\w+)', text)[1]
            assert lang != 'en' and sides == {('en', 'en')}, text
        else:
            assert set(dev.tasks) <= trained, text
    assert set(scenarios) == set(documented(name, 'scenario'))


@pytest.mark.parametrize('name', BENCHMARKS)
def test_no_stage_ends_within_its_warm_up(name):
    """Also of one task in one language, which leaves the second stage few steps."""
    for text, c in settings(name).items():
        for stage in c.stages.values():
            steps = stage.num_steps
            warmup = optimizers.count_warmup_steps(stage.optimizer.warmup_steps, steps)
            assert warmup <= steps / 3, f'{text}: {warmup} of {steps}'
            if 'sample' not in text and c.model.family in ('mbart', 'encoder_decoder'):
                expected = {'mrs_generator': 0.2 * steps, 'clidsum_mbart': 500}
                expected['clidsum_summariser'] = 0
                if name == 'clidsum_mbart' and 'scenario=mono' in text:
                    expected[name] = 0  # Trans-Sum, which appendix A.3 trains as the summarisers.
                expected['clidsum_mdialbart'] = 5_000 if steps == 1_000_000 else 500
                assert abs(warmup - expected.get(name, min(2500, steps / 10))) <= 1, text


@pytest.mark.parametrize('name', [*BENCHMARKS, 'fewshot'])  # Others need a task's name.
def test_a_file_without_variant_is_its_first_size(name):
    size = documented(name, 'size')[0]
    assert config_lib.to_dict(load(name, '')) == config_lib.to_dict(load(name, size))


def sizes():
    """(file, size) of all; by day the first of each model, and of files of one kind one."""
    every = [(name, size) for name in FILES for size in documented(name, 'size')]
    first = {}
    for name, size in every:
        stem = re.sub('_?(small|base|large|xl)$', '', size)
        first.setdefault((name.rpartition('_')[2], stem), (name, size))
    return by_day(first.values(), every)


@pytest.mark.parametrize('name, size', sizes())
def test_models_have_shapes_shardings_and_optimizers(name, size):
    """Nothing is computed, so that xxl needs no memory. Layers of a stack are the same."""
    pieces = {'sample': 4_000, 'tiny': 4_000, 'encoder': 700, 'pretrained': 700}.get(size, 250_100)
    check_model(load(name, whole(name, size)), pieces)


def check_model(config, vocabulary_size):
    deep = models.SIZES[config.model.family].get(config.model.get('size'), {})
    if not any('layers' in pattern for pattern in config.trainable):
        with config.unlocked():
            config.model.update({k: 1 for k in deep if k.endswith('_layers')})
    mesh = partitioning.make_mesh(data=2, fsdp=2, tensor=2)
    labels = ('A', 'B') if 'num_labels' in config.model else ()
    model = runs.build_model(config.model, vocabulary_size, labels)
    objective = objectives.build(**config.objective)
    shapes, shardings = train_step.params_like(model, objective, mesh)
    # A folder's table is as large as it is.
    assert model.config.vocab_size % 128 == 0 or config.model.vocab_size
    mask = optimizers.trainable_mask(shapes, tuple(config.trainable))
    trainable, _ = train_step.split_params(shapes, mask)
    assert trainable
    for stage in epochs.as_steps(config).stages.values():
        tx, schedule = optimizers.build(**stage.optimizer, num_steps=stage.num_steps)
        assert jax.tree.leaves(jax.eval_shape(tx.init, trainable))
        assert 0 < float(schedule(stage.num_steps // 2)) <= stage.optimizer.learning_rate
    for shape, sharding in zip(jax.tree.leaves(shapes), jax.tree.leaves(shardings), strict=True):
        # Every parameter is cut somehow, but for a few short vectors, also of an LSTM's four gates.
        assert any(sharding.spec) or shape.shape[:-1] in ((), (4,))


@pytest.mark.parametrize('model', documented('clidsum_summariser', 'model'))
def test_summarisers_have_the_paper_s_settings(model):
    for corpus in PIPELINE:
        config = load('clidsum_summariser', f'large,model={model},corpus={corpus}')
        kind = 'views' * (model == 'mvbart')
        assert config.stages.train.mixture == f'clidsum_{corpus}{kind}_en_en'
    if model != 'mvbart':
        config = load('clidsum_summariser', f'large,model={model},corpus={corpus},scenario=semi')
        steps = 5_000 if model == 'bart_d_all' else 20 * (423_596 + 20_000) / 24
        assert abs(config.stages.train.num_steps - steps) <= 40
    if model == 'bart_d_all':
        assert config.data.root == 'marked' and config.model.family == 'bart'
        with pytest.raises(UserError, match='bart_d_all has no size sample'):
            load('clidsum_summariser', f'sample,model={model}')
    else:
        check_model(load('clidsum_summariser', f'sample,model={model}'), 4_000)


@pytest.mark.parametrize('objective', documented('finetune', 'objective'))
def test_any_task_is_trained_for_each_objective(objective):
    writers = {'generation': ['tiny', 'mt5_small'], 'language_model': ['tiny', 'gpt2']}
    sizes = writers.get(objective, ['tiny', 'mbert', 'xlmr_large'])
    for size in sizes:
        config = load('finetune', f'{size},mixture=news_x,objective={objective}')
        runs.check_config(config)
        assert config.objective.name == objective and config.stages.train.mixture == 'news_x'
        assert bool(config.init_from) == (size != 'tiny')
        assert all(block.tasks == ('news_x',) and block.optional for block in config.evals.values())
        check_model(config, 4_000 if size == 'tiny' else 250_100)


def test_any_task_is_narrowed_after_the_colon():
    config = load(
        'finetune',
        'tiny,objective=classification,mixture=news_x,evaluate=news_de+news_fr,validation=dev,test=,'
        'steps=200,batch_size=8,inputs=32,root=there',
        '--config.stages.train.optimizer.learning_rate=1e-4',
    )
    runs.check_config(config)
    assert config.evals.dev.tasks == ('news_de', 'news_fr') and 'test' not in config.evals
    # What is named must be there.
    assert (config.evals.dev.split, config.evals.dev.optional) == ('dev', False)
    assert (config.stages.train.num_steps, config.evals.dev.every) == (200, 20)
    assert (config.batches.batch_size, config.batches.lengths.inputs) == (8, 32)
    assert config.data.vocabulary == 'there/news_x.model'
    assert load('finetune', 'mbart,mixture=x,validation=').best.score == ''


@pytest.mark.parametrize(
    ('variant', 'message'),
    [
        ('mt5_base', 'needs the name of a task .*finetune.py:mt5_base,mixture=NAME'),
        ('mbert,mixture=x', 'mbert is trained for classification, retrieval, tagging; say which'),
        ('mbart,mixture=x,objective=tagging', "mbart is trained for generation, not 'tagging'"),
        ('mt5,mixture=x', "unknown size after the colon of --config 'mt5'; nearest: mt5_"),
        ('mt5_base,mixtre=x', "unknown key after the colon of --config 'mixtre'; nearest: mixture"),
        ('mt5_base,mixture=x,steps=1e3', 'steps=1e3 after the colon is not a whole number'),
    ],
)
def test_what_any_task_needs_is_said(variant, message):
    with pytest.raises(UserError, match=message):
        load('finetune', variant)


def moving(name: str, variant: str) -> tuple[set[str], set[str]]:
    """Names of the parameters that a config trains, and of those it leaves."""
    config = load(name, variant)
    model = runs.build_model(config.model, 1000)
    objective = objectives.build(**config.objective)
    shapes, _ = train_step.params_like(model, objective, partitioning.make_mesh())
    mask = optimizers.trainable_mask(shapes, tuple(config.trainable))
    return tuple(set(part) for part in train_step.split_params(shapes, mask))


@pytest.mark.parametrize('task', benchmarks.FEWSHOT.tasks)
def test_source_training_is_the_papers(task):
    """Ten epochs of the English examples (arXiv:2012.15682, section 4 and appendix)."""
    config = load('fewshot_source', f'mbert,task={task}')
    runs.check_config(config)
    (stage,) = config.stages.values()
    assert stage.mixture == f'fewshot_zero_shot_{task}' and config.batches.batch_size == 128
    assert stage.num_steps == {
        'xnli': 30_679, 'pawsx': 3_859, 'mldoc': 781, 'marc': 15_625, 'udpos': 1_660, 'panx': 1_562
    }[task]  # fmt: skip
    assert stage.optimizer.learning_rate == (3e-5 if task == 'xnli' else 1e-5)
    tags = task in ('udpos', 'panx')
    assert config.objective.name == ('tagging' if tags else 'classification')
    assert config.best.score == ('dev/mean/chunk_f1' if tags else 'dev/mean/accuracy')
    assert tuple(config.evals.dev.tasks) == (f'fewshot_{task}_en_en',)
    assert len(config.evals.test.tasks) == len(benchmarks.FEWSHOT.task_languages[task])


@pytest.mark.parametrize(
    'variant',
    [
        f'{size},task={task}'
        for size in documented('fewshot', 'size')
        for task in (benchmarks.FEWSHOT.tasks if size in ('sample', 'mbert') else ('udpos',))
    ],
)
def test_sweeps_are_accepted_and_adapt_their_own_source(variant):
    config = load('fewshot', variant, '--config.source.seed=1')
    sweep.checked_adapt(config)
    source, _, task = variant.partition(',task=')
    assert config_lib.to_dict(config.source) == config_lib.to_dict(
        load('fewshot_source', f'{source},task={task}', '--config.seed=1')
    )


@pytest.mark.parametrize('task', benchmarks.FEWSHOT.tasks)
def test_sweeps_are_the_papers(task):
    """Section 4 and appendix of arXiv:2012.15682: 40 buckets, 50 epochs, patience 10, seed 42."""
    adapt = load('fewshot', f'mbert,task={task}').adapt
    assert (adapt.buckets, adapt.epochs, adapt.patience, adapt.seeds) == ((0, 40), 50, 10, (42,))
    assert adapt.learning_rates == (1e-5, 3e-5, 5e-5, 7e-5) and adapt.methods == ('full',)
    assert adapt.shots == ((1, 2, 4) if task in ('udpos', 'panx') else (1, 2, 4, 8))
    assert {'en', *adapt.languages} == set(benchmarks.FEWSHOT.task_languages[task])
    assert 'en' not in adapt.languages and adapt.batch_size == 0


def test_a_sweep_is_narrowed_after_the_colon():
    adapt = load(
        'fewshot', 'mbert,task=xnli,methods=full+cos_pooler,starts=none,languages=de+sw,shots=8'
    ).adapt
    assert adapt.methods == ('full', 'cos_pooler') and adapt.starts == ('none',)
    assert adapt.languages == ('de', 'sw') and adapt.shots == (8,)


@pytest.mark.parametrize(
    ('variant', 'num_steps'),
    [
        ('large,corpus=xmediasum40k,target=zh', 100_000),
        ('large,corpus=xmediasum40k', 200_000),
        ('large,scenario=semi,target=en', 20 * (423_596 + 20_000) // 4),
    ],
)
def test_settings_of_summaries_are_the_papers(variant, num_steps):
    config = load('clidsum_mbart', variant)
    runs.check_config(config)
    (stage,) = config.stages.values()
    assert stage.num_steps == num_steps and stage.split == 'train'
    rest = dict(name='adam', learning_rate=5e-6, schedule='linear', warmup_steps=500)
    assert dict(stage.optimizer) == rest
    assert config.batches.batch_size == 4 and not config.batches.packing
    assert dict(config.batches.lengths) == dict(inputs=1024, targets=128)
    assert (config.best.score, config.best.mode) == ('dev/mean/loss', 'min')


MBART = 'facebook/mbart-large-50-many-to-many-mmt'  # Footnote 17 of arXiv:2202.05599.
PIPELINE = {'xsamsum': (16, 4e-5), 'xmediasum40k': (24, 2e-5)}  # Appendix A.3.
END_TO_END = dict.fromkeys(PIPELINE, (4, 5e-6))
AUTHORS = {'xsamsum': (160, 3e-5), 'xmediasum40k': (24, 3e-5)}  # About 25,600 tokens.
BEAM = dict(method='beam', num_beams=5, max_length=150)  # Appendix A.4.
# (optimizer, steps of warm-up, label smoothing, decoding) that the paper or the code has.
ADAMW = ('adamw', 0, 0.0, BEAM)  # As transformers' Trainer; neither says it.
README = ('adam', 500, 0.0, BEAM)  # krystalan/ClidSum.
OWN = dict(method='beam', num_beams=4, no_repeat_ngram=3, min_length=5, max_length=100)
MV_BART = ('adamw', 200, 0.1, OWN | dict(length_penalty=2.0))  # SALT-NLP/Multi-View-Seq2Seq.
D_ALL = ('adamw', 400, 0.1, OWN | dict(length_penalty=0.5))  # xcfcode/PLM_annotator.
# Appendices A.3 and A.4, a line a system: config and variant, checkpoint, {corpus: (rows,
# rate)}, further values, epochs or, above 100, steps.
OF_THE_APPENDIX = {
    'PEGASUS': ('summariser:large,model=pegasus', 'google/pegasus-large', PIPELINE, ADAMW, 20),
    'T5': ('summariser:large,model=t5', 'google-t5/t5-large', PIPELINE, ADAMW, 20),
    'BART': ('summariser:large,model=bart', 'facebook/bart-large', PIPELINE, ADAMW, 20),
    'mBART': ('summariser:large,model=mbart', MBART, PIPELINE, ADAMW, 20),
    'MV-BART': ('summariser:large,model=mvbart', 'facebook/bart-large', AUTHORS, MV_BART, 5_000),
    'D_ALL': ('summariser:large,model=bart_d_all', 'facebook/bart-large', AUTHORS, D_ALL, 5_000),
    'Trans-Sum mBART': ('mbart:large,scenario=mono,source=de', MBART, PIPELINE, ADAMW, 20),
    'end-to-end mBART': ('mbart:large,target=de', MBART, END_TO_END, README, 20),
    'mBART + DA': ('mbart:large,target=de,scenario=semi', MBART, END_TO_END, README, 20),
    'mDialBART': ('mdialbart:large,target=de', MBART, END_TO_END, README, 20),
    'mDialBART + DA': ('mdialbart:large,target=de,scenario=semi', MBART, END_TO_END, README, 20),
}  # fmt: skip


@pytest.mark.parametrize('system', OF_THE_APPENDIX)
@pytest.mark.parametrize('corpus', PIPELINE)
def test_every_value_of_the_appendix(system, corpus):
    text, checkpoint, settings, further, training = OF_THE_APPENDIX[system]
    if system.endswith('DA') and corpus == 'xsamsum':
        pytest.skip('MediaSum424k has no chats')
    kind = 'translated' if system.startswith('Trans-Sum') else ''
    config = load(*f'clidsum_{text},corpus={corpus}{kind}'.split(':'))
    runs.check_config(config)
    last = list(config.stages)[-1]
    stage, batches = config.stages[last], config_lib.batches_of(config, last)
    rows, rate = settings[corpus]
    assert (batches['batch_size'], stage.optimizer.learning_rate) == (rows, rate)
    number = benchmarks.CLIDSUM.split_sizes[corpus]['train'] + 423_596 * system.endswith('DA')
    steps = training if training > 100 else training * number / rows
    assert abs(stage.num_steps - steps) <= (0 if training == 20 and rows == 4 else 20)
    assert config.init_from.partition('@')[0] == checkpoint
    assert dict(batches['lengths'])['inputs'] == 1024 * (2 if system == 'MV-BART' else 1)
    optimizer, warmup, smoothing, decoding = further
    assert (stage.optimizer.name, stage.optimizer.warmup_steps) == (optimizer, warmup)
    assert stage.optimizer.schedule == 'linear'
    assert (config.objective.get('z_loss', 0), config.objective.label_smoothing) == (0, smoothing)
    assert dict(config.evals.test.decoding) == decoding


def test_the_other_reading_of_eight_rows():
    for words, rows in (('aci+up+mds+mt', 8), ('aci+up', 8), ('mt', 8)):
        config = load('clidsum_mdialbart', f'large,target=zh,pretraining={words},rows=all')
        assert config.batches.batch_size == rows, words


def test_z_loss_is_mt5_s_alone():
    """The paper of MTG names none; T5's authors fine-tune mT5 with 1e-4."""
    sizes = {'mtg_mt5': 'base', 'mtg_mbart': 'large'}
    losses = {name: load(name, size).objective.get('z_loss', 0) for name, size in sizes.items()}
    assert losses == {'mtg_mt5': 1e-4, 'mtg_mbart': 0}


def test_the_official_oddities_of_summaries_are_an_option():
    """A decay over 100,000 steps whatever the corpus, and the last weights."""
    paper = load('clidsum_mbart', 'large,corpus=xsamsum,target=de')
    official = load('clidsum_mbart', 'large,corpus=xsamsum,target=de,official=yes')
    steps = official.stages.train.num_steps
    _, schedule = optimizers.build(**official.stages.train.optimizer, num_steps=steps)
    for step in (501, 30_000, steps):
        expected = 5e-6 * (100_000 - step) / (100_000 - 500)
        assert float(schedule(step)) == pytest.approx(expected, rel=1e-5)
    assert (paper.best.score, official.best.score) == ('dev/mean/loss', '')
    official.best.score = paper.best.score
    # The code's 128 tokens, of which the first is the language's: the decoder's first input.
    decoding = dict(method='beam', num_beams=5, max_length=127, early_stopping=True)
    assert dict(official.evals.test.decoding) == decoding
    official.evals.test.decoding = paper.evals.test.decoding
    with official.unlocked():
        del official.stages.train.optimizer['final_fraction']
        assert official.objective.decoder_start == 'language'
        del official.objective['decoder_start']
    assert config_lib.to_dict(official) == config_lib.to_dict(paper)
    same = load('clidsum_mbart', 'large,corpus=xmediasum40k,target=de,official=yes')
    assert same.stages.train.optimizer.final_fraction == 0
    with pytest.raises(UserError, match='official=yes is for the size large'):
        load('clidsum_mbart', 'sample,official=yes')


WORDS = ('aci', 'up', 'mds', 'mt')


def test_every_combination_of_pretraining_is_a_value_of_one_key():
    """The fifteen of Table 7 (arXiv:2202.05599), in any order."""
    kinds = dict(zip(WORDS, ('infilling', 'permutation', 'summarize', 'summary'), strict=True))
    seen = set()
    for count in range(1, 5):
        combinations = itertools.combinations(WORDS, count)
        for words in (order for some in combinations for order in {some, some[::-1]}):
            config = load('clidsum_mdialbart', f'large,target=zh,pretraining={"+".join(words)}')
            first, second = config.stages.values()
            trained = benchmarks.parse_mixture(first.mixture).train
            corpora = {word: 'xmediasum40k' if word == 'mt' else 'mediasum424k' for word in words}
            assert set(trained) == {
                f'clidsum_{corpora[word]}{kinds[word]}_en_{"zh" if word == "mt" else "en"}'
                for word in words
            }
            assert config.batches.batch_size == 8 * count and config.batches.each_task
            assert second.mixture == 'clidsum_xmediasum40ksummarize_en_zh'
            seen.add(first.mixture)
    assert len(seen) == 15
    none = load('clidsum_mdialbart', 'large,target=zh,pretraining=none')
    plain = load('clidsum_mbart', 'large,corpus=xmediasum40k,target=zh')
    stage = none.stages.train
    assert stage.mixture == 'clidsum_xmediasum40ksummarize_en_zh'
    stage.mixture = plain.stages.train.mixture
    assert stage == plain.stages.train and none.batches == plain.batches


def test_pretraining_and_finetuning_are_the_papers():
    config = load('clidsum_mdialbart', 'large,target=de')
    runs.check_config(config)
    first, second = config.stages.values()
    expected = dict(name='adam', learning_rate=5e-6, schedule='linear', final_fraction=0.0)
    assert dict(first.optimizer) == expected | dict(warmup_steps=5_000)
    assert (first.num_steps, second.num_steps) == (1_000_000, 100_000)
    assert second.optimizer.warmup_steps == 500
    assert dict(config.batches.lengths) == dict(inputs=1024, targets=1024)
    plain = load('clidsum_mbart', 'large,corpus=xmediasum40k,target=de')
    batches = config_lib.batches_of(config, 'stage2')
    assert not batches.pop('each_task')
    assert {k: v.to_dict() if hasattr(v, 'to_dict') else v for k, v in batches.items()} == (
        plain.batches.to_dict()
    )
    assert config.data.vocabulary == f'{MBART}+[summarize]'
    alone = load('clidsum_mdialbart', 'large,target=de,stages=pretraining')
    runs.check_config(alone)
    assert [*alone.stages] == ['stage1'] and alone.stages.stage1 == first
    assert {name.split('_')[1] for name in alone.evals.dev.tasks} == {
        f'xmediasum40k{kind}' for kind in ('infilling', 'permutation', 'summarize', 'summary')
    }
    tuned = load('clidsum_mdialbart', 'large,target=de,stages=finetuning')
    assert tuned == load('clidsum_mdialbart', 'large,target=de,pretraining=none')
    for variant, message in (
        ('pretraining=acl', "unknown task of pre-training 'acl'; nearest: aci"),
        ('pretraining=mt+mt', 'names a task twice'),
        ('pretraining=none,stages=pretraining', 'has no stage to pre-train'),
    ):
        with pytest.raises(UserError, match=message):
            load('clidsum_mdialbart', variant)


@pytest.mark.parametrize('size', ['mbert', 'xlmr'])
def test_retrievers_move_the_layers_that_the_paper_moves(size):
    """Not embeddings, the two lowest layers and the pooler (arXiv:2106.02017, section 4.3)."""
    moved, left = moving('mrs_retriever', size)
    layers = {name.split('/')[1] for name in moved}
    assert layers == {f'layers_{i}' for i in range(2, 12)}
    assert {name.split('/')[0] for name in moved} == {'left', 'right'}
    assert {name.split('/')[1] for name in left} == {
        'token_embedder', 'position_embedder', 'type_embedder', 'embeddings_norm',
        'layers_0', 'layers_1', 'pooler',
    }  # fmt: skip


def test_generators_move_all_but_the_embeddings():
    moved, left = moving('mrs_generator', 'mbart')
    assert left == {'token_embedder/embedding', 'final_logits_bias'}
    assert {name.split('/')[0] for name in moved} == {'encoder', 'decoder'}


@pytest.mark.parametrize(
    'name, variant, num_steps, warmup_steps',
    [
        # Epochs x 80 % of the pairs in table 1 of arXiv:2106.02017 / batch size.
        ('mrs_retriever', 'mbert,scenario=mono,source=de', 291_357, 2_913),
        ('mrs_retriever', 'xlmr,scenario=mono,source=en', 3_046_934, 30_469),
        ('mrs_retriever', 'mbert,scenario=zero_shot', 3_046_934, 30_469),
        ('mrs_retriever', 'mbert,scenario=mt,source=ja', 742_187, 7_421),
        ('mrs_retriever', 'mbert,scenario=multi', 1_755_028, 17_550),
        ('mrs_retriever', 'mbert,scenario=mixed,source=ja', 1_484_375, 14_843),
        ('mrs_generator', 'mbart,scenario=mono,source=de', 5_000, 1_000),
        ('mrs_generator', 'mbart,scenario=zero_shot', 152_346, 30_469),
        ('mrs_generator', 'mbart,scenario=mt,source=ja', 18_554, 3_710),
        ('mrs_generator', 'mbart,scenario=multi', 40_000, 8_000),
        ('mrs_generator', 'mbart,scenario=mixed,source=ja', 37_109, 7_421),
    ],
)
def test_settings_of_reply_suggestion_take_the_papers_steps(name, variant, num_steps, warmup_steps):
    (stage,) = load(name, variant).stages.values()
    assert (stage.num_steps, stage.optimizer.warmup_steps) == (num_steps, warmup_steps)
    scenario = benchmarks.parse_mixture(stage.mixture)
    assert stage.split == ('mt_train' if 'scenario=mt' in variant else 'train') == scenario.split
    assert stage.mixture.endswith('.equal') == (scenario.name == 'multi')


def test_transfer_is_not_chosen_by_the_languages_it_is_asked_for():
    config = load('mrs_retriever', 'mbert,scenario=zero_shot')
    assert tuple(config.evals.dev.tasks) == ('mrs_retrieval_en_en',)
    assert config.best.score.startswith('dev/') and len(config.evals.test.tasks) == 9
    assert tuple(load('xdailydialog', 'scenario=zero_shot').evals.test.tasks) == (
        'xdailydialog_retrieval_de_de', 'xdailydialog_retrieval_it_it',
        'xdailydialog_retrieval_zh_zh',
    )  # fmt: skip


def test_what_else_may_choose_a_retriever_or_a_model_of_translated_pairs():
    config = load('mrs_retriever', 'mbert,scenario=mixed,source=ja,dev=translated,validation=code')
    assert (config.evals.dev.split, config.evals.dev.tasks) == (
        'mt_validation', ('mrs_retrieval_ja_ja',),
    )  # fmt: skip
    assert config.best.score == 'dev/mean/mrs_validation_rouge'
    assert (config.evals.dev.lm_weight, config.evals.test.lm_weight) == (0.5, 0.0)
    assert 'lm_weights' not in config.evals.dev
    config_lib.check_names(config)
    swept = load('mrs_retriever', 'mbert,scenario=mono,source=ja,validation=sweep')
    config_lib.check_names(swept)
    assert swept.evals.dev.lm_weights == (0.45, 0.5, 0.55)
    assert swept.best.score == config.best.score and 'lm_weights' not in swept.evals.test
    sample = load('mrs_generator', 'scenario=mt,source=de,dev=translated')
    assert sample.best.score == 'dev/mean/loss' and sample.evals.dev.split == 'mt_validation'
    with pytest.raises(UserError, match="scenario 'multi' has no translated pairs"):
        load('mrs_retriever', 'scenario=multi,dev=translated')


def test_what_a_config_need_not_say():
    """The defaults and what each file must add are all keys of a config, and no more."""
    added = {'data', 'model', 'objective', 'batches', 'stages', 'evals'}
    assert set(config_lib.defaults()) == {*config_lib.CONFIG_KEYS, *blocks.LATER_KEYS} - added
