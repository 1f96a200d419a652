"""xlbench data triples: dialogues of both forms, with a tagger that is made up."""

import json

import pytest

from xlbench.data import actions, readers
from xlbench.dialogues import triples
from xlbench.inference import loading
from xlbench.inference.answering import Tagged
from xlbench.inference.labeller import Tagger
from xlbench.system import errors

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


def test_dialogues_and_interviews(run, tmp_path):
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
    interview = {'id': 'NPR-1', 'utt': ['I send it.'], 'speaker': ['ANN, HOST']}
    assert run('news_dialogue.json', [interview])[0] == 0
    (only,) = readers.read_triples(str(tmp_path / 'news_dialogue.triples.tsv'))
    assert only['subject'] == 'ANN'
    assert run('own.json', [{'talk': talk}], '--field=talk')[0] == 0
    assert run('own.json', [{'dialogue': talk}], f'--output={tmp_path / "named.tsv"}')[0] == 0
    assert len(list(readers.read_triples(str(tmp_path / 'named.tsv')))) == 2
    with pytest.raises(errors.UserError, match='is for one file'):
        triples.main(['triples', 'a.json', 'b.json', '--tagger=RUNS/pos', '--output=one.tsv'])


def test_its_own_files_and_those_of_samples_are_replaced_and_no_others(run, tmp_path):
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


def test_what_is_wrong_is_one_line(run, monkeypatch):
    for content, message in (
        ([{'text': 'x'}], "object 1 has no text 'dialogue', nor lists utt and speaker"),
        (['x'], 'object 1 is not an object with a dialogue'),
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
