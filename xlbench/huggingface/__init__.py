"""Hugging Face checkpoints: their files, and a module with the names of tensors for each family."""
