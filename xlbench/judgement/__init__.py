"""Human judgement of texts: pages for judges, their answers, and the tables of a paper.

  agreement   how much judges agree, and best-worst scores
"""

__all__ = ['agreement']
