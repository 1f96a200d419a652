"""Reddit comment dumps -> the MRS data set (arXiv:2106.02017, section 2); see __main__.py."""
