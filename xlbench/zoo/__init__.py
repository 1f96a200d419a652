"""A model zoo: one page on experiments, made from their workdirs by `python -m xlbench.zoo`."""
