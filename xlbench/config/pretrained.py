"""The model that a user brings: config.model.from names a folder, which describes it.

  --config.model.from=FOLDER      a folder in the form of Hugging Face, or a name of its hub

becomes the family that the objective trains, with the sizes of the folder's config.json, its
vocabulary, and its weights to start from. The run's config.json then has all of these keys, and
nothing later reads `from`. Values from the command line go first: --config.model.num_layers=4.
Dropout is the config's, unless the model was trained without any.
"""

import math
import os
import pathlib
from collections.abc import Collection
from typing import TYPE_CHECKING

from ml_collections import ConfigDict

from xlbench.config.places import check_source
from xlbench.models.families import ENCODERS, MODEL_TYPES, variant_of
from xlbench.settings import checks
from xlbench.settings.blocks import Mesh
from xlbench.settings.checks import is_sweep, objective_name
from xlbench.system.errors import UserError
from xlbench.system.files import Setting

if TYPE_CHECKING:  # Nothing of it is needed where no config says `from`.
    from xlbench.huggingface.described import Described

FROM = 'from'
# As other configs round their tables, see runs.build_model.
_MULTIPLE = 128
# What a config says of training and not of the model that it was given.
_RATES = ('dropout_rate', 'attention_dropout_rate', 'classifier_dropout_rate')


def resolve(config: ConfigDict, given: Collection[str] = ()) -> None:
    """Replaces config.model.from in place, in a run or the source of a sweep, by what it names.

    Keys that are `given` on the command line stay: 'model.num_layers', 'init_from'.

    Raises:
      UserError: there is no such folder, or its model is none that the objective trains.
    """
    prefix, run = ('source.', config.get('source')) if is_sweep(config) else ('', config)
    model = run.get('model') if isinstance(run, ConfigDict) else None
    if not isinstance(model, ConfigDict) or FROM not in model:
        return
    given = {key.removeprefix(prefix) for key in given if key.startswith(prefix)}
    spec, objective, where = model[FROM], objective_name(run), f'config.{prefix}model.{FROM}'
    if not isinstance(spec, str) or not spec:
        raise UserError(
            f'{where} is {spec!r}; name a folder in the form of Hugging Face, or a name of its '
            f'hub: --{where}=FOLDER'
        )
    check_source(spec, where)
    if (pathlib.Path(os.path.expanduser(spec)) / 'checkpoints').is_dir():
        raise UserError(
            f'{where}={spec} is a workdir; start from it with config.init_from, and the family and '
            'size that it was trained with'
        )
    from xlbench.huggingface import described

    folder = described.describe(spec)
    family = _family(folder.model['family'], objective, f'{where}={spec}')
    block = _model(family, model, folder, given)
    if 'model.vocab_size' not in given:
        block |= _padding(block, int(run.get('mesh', {}).get('tensor', Mesh.tensor)))
    with config.unlocked():
        run.model = ConfigDict(block)
        if 'init_from' not in given:
            run.init_from = folder.start
        if 'data.vocabulary' not in given:
            run.data.vocabulary = folder.start
            # Most of a large vocabulary does not occur, and costs more than the layers.
            if family in ENCODERS and 'embedding_rows' not in given and not run.lora.rank:
                run.embedding_rows = 'occurring'
            if 'vocabulary_size' in run.data:  # It trains one where there is none.
                run.data.vocabulary_size = 0


def _model(
    family: str, before: ConfigDict, folder: 'Described', given: Collection[str]
) -> dict[str, Setting]:
    """The block of a model: sizes are the folder's, settings of training the config's."""
    fields = checks.family_fields(family)
    block: dict[str, Setting] = {key: value for key, value in before.items() if key in fields}
    block |= {key: value for key, value in folder.model.items() if key in fields}
    if family == 'dual_encoder':
        block |= {key: value for key, value in folder.sentences.items() if value != ''}
    if 'num_labels' in fields:
        block['num_labels'] = 0  # The data's.
    block['family'] = family
    for key, value in before.items():
        is_rate = key in _RATES and key in fields and block.get(key) != 0.0
        if (f'model.{key}' in given or is_rate) and key not in (FROM, 'size'):
            block[key] = value
    if family in ENCODERS:  # Whether the encoder has a pooler, fresh or not.
        own = MODEL_TYPES[variant_of(block)].head  # A layer of the head.
        poolers = {'sequence_classifier': not own, 'dual_encoder': block.get('pooling') == 'pooler'}
        block['has_pooler'] = poolers.get(family, False)
    return block | (_prefixes(block, folder.start) if family == 'dual_encoder' else {})


def _family(theirs: str, objective: str, where: str) -> str:
    """The family that an objective trains of a checkpoint of another."""
    families = checks.trained_families().get(objective)
    if families is None:  # Of those that write texts, the checkpoint's own.
        return 'encoder_decoder' if theirs in ENCODERS else theirs
    family = theirs if theirs in families else families[0]
    if family != theirs and not {family, theirs} <= set(ENCODERS):
        raise UserError(
            f'{where} is a {theirs} model, and config.objective.name={objective} trains a {family}'
        )
    return family


def _padding(block: dict[str, Setting], parts: int) -> dict[str, int]:
    """Adds rows to the folder's, so that config.mesh.tensor can cut the table into equal parts.

    The command line may say how many rows are added, so that a run goes on with another mesh. Parts
    of -1 stand for the devices that are left, which nobody knows yet.
    """
    rows, padding = int(block['vocab_size']), block.get('vocab_padding')
    if padding is None and (parts == -1 or (parts > 1 and rows % parts)):
        padding = -rows % math.lcm(_MULTIPLE, max(parts, 1))
    return {'vocab_size': rows + padding, 'vocab_padding': padding} if padding else {}


def _prefixes(block: dict[str, Setting], vocabulary: str) -> dict[str, Setting]:
    """The ids of the prompts that stand before each side's texts."""
    from xlbench.data import tokenizers

    prompts = {side: str(block.get(f'{side}_prompt') or '') for side in ('left', 'right')}
    if not any(prompts.values()):
        return {}
    tokenizer = tokenizers.load(vocabulary, '')
    return {
        f'{side}_prefix': tuple(tokenizer.prompt_ids(prompt)) if prompt else ()
        for side, prompt in prompts.items()
    }
