"""Fused attention for TPUs, GPUs and CPUs, over all devices; choice.py says who takes it."""
