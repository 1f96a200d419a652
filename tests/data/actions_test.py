"""Triples of tagged sentences: the rules, one by one, and the lines that OpenIE's reader takes."""

import pytest

from xlbench.data import actions, noise, readers

TAGS = {
    'PRON': 'i you he she it we they me him us them who somebody',
    'AUX': 'will can could is are do does has have had',
    'VERB': 'send look bring brings put sees want bought buys goes helps catch read',
    'PART': "to not n't",
    'ADV': 'still please really quickly down',
    'DET': 'the a an my his',
    'ADJ': 'old small red',
    'NOUN': 'file key car bridge train tent book sister',
    'PROPN': 'ben anna tom',
    'ADP': 'for to_ up in with at',
    'CCONJ': 'and but',
    'SCONJ': 'that because',
    'PUNCT': '. , ? !',
    'INTJ': 'sure yes',
}
TAG_OF = {word: tag for tag, words in TAGS.items() for word in words.split()}


def phrases(text, speaker=''):
    (tokens,) = actions.sentences(text)
    tags = [TAG_OF[token.lower()] for token in tokens]
    # 'have' before 'to' is a verb.
    for at, token in enumerate(tokens[:-1]):
        if token.lower() in ('have', 'has', 'had') and tokens[at + 1] in ('to', 'a', 'the'):
            tags[at] = 'VERB'
    triples = []
    for triple in actions.extract(tokens, tags, speaker):
        subject, *others = (' '.join(tokens[slice(*span)]) for span in triple[:3])
        triples.append((triple.name or subject, *others))
    return triples


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('I will send the file.', [('Ben', 'will send', 'the file')]),
        ('Sure, we have to catch a train.', [('Ben', 'have to catch', 'a train')]),
        ('She still has to look for the old key.', [('She', 'has to look for', 'the old key')]),
        ('Can you please send it?', [('you', 'send', 'it')]),
        ('Anna brings my small red car and helps him.',
         [('Anna', 'brings', 'my small red car'), ('Anna', 'helps', 'him')]),
        ('Tom sees that his sister bought a book.',
         [('Tom', 'sees', ''), ('his sister', 'bought', 'a book')]),
        ('Tom goes, and Anna helps.', [('Tom', 'goes', ''), ('Anna', 'helps', '')]),
        ('Send it!', []),
        ('She is my sister.', []),
        ('They do not read.', [('They', 'do not read', '')]),
        ('Who brings the tent?', [('Who', 'brings', 'the tent')]),
    ],
)  # fmt: skip
def test_the_rules(text, expected):
    assert phrases(text, 'Ben') == expected


def test_without_a_speaker_the_pronoun_stays():
    assert phrases('I will send it.') == [('I', 'will send', 'it')]
    assert not actions.extract(['so'] * 5000, ['ADV'] * 5000)  # In n^3 steps this takes minutes.


def test_lines_are_read_again_and_masked(tmp_path):
    (tokens,) = actions.sentences('Sure, I will send the old file tonight, as I said it all week.')
    tags = 'INTJ PUNCT PRON AUX VERB DET ADJ NOUN NOUN PUNCT SCONJ PRON VERB PRON DET NOUN PUNCT'
    triples = actions.extract(tokens, tags.split(), 'Ben')
    path = tmp_path / 'x.triples.tsv'
    path.write_text(''.join(actions.line('ours', 0, tokens, tags.split(), t) for t in triples))
    columns = path.read_text().split('\t')
    assert columns[:5] == ['ours', '0', 'Ben', 'will send', 'the old file tonight']
    assert columns[5:11] == ['2', '3', '3', '5', '5', '9']
    records = list(readers.read_triples(str(path)))
    assert [r['subject'] for r in records] == ['Ben', 'Ben']
    turn = 'Ben: sure, i will send the old file tonight, as i said it all week.'
    known = noise.actions_of(records)
    spans = noise.dialogue_spans(turn, known)
    masked = {noise.infill_spans(turn, spans, noise.generator(0, n, 1)) for n in range(30)}
    assert 'Ben: sure, i <mask> the old file tonight, as i said it all week.' in masked
    assert not any(' <mask> will' in text for text in masked)  # Names stand for pronouns.


def test_sentences_of_an_utterance():
    two = [['I', "can't", '.'], ['Ask', 'Mr.Ben', '!']]
    assert actions.sentences("I can't. Ask Mr.Ben!") == two
    assert actions.sentences(' ') == []
