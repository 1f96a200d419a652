"""LoRA adapters as the PEFT library stores them: two matrices for each adapted linear layer.

A folder with `adapter_config.json` and `adapter_model.safetensors`; `PeftModel.from_pretrained`
puts it onto the base model. What a fused kernel of ours holds becomes one adapter a part.
"""

from collections.abc import Mapping

import numpy as np

from xlbench.huggingface.mapping import Entry
from xlbench.system.errors import UserError
from xlbench.system.files import Json

CONFIG_FILE = 'adapter_config.json'
TENSORS_FILE = 'adapter_model.safetensors'


def adapter(
    entries: Mapping[str, Entry], leaves: Mapping[str, np.ndarray], base: str
) -> tuple[dict[str, np.ndarray], dict[str, Json]]:
    """The tensors and the config of an adapter.

    Args:
      entries: the family's table, our parameter -> its tensors.
      leaves: beside each adapted kernel, lora_a [parts?, rank, in], lora_b [parts?, out, rank] and
        lora_scale [], by their names.
      base: name or folder of the model that the adapter belongs to.

    Raises:
      UserError: an adapted kernel is no linear layer of the public model, such as those of GPT-2,
        which are transposed and hold queries, keys and values in one.
    """
    tensors: dict[str, np.ndarray] = {}
    modules: list[str] = []
    rank, scale = 0, 0.0
    for scope in sorted({name.rpartition('/')[0] for name in leaves}):
        name = f'{scope}/kernel'
        if name not in entries or entries[name].form != 'same':
            raise UserError(
                f'--lora=separate writes adapters of linear layers alone, and the public model has '
                f'none for {name}; leave the flag out, and the adapter is merged into the weights'
            )
        parts = entries[name].tensors
        both = (leaves[f'{scope}/lora_{side}'] for side in 'ab')
        a, b = (list(x) if len(parts) > 1 else [x] for x in both)
        rank, scale = a[0].shape[0], float(leaves[f'{scope}/lora_scale'])
        for tensor, part_a, part_b in zip(parts, a, b, strict=True):
            module = tensor.removesuffix('.weight')
            modules.append(module)
            tensors[f'base_model.model.{module}.lora_A.weight'] = np.asarray(part_a)
            tensors[f'base_model.model.{module}.lora_B.weight'] = np.asarray(part_b)
    config = {
        'peft_type': 'LORA',
        'base_model_name_or_path': base,
        'r': rank,
        'lora_alpha': scale * rank,
        'lora_dropout': 0.0,
        'bias': 'none',
        'target_modules': modules,
        'inference_mode': True,
    }
    return tensors, config
