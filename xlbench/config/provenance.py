"""The origin of a result: versions of packages, the commit, the command."""

import os
import pathlib
import subprocess
import sys
from importlib import metadata

from xlbench.system.files import Json

VERSIONED = ('xlbench', 'jax', 'jaxlib', 'flax', 'optax', 'orbax-checkpoint', 'numpy')


def facts() -> dict[str, Json]:
    """Returns what this process knows of a result's origin: versions, commit, command, folder."""
    versions = {'python': sys.version.split()[0]}
    for package in VERSIONED:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = 'not installed'
    return {'versions': versions, 'git': _git_commit(), 'argv': sys.argv, 'cwd': os.getcwd()}


def _git_commit() -> str:
    """The commit of this source tree, with '+changes' if it was edited since; '' outside git."""
    folder = pathlib.Path(__file__).parents[1]
    try:
        commit, changes = (
            subprocess.run(
                ['git', '-C', folder, *command], capture_output=True, text=True, check=True
            ).stdout.strip()
            for command in (('rev-parse', 'HEAD'), ('status', '--porcelain', '--', '.'))
        )
    except (OSError, subprocess.CalledProcessError):
        return ''
    return commit + ('+changes' if changes else '')
