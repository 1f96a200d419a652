"""What comes of sweeps of few-shot transfer: the paper's tables and figures.

  sweeps       reads the workdir of a sweep
  groups       adaptations that differ in the bucket alone, and their scores
  systems      sweeps that adapt one source-trained model, and when the paper's scores compare
  paper        what arXiv:2012.15682 prints
  lexical      overlap of vocabularies, and correlations
  factors      what the gains of transfer go with
  tables       the paper's tables
  figure_data  the numbers of the figures
  figures      the paper's figures
  attention    what adapting makes the first token look at
"""

__all__ = [
    'attention',
    'factors',
    'figure_data',
    'figures',
    'groups',
    'lexical',
    'paper',
    'sweeps',
    'systems',
    'tables',
]
