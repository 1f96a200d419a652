"""Experiment configs: plain Python, a file each."""
