"""Opens any trained model that answers: `predict.load`."""

from collections.abc import Mapping

from xlbench.commands import BATCH_SIZE
from xlbench.inference import loading
from xlbench.inference.generator import Model
from xlbench.inference.labeller import KINDS, Classifier, Tagger
from xlbench.inference.language_model import LanguageModel
from xlbench.inference.retriever import Retriever
from xlbench.parallel import partitioning
from xlbench.system.errors import UserError


def load(
    spec: str,
    *,
    mesh: Mapping[str, int] | None = None,
    batch_size: int = BATCH_SIZE,
    max_input_length: int = 0,
    dtype: str = '',
    responses: str = '',
    lm_weight: float | None = None,
) -> Model | Retriever | Classifier | Tagger:
    """The model in a workdir, a folder of Hugging Face's form or behind a hub name.

    Args:
      spec: see the top of xlbench/predict.py.
      mesh: sizes of its axes, as in a config; default: every device has its own rows.
      batch_size: texts that are answered together.
      max_input_length: tokens; default: that of the run's final evaluation, else 512 or what the
        model holds.
      dtype: of activations: 'float32' or 'bfloat16'; default: the model's own.
      responses, lm_weight: of a retriever, see Retriever.

    Returns:
      A Retriever for a run whose objective is retrieval, a Classifier for classification, a Tagger
      for tagging, otherwise a Model; one without an encoder is a LanguageModel.

    Raises:
      UserError: there is no such model, or it cannot be run like this.
    """
    devices = partitioning.make_mesh(**mesh or {})
    shards = partitioning.batch_shards(devices)
    if batch_size < 1 or batch_size % shards:
        needed = '1 or more'
        if shards > 1:
            needed = f'a multiple of {shards}, the devices (replica x data x fsdp) that share rows'
        raise UserError(f'batch_size is {batch_size}; it must be {needed}')
    if max_input_length and max_input_length < 2:
        raise UserError(f'max_input_length is {max_input_length}; 2 or more tokens are allowed')
    opened = loading.open_model(spec, devices, {'dtype': dtype} if dtype else {})
    most = loading.max_inputs(opened.model)
    if most and max_input_length > most:
        raise UserError(
            f'max_input_length is {max_input_length}, but {spec} has positions for {most} tokens; '
            f'set it to {most} or less'
        )
    sizes = dict(
        batch_size=batch_size, max_input_length=max_input_length or opened.lengths['inputs']
    )
    if opened.objective.view == 'retrieval':
        return Retriever(spec, opened, devices, responses=responses, lm_weight=lm_weight, **sizes)
    for name, value in (('responses', responses or None), ('lm_weight', lm_weight)):
        if value is not None:
            does = 'gives labels' if opened.labels else 'writes its answers'
            raise UserError(f'{name} is for retrievers, and {spec} {does}; leave it out')
    if kind := KINDS.get(type(opened.objective).view):
        return kind(spec, opened, devices, **sizes)
    kind = LanguageModel if opened.model.decoder_only else Model
    return kind(spec, opened, devices, **sizes)
