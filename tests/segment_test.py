"""`xlbench data segment`: views of a corpus, by words and by an encoder."""

import json

import encoder_folders
import numpy as np
import pytest

from xlbench.data import segments
from xlbench.dialogues import segment
from xlbench.system import errors

WORDS = (('key', 'door', 'lock'), ('train', 'ticket', 'late'))


def corpus(rng, count):
    """Dialogues of five utterances about keys, then five about trains."""
    lines = [
        [f'{name}: {" ".join(rng.choice(words, 3))}' for words in WORDS for name in 'ABABA']
        for _ in range(count)
    ]
    return [{'dialogue': '\r\n'.join(texts), 'summary': 'x'} for texts in lines]


@pytest.fixture
def paths(tmp_path):
    rng, paths = np.random.default_rng(0), []
    for split, count in (('train', 12), ('val', 3)):
        path = tmp_path / f'{split}.json'
        path.write_text(json.dumps(corpus(rng, count)))
        paths.append(str(path))
    return paths


def run(*argv):
    return segment.main(['segment', *argv])


def test_topics_change_where_the_words_do(paths, capsys):
    assert run(*paths) == 0
    assert 'train.views.jsonl: 12 dialogues; ' in capsys.readouterr().out
    views = list(segments.read_views(segments.views_path(paths[0])))
    assert len(views) == 12
    # Most cuts lie between the subjects.
    changes = [one.topics[5] != one.topics[4] for one in views]
    assert np.mean(changes) > 0.6
    assert all(one.stages == sorted(one.stages) and one.stages[0] == 0 for one in views)
    assert run(*paths) == 0 and list(segments.read_views(segments.views_path(paths[0]))) == views


def test_an_encoder_s_vectors_are_kept(paths, tmp_path, capsys):
    folder = encoder_folders.write(tmp_path / 'encoder', 'bert-uncased')
    assert run(*paths, f'--encoder={folder}') == 0
    kept = tmp_path / 'train.vectors.npz'
    before, views = kept.read_bytes(), (tmp_path / 'train.views.jsonl').read_bytes()
    capsys.readouterr()
    # One that was killed behind the first file makes the vectors of the second alone.
    (tmp_path / 'val.vectors.npz').write_bytes(b'cut')
    assert run(*paths, f'--encoder={folder}') == 0
    said = capsys.readouterr().out
    assert 'train.vectors.npz is up to date' in said and 'val.vectors.npz is up' not in said
    assert kept.read_bytes() == before and (tmp_path / 'train.views.jsonl').read_bytes() == views
    with np.load(kept) as stored:
        assert stored['vectors'].shape == (120, 16)


def test_mistakes(paths, tmp_path):
    path = tmp_path / 'other.json'
    path.write_text('[{"dialogue": 3}]')
    with pytest.raises(errors.UserError, match=r'other\.json, record 1: '):
        run(str(path))
    with pytest.raises(errors.UserError, match='two of the files would have their views in'):
        run(paths[0], paths[0])
