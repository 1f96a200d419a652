"""Puts the folders tasks/ and configs/ into the package; pyproject.toml says everything else."""

import setuptools

FOLDERS = {'xlbench': 'xlbench', 'xlbench.tasks': 'tasks', 'xlbench.configs': 'configs'}

setuptools.setup(
    package_dir=FOLDERS,
    packages=[
        '.'.join((name, *inner))
        for name, folder in FOLDERS.items()
        for inner in [(), *((package,) for package in setuptools.find_packages(folder))]
    ],
)
