"""Fused attention for TPUs, GPUs and CPUs.

  attention  attention over all devices, with its gradient
  choice     whether a model takes it
  cpu        what a CPU computes, in blocks of queries
  forms      sizes of a call, arrays in whole blocks
  gpu        what one GPU computes
  tpu        what one TPU computes
"""
