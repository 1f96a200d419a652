"""What tests hold all sample corpora to: sameness of bytes, official files that stay."""

import hashlib

from xlbench.system import errors


def digests(root):
    """The hash of each file below a folder."""
    files = sorted(path for path in root.rglob('*') if path.is_file())
    return {str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def digest(folder, chosen=lambda path: True):
    """One hash of the names and contents of the chosen files below a folder."""
    made = hashlib.sha256()
    for path in sorted(path for path in folder.rglob('*') if path.is_file() and chosen(path)):
        made.update(f'{path.relative_to(folder)}\n'.encode() + path.read_bytes())
    return made.hexdigest()


def assert_official_file_stays(sample, root, name, capsys):
    """The program of a corpus refuses a folder with a file that is no sample's."""
    official = root / sample.name / name
    official.parent.mkdir(parents=True)
    official.write_text('real\n')
    assert errors.run_main(sample.main, [sample.module, f'--root={root}']) == 2
    assert 'no sample' in capsys.readouterr().err
    assert official.read_text() == 'real\n'
    assert not (root / 'SAMPLE.json').exists()
