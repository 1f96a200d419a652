"""`xlbench data segment` by words and by an encoder, `xlbench data triples` with a stub tagger."""

import json

import encoder_folders
import numpy as np
import pytest

from xlbench.data import actions, readers, segments
from xlbench.dialogues import segment, triples
from xlbench.inference import loading
from xlbench.inference.answering import Tagged
from xlbench.inference.labeller import Tagger
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


def cut(*argv):
    return segment.main(['segment', *argv])


def test_topics_change_where_the_words_do(paths, capsys):
    assert cut(*paths) == 0
    assert 'train.views.jsonl: 12 dialogues; ' in capsys.readouterr().out
    views = list(segments.read_views(segments.views_path(paths[0])))
    assert len(views) == 12
    # Most cuts lie between the subjects.
    changes = [one.topics[5] != one.topics[4] for one in views]
    assert np.mean(changes) > 0.6
    assert all(one.stages == sorted(one.stages) and one.stages[0] == 0 for one in views)
    assert cut(*paths) == 0 and list(segments.read_views(segments.views_path(paths[0]))) == views


def test_an_encoder_s_vectors_are_kept(paths, tmp_path, capsys):
    folder = encoder_folders.write(tmp_path / 'encoder', 'bert-uncased')
    assert cut(*paths, f'--encoder={folder}') == 0
    kept = tmp_path / 'train.vectors.npz'
    before, views = kept.read_bytes(), (tmp_path / 'train.views.jsonl').read_bytes()
    capsys.readouterr()
    # One that was killed behind the first file makes the vectors of the second alone.
    (tmp_path / 'val.vectors.npz').write_bytes(b'cut')
    assert cut(*paths, f'--encoder={folder}') == 0
    said = capsys.readouterr().out
    assert 'train.vectors.npz is up to date' in said and 'val.vectors.npz is up' not in said
    assert kept.read_bytes() == before and (tmp_path / 'train.views.jsonl').read_bytes() == views
    with np.load(kept) as stored:
        assert stored['vectors'].shape == (120, 16)


def test_mistakes_of_segment(paths, tmp_path):
    path = tmp_path / 'other.json'
    path.write_text('[{"dialogue": 3}]')
    with pytest.raises(errors.UserError, match=r'other\.json: record 1: '):
        cut(str(path))
    with pytest.raises(errors.UserError, match='two of the files would have their views in'):
        cut(paths[0], paths[0])


TAGS = {'i': 'PRON', 'will': 'AUX', 'send': 'VERB', 'it': 'PRON', 'the': 'DET', 'file': 'NOUN'}


class Words(Tagger):
    """Tags by a table."""

    labels = ('NOUN', 'VERB', 'PRON', 'AUX', 'DET', 'PUNCT')

    def __init__(self):
        pass

    def tag(self, sentences):
        return [
            Tagged(tuple(words), tuple(TAGS.get(w.lower(), 'PUNCT') for w in words), ())
            for words in sentences
        ]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """A function from a file's name, its content and further flags to (exit code, screen)."""
    monkeypatch.setattr(loading, 'load', lambda spec, **options: Words())
    monkeypatch.setattr(triples.config_lib, 'check_source', lambda spec, kind: None)

    def run(name, content, *flags):
        path = tmp_path / name
        path.write_text(json.dumps(content))
        code = errors.run_main(triples.main, ['triples', str(path), '--tagger=RUNS/pos', *flags])
        return code, ''.join(capsys.readouterr())

    return run


def test_triples_of_dialogues_and_interviews(run, tmp_path):
    talk = 'Ben: Sure. I will send the file!\nAnna: It? I send it.'
    code, screen = run('train.json', [{'dialogue': talk}, {'dialogue': 'no speaker'}])
    assert code == 0 and 'train.triples.tsv: 2 triples of 5 sentences' in screen
    first, second = readers.read_triples(str(tmp_path / 'train.triples.tsv'))
    assert first == {
        'subject': 'Ben', 'relation': 'will send', 'object': 'the file',
        'sentence': 'I will send the file !',
    }  # fmt: skip
    assert (second['subject'], second['object']) == ('Anna', 'it')
    line = (tmp_path / 'train.triples.tsv').read_text().splitlines()[0]
    assert line.startswith('xlbench.triples, tagger RUNS/pos\t1\tBen\twill send\tthe file\t0\t1\t')
    interview = {'id': 'NPR-1', 'utt': ['I send\nit.', ' '], 'speaker': ['ANN, HOST', 'BEN']}
    assert ': 1 triples of 1 sentences' in run('news_dialogue.json', [interview])[1]
    (only,) = readers.read_triples(str(tmp_path / 'news_dialogue.triples.tsv'))
    assert only['subject'] == 'ANN'
    assert run('own.json', [{'talk': talk}, {'talk': ''}], '--field=talk')[0] == 0
    assert run('own.json', [{'dialogue': talk}], f'--output={tmp_path / "named.tsv"}')[0] == 0
    assert len(list(readers.read_triples(str(tmp_path / 'named.tsv')))) == 2
    with pytest.raises(errors.UserError, match='is for one file'):
        triples.main(['triples', 'a.json', 'b.json', '--tagger=RUNS/pos', '--output=one.tsv'])


def test_files_of_triples_and_those_of_samples_are_replaced_and_no_others(run, tmp_path):
    target, talk = tmp_path / 'train.triples.tsv', [{'dialogue': 'Ben: I send it.'}]
    triple = actions.Triple((0, 1), (1, 2), (2, 3))
    target.write_text(actions.line(actions.OF_SAMPLE, 0, ['I', 'send', 'it'], ['_'] * 3, triple))
    for _ in range(2):
        assert run('train.json', talk)[0] == 0
        assert target.read_text().startswith('xlbench.triples, tagger RUNS/pos\t0\tBen\t')
    target.write_text('OpenIE\t0\tBen\n')
    code, screen = run('train.json', talk)
    assert code == 2 and 'exists and is not a file of xlbench.data triples or of a sample' in screen
    assert target.read_text() == 'OpenIE\t0\tBen\n'


def test_mistakes_of_triples_are_one_line(run, monkeypatch):
    for content, message in (
        ([{'text': 'x'}], "record 1: no key 'dialogue'; it has 'text'"),
        (['x'], 'record 1: a text, not an object'),
        ({'dialogue': 'x'}, 'not a list'),
    ):
        code, screen = run('train.json', content)
        assert code == 2 and message in screen and screen.count('\n') == 1
    monkeypatch.setattr(Words, 'labels', ('B-PER', 'O'))
    code, screen = run('train.json', [])
    assert code == 2 and 'has no tag VERB, NOUN; triples need the universal tags' in screen
    monkeypatch.setattr(loading, 'load', lambda spec, **options: object())
    assert 'is not a tagger' in run('train.json', [])[1]
    code = errors.run_main(triples.main, ['triples', 'nowhere.json', '--tagger=x'])
    assert code == 2
