"""The bytes of the sample corpora of seed 0, each as one hash."""

import hashlib

from xlbench.data import tokenizers

_SEED_0 = {
    'mtg': 'bf9238d74f5963bb59233de1c085821c9ecafb72fb2b3e7b228010e24441e27e',
    'mrs': '7dbc15061074ac51735d12309e0d50edea0df2095108deed6c7c9ee524255a71',
    'fewshot': '2b1bd67156ef25efdc522b6b01568474acfef7807b5f038cff1cfad021c9ee79',
    'clidsum': '11c29f4a0c0b4e5c238164e05d34ad8bfd6aaacb0de2f016180d6ec19356d649',
}


def check_seed_0(root, sample) -> None:
    """Raise the sample's generator when code changes bytes on purpose; texts need no new number.

    Views come from floats, whose last bits are the machine's.
    """
    folder, made = root / sample.name, hashlib.sha256()
    for path in sorted(path for path in folder.rglob('*') if path.is_file()):
        if '.views.' not in path.name:
            made.update(f'{path.relative_to(folder)}\n'.encode() + path.read_bytes())
    assert made.hexdigest() == _SEED_0[sample.name]
    # The vocabulary has the size that models are built for.
    name = sample.vocabulary.removesuffix('.model')
    assert tokenizers.SAMPLE_FILES[name] == sample.vocabulary
    assert tokenizers.load(name, str(root)).vocab_size == tokenizers.SAMPLE_SIZES[name]
