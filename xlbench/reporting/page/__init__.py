"""The report as one HTML page.

  document  the page and its tables
  template  fills a page's template; judges' pages are made by it, too
  overview  what was compared, the answer; speed, cost and provenance of runs
  style     the order, colours and markers of systems; axes and legends of plots
  plots     ranks of systems, maps of languages, learning curves
  examples  the texts that the browser of examples shows
"""
