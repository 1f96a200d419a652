"""The documentation site: `make docs` builds it into docs/_build/html, with warnings as errors."""

import pathlib
import re
import sys

import xlbench

sys.path.insert(0, str(pathlib.Path(__file__).parent / '_extensions'))

REPOSITORY = 'https://github.com/xlbench/xlbench'

project, author = 'xlbench', 'the authors of xlbench'
version = release = xlbench.__version__
extensions = [
    'myst_parser',
    'sphinx.ext.autodoc',
    'sphinx.ext.napoleon',
    'config_blocks',
    'docstrings',
]
exclude_patterns = ['_build']
highlight_language = 'none'  # Where a block does not say it.
smartquotes = False
nitpick_ignore_regex = [('py:.*', '.*')]  # Docstrings name types that have no page.

myst_heading_anchors = 3  # As GitHub makes them.

autodoc_default_options = {'members': True, 'imported-members': True}
autodoc_member_order = 'bysource'
autodoc_typehints = 'none'  # Signatures name types of modules that have no page.
default_role = 'literal'  # `x` in a docstring is code.
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = 'sphinx_book_theme'
html_title = 'xlbench'
html_static_path, html_css_files = ['_static'], ['site.css']
html_theme_options = {
    'repository_url': REPOSITORY,
    'use_repository_button': True,
    'show_toc_level': 2,
    'navbar_persistent': [],  # Search stands in the sidebar.
}


def link_to_the_repository(app, name: str, source: list[str]) -> None:
    """Links to files that are no pages, as ../tasks/mtg.py, lead to the repository."""
    del app, name
    source[0] = re.sub(r'\]\(\.\./([^)#]+)', rf']({REPOSITORY}/blob/main/\1', source[0])


def setup(app) -> None:
    """Registers what the lines above do not say."""
    app.connect('source-read', link_to_the_repository)
