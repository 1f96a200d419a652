"""Experiment configs in plain Python, one file each."""
