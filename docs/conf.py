"""The documentation site: `make docs` builds it into docs/_build/html, with warnings as errors."""

import os
import pathlib
import re
import shutil
import sys

import xlbench

sys.path.insert(0, str(pathlib.Path(__file__).parent / '_extensions'))

REPOSITORY = 'https://github.com/xlbench/xlbench'

project, author = 'xlbench', 'the authors of xlbench'
version = release = xlbench.__version__
extensions = [
    'myst_nb',
    'sphinx.ext.autodoc',
    'sphinx.ext.napoleon',
    'reference',
    'docstrings',
]
exclude_patterns = ['_build']
highlight_language = 'none'  # Where a block does not say it.
smartquotes = False
nitpick_ignore_regex = [('py:.*', '.*')]  # Docstrings name types that have no page.

myst_heading_anchors = 3  # As GitHub makes them.

# The notebooks are executed, each in an empty folder, unless their cells are those of an earlier
# build. They use the CPU, and the answers of a cell that fails end the build.
nb_execution_mode = 'cache'
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 600  # Seconds, of a cell.
nb_merge_streams = True  # What a run prints is one block.
os.environ.setdefault('JAX_PLATFORMS', 'cpu')

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
    del app
    if '/' in name:  # A notebook, whose links with ../ lead to pages.
        return
    source[0] = re.sub(r'\]\(\.\./([^)#]+)', rf']({REPOSITORY}/blob/main/\1', source[0])


def offer_notebook(app, page: str, template: str, context: dict, doctree) -> None:
    """Puts the executed notebook of a page where the download button of the theme looks for it."""
    del template, doctree
    made = pathlib.Path(app.outdir).parent / 'jupyter_execute' / f'{page}.ipynb'
    if made.is_file():
        target = pathlib.Path(app.outdir) / '_sources' / f'{page}.ipynb'
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made, target)
        context['ipynb_source'] = f'{page}.ipynb'


def setup(app) -> None:
    """Registers what the lines above do not say."""
    app.connect('source-read', link_to_the_repository)
    app.connect('html-page-context', offer_notebook, priority=100)  # Before the theme.
