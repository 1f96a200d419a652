"""The bytes of a sample corpus as one hash."""

import hashlib


def digest(folder, chosen=lambda path: True):
    """One hash of the names and contents of the chosen files below a folder."""
    made = hashlib.sha256()
    for path in sorted(path for path in folder.rglob('*') if path.is_file() and chosen(path)):
        made.update(f'{path.relative_to(folder)}\n'.encode() + path.read_bytes())
    return made.hexdigest()
