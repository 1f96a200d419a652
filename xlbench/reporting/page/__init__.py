"""The report as one HTML page.

  document  the page: the answer, tables; speed, cost and provenance of runs
  template  fills a page's template; judges' pages are made by it, too
  plots     maps of languages, learning curves; the order, colours and markers of systems
  examples  the texts that the browser of examples shows
"""
