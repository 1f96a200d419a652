r"""mT5 on MTG: story endings, questions and titles in English, German, French and Spanish.

  python -m xlbench.train --config=configs/mtg_mt5.py

trains a small model on the sample corpora, in minutes on two CPU cores. A size selects the setting
of the paper (arXiv:2108.07140) and the official files below `data`:

  python -m xlbench.train --config=configs/mtg_mt5.py:base,scenario=cross,task=qg,source=en

Training has the paper's two stages (appendix A): first the rough, machine-translated data, then the
annotated data, from the best checkpoint of the first stage. Both stages are scored on the test set.
In multi_multitask the paper's mT5, whose size it does not state, reaches a ROUGE-L of 16.0 for
story endings, 35.1 for questions and 27.2 for titles, averaged over the languages (Table 14; the
other scenarios: Tables 11 to 19). Estimated time of training, at 40 % of the peak (`python -m
xlbench.plan --topology=h100:8`): in multi_multitask 11 hours for base on one H100, and on eight of
them 5 hours for large, 16 for xl and 62 for xxl; for base on questions from English 1.5 hours on
one.

Keys after the colon: size (sample, small, base, large, xl, xxl), scenario (mono, mono_multitask,
multi, multi_multitask, cross, zero_shot), task (sg, qg, tg), source, target, rate (proportional,
equal, temperature, capped), version (1, 2).

version=2 is the second version of the data, with Chinese (zh) and summaries (task=summ), as far as
the data root has its files (tasks/mtg2.py). Its stages have as many steps as those of version 1,
and summaries as many as titles: --config.stages.stage1.num_steps and so on set what you want.

Two more sizes, xxl_v5p_4x4x4 and xxl_v6e_16x16, are XXL with texts of up to 1,024 and 128 tokens on
a whole TPU slice. `xlbench plan --topology=v5p:4x4x4` says without a TPU whether they fit, and how
fast they can be.
"""

from ml_collections import ConfigDict

from xlbench import config as config_lib
from xlbench.benchmarks import MTG, MTG2, Scenario
from xlbench.config import presets
from xlbench.system import errors

SIZES = ('sample', 'small', 'base', 'large', 'xl', 'xxl')
# Chosen by plans; they take 35.8 of 95 GiB and 19.7 of 32 GiB a device. `fsdp` leaves every device
# 128 or more columns of a kernel: narrower parts TPUs gather by adding up padded copies, at twice
# the bytes.
SLICES = {
    'xxl_v5p_4x4x4': dict(batch_size=256, mesh=dict(data=4, fsdp=16)),
    'xxl_v6e_16x16': dict(batch_size=1024, mesh=dict(data=8, fsdp=16, tensor=2), remat='dots'),
}


def get_config(variant: str = '') -> ConfigDict:
    """The config of one size and scenario."""
    scenario, size = choose(variant, (*SIZES, *SLICES))
    if size in SLICES:
        lengths = dict(inputs=1024, targets=128)
        return on_slice(scenario, size.partition('_')[0], lengths=lengths, **SLICES[size])
    return sample(scenario) if size == 'sample' else paper(scenario, size)


def choose(variant: str, sizes: tuple[str, ...]) -> tuple[Scenario, str]:
    """Parses the text after the colon: the scenario, and one of the sizes."""
    chosen = config_lib.variant(
        variant, sizes, scenario='multi_multitask', task=None, source=None, target=None,
        rate='proportional', version=('1', '2'),
    )  # fmt: skip
    size, rate, version = (chosen.pop(key) for key in ('size', 'rate', 'version'))
    benchmark = MTG if version == '1' else MTG2
    scenario = benchmark.scenario(chosen.pop('scenario'), **chosen).with_rate(rate)
    if version == '2' and size == 'sample':
        raise errors.UserError(
            f'the sample is of version 1; with version=2 choose the size {sizes[1]} or a larger one'
        )
    return scenario, size


def sample(scenario: Scenario) -> ConfigDict:
    """The embedded corpora and a model of a few million parameters."""
    c = config_lib.defaults()
    c.data = presets.sample_data('sample')
    c.model = presets.fresh_model('mt5')
    c.objective = presets.generation()
    c.batches = dict(
        batch_size=8, lengths=dict(inputs=192, targets=48), packing=True, length_buckets=1
    )
    # Steps relative to the parameters suit T5's wide initial values: after 24,500 examples of this
    # corpus the loss was 0.46 with Adafactor and 0.77 with AdamW at 3e-3. A warm-up is a share of
    # the steps, so that it stays one in a stage of another length.
    first = dict(name='adafactor', schedule='linear', learning_rate=3e-2, warmup_steps=50 / 900)
    second = first | dict(learning_rate=9e-3, warmup_steps=50 / 300)
    c.stages = dict(
        stage1=scenario.stage(900, first | dict(final_fraction=0.3), split='rough_train'),
        stage2=scenario.stage(300, second | dict(final_fraction=0.0), start_from='best'),
    )
    lengths = dict(inputs=128, targets=32)
    dev = dict(num_examples=48, batch_size=48)
    test = dict(decode=True, num_examples=0, batch_size=64)
    presets.evaluate(c, scenario, 300, presets.LOSS, dev=dev, test=test, lengths=lengths)
    c.baselines = presets.TEXT_BASELINES
    return c


def paper(scenario: Scenario, size: str, batch_size: int = 32) -> ConfigDict:
    """The paper's setting; where it is silent (lengths, optimizer) the choice is ours.

    Epochs become steps by the sizes of the paper's Table 2: 20 epochs of the rough data, 10 of the
    annotated data, at the paper's batch 32 or another, of every task that the scenario trains.
    """
    largest = MTG.split_sizes['tg']  # Stands for tasks of version 2 alone.
    rough, annotated = (
        sum(MTG.split_sizes.get(name.split('_')[1], largest)[split] for name in scenario.train)
        for split in ('rough_train', 'train')
    )
    c = config_lib.defaults()
    c.data = dict(root='data', vocabulary='mt5', sample=False)
    c.model = presets.public_model('mt5', size, vocab_size=250112)
    c.init_from = f'google/mt5-{size}'
    c.objective = presets.generation(z_loss=1e-4)
    c.mesh.update(data=1, fsdp=-1)
    lengths = dict(inputs=512, targets=64)
    # Without packing, so that a batch has the paper's number of examples.
    c.batches = presets.unpacked(batch_size, lengths, length_buckets=4, equal_rows=True)
    optimizer = dict(name='adafactor', learning_rate=1e-3, schedule='constant', warmup_steps=0.0)
    rough_steps, steps = 20 * rough // batch_size, 10 * annotated // batch_size
    c.stages = dict(
        stage1=scenario.stage(rough_steps, optimizer, split='rough_train'),
        stage2=scenario.stage(steps, optimizer, start_from='best'),
    )
    test = dict(decode=True, num_examples=0)
    presets.evaluate(c, scenario, 2000, presets.LOSS, test=test, batch_size=64)
    c.baselines = presets.TEXT_BASELINES
    return c


def on_slice(
    scenario: Scenario,
    size: str,
    *,
    batch_size: int,
    lengths: dict[str, int],
    mesh: dict[str, int],
    remat: str = 'none',
) -> ConfigDict:
    """Batches that keep many devices busy; as many epochs as in the paper."""
    c = paper(scenario, size, batch_size)
    c.model.remat = remat
    c.mesh.update(mesh)
    for block in (c.batches, *c.evals.values()):
        block.update(batch_size=batch_size, lengths=lengths)
    return c


def with_model(
    c: ConfigDict, family: str, size: str, checkpoint: str, learning_rate: float, **options: float
) -> None:
    """Puts another model into a config, and AdamW with 2,500 steps of warm-up or a tenth."""
    is_sample = not c.init_from  # From nothing, which needs a larger learning rate.
    # Without the z-loss of mT5's own fine-tuning, which neither the paper nor these models have.
    c.objective = presets.generation()
    if is_sample:
        c.model = presets.fresh_model(family, remat='none')
    else:
        c.model = presets.public_model(family, size)
        c.data.vocabulary = c.init_from = checkpoint
    for stage in c.stages.values():
        warmup = 100 / stage.num_steps if is_sample else min(0.1, 2500 / stage.num_steps)
        rate = 2e-3 if is_sample else learning_rate
        stage.optimizer = presets.adamw(rate, warmup, **options)
