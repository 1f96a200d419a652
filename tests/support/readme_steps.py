"""How commands of the documentation are run: flags that make them short, why some are not run."""

import dataclasses
from collections.abc import Callable

from newcomer import Newcomer


@dataclasses.dataclass(frozen=True)
class Step:
    """How one command is run.

    Attributes:
      flags: what is added to it.
      prepare: what is done before.
      prints: a text that it prints.
      leaves: a file that is there afterwards.
      skip: why it is not run.
    """

    flags: str = ''
    prepare: Callable[[Newcomer], None] | None = None
    prints: str = ''
    leaves: str = ''
    skip: str = ''


def steps(*counts: int) -> str:
    """Flags for stages of so many steps."""
    return ' '.join(
        f'--config.stages.stage{i}.num_steps={count} '
        f'--config.stages.stage{i}.optimizer.warmup_steps=1'
        for i, count in enumerate(counts, 1)
    )


# A row of padding costs as much as an example.
SCORE_FEW = ' '.join(
    f'--config.evals.{name}.{key}=8'
    for name in ('dev', 'test')
    for key in ('num_examples', 'batch_size')
)
# What is printed and left does not depend on the layers, and each takes seconds to compile.
SHALLOW = '--config.model.num_encoder_layers=1 --config.model.num_decoder_layers=1'
TINY = '--config.model.size=sample --config.model.vocab_size=0 --config.model.dtype=float32'
MTG_SHORT = f'{steps(3, 2)} {SCORE_FEW} {SHALLOW}'
MTG_TINY = f'{MTG_SHORT} {TINY} --config.data.vocabulary=data/sample/sample.model'
FEW_ROWS = '--config.batches.length_buckets=1 --config.batches.batch_size=4'
MTG_FRESH = f'{MTG_TINY} --config.init_from= {FEW_ROWS}'
REPLIES_SHORT = f'{steps(3)} --config.model.num_layers=1'
REPLIES_TINY = (
    f'{steps(2)} {TINY} --config.model.num_layers=1 --config.init_from= '
    '--config.data.vocabulary=data/sample/sample_mrs.model --config.batches.batch_size=16 '
    '--config.trainable="(\'.*\',)"'
)
CLIDSUM_SHORT = f'{steps(3)} {SCORE_FEW} {SHALLOW}'.replace('stage1', 'train')
SOURCE_SHORT = f'{steps(4)} --config.model.num_layers=1'.replace('stage1', 'source')
SWEEP_SHORT = (
    f'{SOURCE_SHORT.replace("config.", "config.source.")} --config.adapt.buckets=2 '
    "--config.adapt.epochs=1 --config.adapt.shots='(1, 4)' --config.adapt.learning_rates='(1e-3,)'"
)

# Why a command is not run.
CI = 'what .ci/run does'
PARSED = 'like those of your_own.md; tests/pages_test.py checks its flags'
TRIMMED = 'tests/inference/trimming_test.py does so with a small encoder'
EXHIBITS = 'tests/reporting/exhibits_test.py makes them; reports.md runs one such command'
RANKED = 'tests/evaluators/evaluate_test.py runs such commands'
PREFERRED = 'tests/judgement/judgement_test.py runs such commands'
REDDIT = 'needs dumps of Reddit; tests/tasks/mrs_build_test.py has made-up ones'
RENTED = 'needs machines that are rented'

# How commands begin.
VENV = '.venv/bin/python -m '
MTG = 'python -m xlbench.train --config=configs/mtg_mt5.py'
CLIDSUM = 'python -m xlbench.train --config=configs/clidsum_mbart.py'
MDIALBART = 'python -m xlbench.train --config=configs/clidsum_mdialbart.py'
TRANSLATION = 'python -m xlbench.train --config=configs/translation.py'
MRS = 'python -m xlbench.train --config=configs/mrs_retriever.py'
MRS_GENERATOR = 'python -m xlbench.train --config=configs/mrs_generator.py'
RANKS = 'python -m xlbench.evaluate RUNS/generator --num_beams=6'
SWEEP = 'python -m xlbench.fewshot --config=configs/fewshot.py'
FINETUNE = 'python -m xlbench.train --config=configs/finetune.py'
PREDICT = 'python -m xlbench.predict RUNS'
TRANS_SUM = (
    'python -m xlbench.translate --engine=RUNS/translator --source_lang=en --target_lang=de '
    '--input_task=clidsum_xsamsum_en_de'
)
CHATS, OF_DE = 'data/sample/clidsum/XSAMSum', '.translated.de.jsonl'
MTG_BUILD = 'python -m xlbench.data mtg_build'
