"""Results of runs as tables and pages.

  results   reads the scores of workdirs
  adding    further scores for finished results
  scored    writes results, and the folders of systems that are no runs
  systems   what is compared: runs, baselines, a paper's systems
  sections  sorts runs by benchmark and split; which systems are best
  notes     what has to be said beside the numbers
  predictions  the texts behind a result
  origins   the commands that made a workdir, its time and hardware
  layout    rows and columns of a section's tables, also in its paper's form; those of one run
            as plain text
  paper_tables  the tables and figures of a paper, from its numbers or from runs
  drawing   colours and fonts of figures, and their files
  tables    a table: cells of numbers under grouped columns; a figure with its numbers
  render    a table for the screen, as Markdown, LaTeX or CSV
  documents  all tables as Markdown, CSV, LaTeX or HTML, and their files
  leaderboard  the texts of systems, in the form of MTG's leaderboard
  lengths   how long the texts of data are
  page      a report as one HTML page
  comparisons  differences between the systems of a section
  statistics  tests of differences and their tables, intervals, correlations
"""
