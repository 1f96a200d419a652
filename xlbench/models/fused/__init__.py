"""Fused attention for TPUs.

  attention  attention over all devices, with its gradient
  choice     whether a model takes it
  kernels    what a TPU's core does
"""

__all__ = [
    'attention',
    'choice',
    'kernels',
]
