"""The corpora of the benchmarks: where each is, its licence, and how a machine gets it."""
