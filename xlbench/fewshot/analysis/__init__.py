"""Analysis of sweeps of few-shot transfer: the paper's tables and figures.

A sweep need not be finished; nothing here trains.

  sweeps       reads the workdir of a sweep, and that of its source training
  groups       adaptations that differ in the bucket alone, their scores, and cells of tables
  systems      sweeps that adapt one source-trained model: their tables, and when the paper's scores
               compare
  paper        what arXiv:2012.15682 prints
  factors      what the gains of transfer go with: tables 3 and 14
  tables       the paper's other tables
  figure_data  the numbers of the figures
  figures      the paper's figures
"""
