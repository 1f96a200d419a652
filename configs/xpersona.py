r"""Replies in dialogues of invented persons, XPersona in seven languages, by a retriever.

XPersona (arXiv:2003.07568) has a few hundred dialogues a language; no paper has scores of the task.
The encoder is one of yours for both sides, in the setting of configs/xdailydialog.py:

  python -m xlbench.train --config=configs/xpersona.py:encoder,scenario=zero_shot \
      --config.model.from=FOLDER --workdir=RUNS/xpersona_zero_shot

Keys after the colon: size (encoder), scenario (mono, zero_shot, multi), source (the language of
mono; of zero_shot and multi the one language to evaluate).
"""

import functools

from ml_collections import ConfigDict

from xlbench.benchmarks import XPERSONA
from xlbench.config import presets
from xlbench.configs import xdailydialog


def get_config(variant: str = '') -> ConfigDict:
    """The config of one setting."""
    scenario_of = functools.partial(XPERSONA.scenario, task='retrieval')
    defaults = dict(scenario='multi', source=None)
    scenario, _ = presets.choose(variant, ('encoder',), scenario_of, **defaults)
    return xdailydialog.brought(scenario)
