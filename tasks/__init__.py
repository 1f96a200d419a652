"""The benchmarks as SeqIO tasks and mixtures: a file each, imported when a name asks for it."""
