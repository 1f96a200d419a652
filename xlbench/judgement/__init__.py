"""Human judgement of texts: pages for judges, their answers, and the tables of a paper.

  sources      what systems wrote, from workdirs and files
  studies      aspects and guidelines, which judge sees what in which order, the key to it, and the
               judges' pages, whose parts are page.html, page.css, page.common.js and page.js
  corrections  sheets of translations to correct, and the files that their pages saved
  answers      the files that pages saved, checked
  scores       tables, agreement of judges, and the rated texts that a regressor is fitted on
  fitting      automatic scores fitted to ratings
"""
