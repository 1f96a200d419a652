"""The benchmarks as SeqIO tasks and mixtures: one file each, imported when a name asks for it."""
