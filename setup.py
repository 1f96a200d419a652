"""Puts the folders tasks/ and configs/ into the package, and README onto the package's page."""

import pathlib
import re

import setuptools

FOLDERS = {'xlbench': 'xlbench', 'xlbench.tasks': 'tasks', 'xlbench.configs': 'configs'}
PAGES = 'https://github.com/xlbench/xlbench/blob/main/'

setuptools.setup(
    package_dir=FOLDERS,
    packages=[
        '.'.join((name, *inner))
        for name, folder in FOLDERS.items()
        for inner in [(), *((package,) for package in setuptools.find_packages(folder))]
    ],
    # A link within the checkout leads nowhere from there.
    long_description=re.sub(
        r'\]\((?!https?:|#)', f']({PAGES}', pathlib.Path('README.md').read_text('utf-8')
    ),
    long_description_content_type='text/markdown',
)
