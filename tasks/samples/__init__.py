"""Made-up corpora for trying things out: text from grammars, in the layouts of the benchmarks."""
