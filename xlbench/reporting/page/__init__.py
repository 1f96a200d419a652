"""The report as one HTML page.

  document  the page and its plots
  markup    elements of HTML that escape what is in them
  overview  what was compared, and the answer
  tables    a table, with tools to sort, compare and save it
  style     the order, colours and markers of systems; plots of matplotlib in the page
  curves    losses and scores by step
  heatmaps  scores by languages and tasks
  distributions  ranks, scores and lengths
  examples  the texts that the browser of examples shows
  origins   speed, cost and provenance of runs
"""

__all__ = [
    'curves',
    'distributions',
    'document',
    'examples',
    'heatmaps',
    'markup',
    'origins',
    'overview',
    'style',
    'tables',
]
