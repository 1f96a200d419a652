"""Fused attention for TPUs and GPUs.

  attention  attention over all devices, with its gradient
  choice     whether a model takes it
  forms      sizes of a call, arrays in whole blocks
  gpu        what one GPU computes
  kernels    what a TPU's core does
  tpu        what one TPU computes
"""

__all__ = [
    'attention',
    'choice',
    'forms',
    'gpu',
    'kernels',
    'tpu',
]
