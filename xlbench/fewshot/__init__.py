"""Few-shot cross-lingual transfer (arXiv:2012.15682): sweeps over buckets, and their analysis.

`python -m xlbench.fewshot --config=configs/fewshot.py` runs a sweep, `python -m
xlbench.fewshot report WORKDIR` makes the paper's tables and figures of it, and `python -m
xlbench.fewshot attention WORKDIR` makes table 5.

  settings       the methods of the paper, the block config.adapt, and what it asks for
  corpus         the buckets of one language as arrays, its dev and test sets as batches
  frozen         an encoder that stays as it is
  lanes          what adaptations by one method read and train, and their programs on the devices
  adaptation     adapts one model to one language in one way, as many lanes as fit at a time
  results        the rows of a sweep's results, their journal, and files of predicted labels
  command        its flags, and the config.json of its workdir
  runner         the source-trained model, adapted for group after group
  sweep          a whole sweep, and the data that it reads
  analysis       what comes of sweeps: tables, figures, attention
  attention      changes of attention by adapting, and the program that makes table 5
  report         the program that makes tables and figures
"""
