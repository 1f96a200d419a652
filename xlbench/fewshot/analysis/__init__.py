"""Analysis of sweeps of few-shot transfer: the paper's tables and figures.

A sweep need not be finished; nothing here trains.

  sweeps       reads the workdir of a sweep, its groups of adaptations that differ in the bucket
               alone, and its source training
  systems      sweeps that adapt one source-trained model: their tables, and when the paper's scores
               compare
  paper        what arXiv:2012.15682 prints
  tables       the paper's tables, and what the gains of transfer go with
  figure_data  the numbers of the figures
  figures      the paper's figures
"""
