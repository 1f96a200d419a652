"""xlbench: cross-lingual models in JAX, trained and evaluated on published benchmarks."""
