"""Human judgement of texts: pages for judges, their answers, and the tables of a paper.

  scales       aspects, levels and guidelines
  sources      what systems wrote, from workdirs and files
  studies      which judge sees what in which order, and the key to it
  pages        a judge's page; page.html, page.css, page.common.js and page.js are its parts
  corrections  sheets of translations to correct, and the files that their pages saved
  answers      the files that pages saved, checked
  scores       tables, agreement of judges, and the rated texts that a regressor is fitted on
  fitting      automatic scores fitted to ratings
"""
