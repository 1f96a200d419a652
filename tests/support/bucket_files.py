"""Few-shot buckets in a folder."""

import pathlib

from xlbench.benchmarks import languages
from xlbench.data import buckets


def load(root: str | pathlib.Path, task: str, lang: str, shots: int) -> list[buckets.Bucket]:
    """Reads all buckets of a task, language and K in order; folders may have the English name."""
    names = (lang, languages.get(lang).name)
    folder = pathlib.Path(root, task, f'{shots}-shots')
    places = [str(place) for place in folder.iterdir() if place.name.split('.')[0] in names]
    return [b for place in places for file in buckets.find(place) for b in buckets.read(file)]
