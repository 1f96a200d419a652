"""Results of runs as tables and pages.

  results  reads the scores of workdirs
  tables   which rows and columns a table has
  grids    a table as text, Markdown, LaTeX or CSV
  page     a report as one HTML page
"""

__all__ = [
    'grids',
    'page',
    'results',
    'tables',
]
