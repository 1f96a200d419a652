"""Few-shot cross-lingual transfer (arXiv:2012.15682): sweeps over buckets, and their analysis.

`python -m xlbench.fewshot --config=configs/fewshot.py` runs a sweep, and
`python -m xlbench.fewshot.report WORKDIR` makes the paper's tables and figures of it.
"""
