"""Hugging Face checkpoints: one file for the files, one for each family's names."""
