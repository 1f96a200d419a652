"""The report as one HTML page.

  document  the page, its tables and its plots
  template  fills a page's template; judges' pages are made by it, too
  overview  what was compared, the answer, and the ranks of systems
  style     the order, colours and markers of systems; plots of matplotlib
  curves    losses and scores by step
  heatmaps  scores by languages and tasks
  examples  the texts that the browser of examples shows
  origins   speed, cost and provenance of runs
"""

__all__ = ['curves', 'document', 'examples', 'heatmaps', 'origins', 'overview', 'style', 'template']
