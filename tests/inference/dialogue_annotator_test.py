"""Marks of dialogues: the official cases, a stub that reads, and the command with a tiny GPT-2."""

import json
import math
import types

import edits
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import references
import tokenizer_files

from xlbench import models
from xlbench.data import marks
from xlbench.dialogues import mark
from xlbench.huggingface import checkpoint
from xlbench.inference.loading import load
from xlbench.system.errors import UserError

END = '<|endoftext|>'


def utterances_of(words, losses):
    """Utterances from the official lists, where an end follows each and 100 or -100 is no loss."""
    utterances, start = [], 0
    for end in [i for i, word in enumerate(words) if word == END]:
        colon = words.index(':', start)
        said = slice(colon + 1, end)
        real = () if start == 0 else tuple(losses[said])
        speaker = ' '.join(words[start:colon])
        utterances.append(marks.Utterance(speaker, tuple(words[said]), real))
        start = end + 1
    return utterances


def test_marks_equal_the_golden_cases(golden):
    cases = [case for case in golden('dialogpt_annotator/') if 'keyword_ratio' in case['inputs']]
    assert len(cases) >= 3
    for case in cases:
        given, expected = case['inputs'], case['expected']
        settings = marks.Settings(
            keywords=given['keyword_ratio'], redundancy=given['redundancy_threshold'],
            topics=given['topic_ratio'], official=True,
        )  # fmt: skip
        utterances = utterances_of(given['words'], given['losses'])
        chosen = marks.keywords(utterances, settings)
        names = len(expected['speakers_any_order'])
        assert sorted(chosen[:names]) == sorted(expected['speakers_any_order'])
        assert chosen[names:] == expected['keywords_after_the_speakers']
        topics = marks.topic_starts(utterances, settings)
        assert topics == expected['topic_segment_indices_in_order_of_loss']
        unneeded = marks.redundant(given['similarities_last_utterance_first'], settings)
        assert unneeded == expected['redundant_utterances']
        text = marks.marked_text(utterances, None, topics, unneeded)
        assert text == expected['dialogue']


def test_a_share_of_less_than_a_word_selects_none():
    said = ('A', ('hello', 'there')), ('B', ('hi', 'you'), (1.2, 3.4))
    utterances = [marks.Utterance(*one) for one in said]
    assert marks.keywords(utterances, marks.Settings()) == ['A', 'B', 'hello', 'there']
    official = marks.keywords(utterances, marks.Settings(official=True))
    assert official == ['A', 'B', 'hello', 'there', 'you']
    with pytest.raises(UserError, match='keywords is 2; 0 to 1'):
        marks.Settings(keywords=2)


def test_losses_of_words_equal_the_golden_case(golden):
    (case,) = [c for c in golden('dialogpt_annotator/') if 'subwords' in c['inputs']]
    given, expected = case['inputs'], case['expected']
    pieces = given['subwords'][given['subwords'].index('Ġ:', 3) + 1 : -1]
    losses = [loss for loss in given['losses'] if abs(loss) != 100]
    counts = []
    for piece in pieces:
        if piece.startswith('Ġ'):
            counts.append(0)
        counts[-1] += 1
    wanted = tuple(loss for loss in expected['losses'] if abs(loss) != 100)
    assert marks.word_losses(losses, counts) == wanted
    assert marks.word_losses(losses[:1], counts) == ()  # A word that was cut has none.


def test_lines_become_utterances():
    said = marks.utterances_of("Anna Lee:  Hi, don't wait!\n\n12:30 works\r\nBen :")
    assert [(u.speaker, u.words) for u in said] == [
        ('Anna Lee', ('Hi', ',', "don't", 'wait', '!')),
        ('', ('12', ':', '30', 'works')),
        ('Ben', ()),
    ]


class Stub:
    """The golden cases' tokenizer and model, see their notes."""

    max_input_length = max_positions = 1000

    def __init__(self, utterances):
        words = [piece for text in utterances for piece in self.split(text)]
        self.ids = {word: i for i, word in enumerate(dict.fromkeys([*words, END]))}
        self.tokenizer = types.SimpleNamespace(
            eos_id=self.ids[END],
            encode_batch=lambda texts: [np.array([self.ids[f'Ġ{t[1:]}']]) for t in texts],
        )
        self.contexts, self.texts, self.found = [], [], []

    @staticmethod
    def split(text):
        first, *rest = text.split(' ')
        return [first, *(f'Ġ{word}' for word in rest)]

    def losses_of_ids(self, examples):
        return [np.array(self.losses(**example)) for example in examples]

    def losses(self, inputs, targets):
        context = inputs.tolist()
        for target in targets.tolist():
            self.contexts.append(list(context))
            scores = [
                2 * math.sin(0.37 * v + 0.11 * sum(context) + 0.05 * len(context))
                for v in range(len(self.ids))
            ]
            self.found.append(math.log(sum(map(math.exp, scores))) - scores[target])
            context.append(target)
        return self.found[-len(targets) :]

    def states_of_ids(self, texts, places):
        self.texts += [text.tolist() for text in texts]
        states = [
            np.stack([np.cos(0.3 * text + 0.1 * k) + 0.05 * np.arange(len(text)) for k in range(4)])
            for text in texts
        ]
        return [of.T[at] for of, at in zip(states, places, strict=True)]


def test_what_the_model_reads_equals_the_golden_case(golden):
    (case,) = [c for c in golden('dialogpt_annotator/') if 'model_stub' in c['inputs']]
    given, expected = case['inputs'], case['expected']
    stub = Stub(given['utterances'])
    dialogue, settings = '\n'.join(given['utterances']), marks.Settings()
    (text,) = mark.annotate(stub, [dialogue], settings, marks.KINDS)
    assert stub.contexts == expected['contexts']
    assert stub.texts == [expected['representation_input_ids']]
    losses = [loss for loss in expected['losses'] if abs(loss) != 100]
    np.testing.assert_allclose(stub.found, losses, atol=given['tolerance_abs'])
    ids = np.array(expected['representation_input_ids'])
    ends = np.flatnonzero(ids == stub.tokenizer.eos_id)
    (states,) = stub.states_of_ids([ids], [ends])
    found = marks.similarities(states)
    for row, wanted in zip(found, expected['similarities'], strict=True):
        np.testing.assert_allclose(row, wanted, atol=given['tolerance_abs'])
    # One of the cosines is above 0.99, that of utterances 3 and 2, and one of 2 and 1.
    assert text.startswith('Anna : Hi Ben | Ben : Hello , who is this ? | Anna : [RD] It is me')
    assert '#KEY# Anna Ben Hi' in text
    stub.max_positions = 12  # Parts of whole utterances.
    list(mark.annotate(stub, [dialogue], settings, marks.KINDS))
    assert [len(text) for text in stub.texts[2:]] == [10, 7]


@pytest.fixture(scope='module')
def dialogpt(tmp_path_factory):
    """A folder as that of microsoft/DialoGPT-large, tiny and random."""
    where = tmp_path_factory.mktemp('dialogpt')
    files = where / 'files'
    tokenizer_files.write(files, 'gpt2')
    sizes = dict(emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32, num_layers=1, vocab_size=901)
    model = models.build('gpt2', 'sample', **sizes, max_positions=64)
    params = references.random_params(model, 1.0)
    copied = [path for path in files.iterdir() if path.name != 'config.json']
    ids = dict(pad_id=900, eos_id=900)
    checkpoint.save(where / 'model', 'gpt2', model.config, params, ids, copied)
    with edits.edited(where / 'model' / 'config.json') as about:
        about['task_specific_params'] = {'conversational': {'max_length': 1000}}
    return where / 'model', model, params


def test_losses_of_given_texts_and_states(dialogpt):
    folder, model, params = dialogpt
    reader = load(str(folder), batch_size=8)
    losses = reader.token_losses(['Good day', 'Hi', 'Yes'], ['Hello', 'a longer answer', 'No'])
    ids = [reader.tokenizer.encode(text).tolist() for text in ('Hi', 'a longer answer')]
    text = jnp.array([[*ids[0], 900, *ids[1], 900]])  # DialoGPT answers a text that has ended.
    states = jax.jit(lambda p, x: model.apply({'params': p}, x, method='states'))(params, text)
    logits = model.apply({'params': params}, states, method='logits')
    nats = -jax.nn.log_softmax(logits[0, :-1])[jnp.arange(text.shape[1] - 1), text[0, 1:]]
    np.testing.assert_allclose(losses[1], nats[len(ids[0]) :], atol=1e-4)
    places = np.array([len(ids[0]), text.shape[1] - 1])
    (found,) = reader.states_of_ids([np.array(text[0])], [places])
    np.testing.assert_allclose(found, states[0, places], atol=1e-4)
    examples = ['Hi'], ['a longer answer']
    with pytest.raises(UserError, match='1 answers to 2 texts'):
        reader.token_losses(['a', 'b'], ['c'])
    assert math.isclose(sum(reader.token_losses(*examples)[0]), losses[1].sum(), rel_tol=1e-5)


DIALOGUES = [
    'Anna: Hi Ben, are you coming?\r\nBen: Yes!\r\nAnna: Good.\r\nBen: See you at eight then.',
    [{'speaker': 'Carl', 'text': 'Who has the keys?'}, {'speaker': 'Dora', 'text': 'I have.'}],
    'Emil: What a day\nFay: Indeed, ' + 'and so on ' * 20 + '\nEmil: Bye',
]


def test_the_command_marks_a_file_and_goes_on(dialogpt, tmp_path, capsys, monkeypatch):
    objects = [{'dialogue': d, 'summary': f's{i}', 'id': i} for i, d in enumerate(DIALOGUES)]
    source, output = tmp_path / 'train.json', tmp_path / 'marked' / 'train.json'
    source.write_text(json.dumps(objects))
    line = [f'--model={dialogpt[0]}', f'--input={source}', '--batch_size=8']
    mark.main(['mark', *line, f'--output={output}'])
    assert f'wrote {output}: 3 dialogues' in capsys.readouterr().out
    marked = json.loads(output.read_text())
    assert [(o['summary'], o['id']) for o in marked] == [('s0', 0), ('s1', 1), ('s2', 2)]
    text = marked[1]['dialogue'].replace('[RD] ', '')
    assert text.startswith('Carl : Who has the keys ? | Dora : I have . #KEY# Carl Dora Who has')
    assert not output.with_name('train.json.part').exists()
    # One that was killed goes on behind the last whole line.
    other, done = tmp_path / 'other.jsonl', []
    annotate = mark.annotate

    def interrupted(*args):
        for i, text in enumerate(annotate(*args)):
            if i == 2:
                raise KeyboardInterrupt
            yield text

    def counted(reader, dialogues, *more):
        asked = (done.append(dialogue) or dialogue for dialogue in dialogues)
        return annotate(reader, asked, *more)

    monkeypatch.setattr(mark, 'annotate', interrupted)
    with pytest.raises(KeyboardInterrupt):
        mark.main(['mark', *line, f'--output={other}'])
    part = tmp_path / 'other.jsonl.part'
    part.write_bytes(part.read_bytes() + b'"half a li')
    monkeypatch.setattr(mark, 'annotate', counted)
    mark.main(['mark', *line, f'--output={other}'])
    assert len(done) == 1
    assert [json.loads(x) for x in other.read_text().splitlines()] == marked
    # Other settings begin anew.
    part.write_text('"of another model"\n"a text"\n')
    other.unlink()
    mark.main(['mark', *line, f'--output={other}', '--marks=topics', '--topics=0.5'])
    assert '[TS]' in other.read_text() and '#KEY#' not in other.read_text()
    for flags, message in (
        ([f'--output={other}'], 'exists already'),
        ([f'--output={tmp_path}/x.json', '--field=text'], "record 1: .*'text'"),
        ([f'--output={tmp_path}/x.json', '--keywords=7'], 'keywords is 7.0; 0 to 1'),
    ):
        with pytest.raises(UserError, match=message):
            mark.main(['mark', *line, *flags])
