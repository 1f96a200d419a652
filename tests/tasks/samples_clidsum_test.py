"""The sample corpus of ClidSum: triples, meaning, grammar, views, vocabulary."""

import json
import pathlib
import re

import pytest
import sample_files
import task_records

from xlbench import pipeline
from xlbench.data import actions, baselines, noise, readers, segments, tokenizers
from xlbench.metrics import rouge
from xlbench.tasks.samples import clidsum

Examples = list[dict[str, str]]


@pytest.fixture(scope='module')
def root(written) -> pathlib.Path:
    return written(clidsum)


def test_the_bytes_of_seed_0_stay(root):
    sample_files.check_seed_0(root, clidsum.SAMPLE)


@pytest.fixture(scope='module')
def corpora(root) -> dict[tuple[str, str], Examples]:
    return {
        (name, split): json.loads((root / 'clidsum' / name / f'{split}.json').read_bytes())
        for name in clidsum.CORPORA
        for split in clidsum.SPLITS
    }


def said(example: dict[str, str]) -> list[tuple[str, str]]:
    """(who speaks, what they say) of each turn."""
    return [tuple(line.split(': ', 1)) for line in example['dialogue'].splitlines()]


def test_triples_stand_in_the_turns(root, corpora):
    """Every utterance with an action has it in OpenIE's form, and infilling finds it."""
    for name in clidsum.CORPORA:
        path = root / 'clidsum' / name / 'test.triples.tsv'
        triples = list(readers.read_triples(str(path)))
        assert all(isinstance(triple, dict) for triple in triples)
        for triple in triples:
            for side in ('subject', 'relation', 'object'):
                phrase = f' {triple[side]} '.lower()
                assert phrase in f' {triple["sentence"]} '.lower() or side == 'object'
        known = noise.actions_of(triples)
        turns = [turn for example in corpora[name, 'test'][:50] for _, turn in said(example)]
        with_actions = [turn for turn in turns if noise.action_spans(turn.lower().split(), known)]
        assert 0.3 < len(with_actions) / len(turns) < 0.8
    assert ('I', 'have to work late', '') in {
        (t['subject'], t['relation'], t['object'])
        for t in readers.read_triples(str(root / 'clidsum/XSAMSum/test.triples.tsv'))
    }
    of_each = {line.split('\t')[0] for line in path.read_text().splitlines()}
    assert of_each == {actions.OF_SAMPLE}


def test_the_languages_say_the_same(corpora):
    """In the same order, but for who stands in for whom, which Chinese says the other way round."""
    chinese = dict(clidsum.NAMES)
    any_chinese = re.compile('|'.join(chinese.values()))
    any_name = re.compile(rf'\b(?:{"|".join(chinese)})\b')
    for examples in corpora.values():
        for example in examples:
            names = any_name.findall(example['summary'])
            assert names and any_name.findall(example['summary_de']) == names
            assert sorted(any_chinese.findall(example['summary_zh'])) == sorted(
                chinese[name] for name in names
            )
            ends = [
                len(re.findall(r'\.(?: |$)', example[key])) for key in ('summary', 'summary_de')
            ]
            assert ends == [example['summary_zh'].count('。')] * 2


def test_no_name_is_part_of_another_one():
    for column in zip(*clidsum.NAMES, strict=True):
        for name in column:
            assert [other for other in column if name in other] == [name]


def test_summaries_follow_from_the_turns(corpora):
    """Who does a job is the one who accepts it; who is for something, the last thing they said."""
    for example in corpora['XSAMSum', 'test']:
        turns = said(example)
        work, _, meeting = example['summary'].rpartition(' They will meet ')
        assert meeting.removesuffix('.') in turns[-2][1]
        assert turns[-1][1] in clidsum.UTTERANCES['agreeing']
        for name, job in re.findall(r'(\w+) will ([^.]+?)(?: because|\.)', work):
            (asked,) = [at for at, (_, text) in enumerate(turns) if job in text]
            who, text = turns[asked + 1]
            refused = any(text.startswith(start) for start in ('Sorry', "I can't", 'Not me'))
            assert name == (turns[asked + 2][0] if refused else who)
    for example in corpora['XMediaSum40k', 'test']:
        sides = {}
        for who, text in said(example):
            if text in clidsum.UTTERANCES['supporting']:
                sides[who] = True
            elif text in clidsum.UTTERANCES['opposing']:
                sides[who] = False
            elif text in clidsum.UTTERANCES['turning']:
                sides[who] = not sides[who]
        for names, side in re.findall(r'([\w, ]+) (?:is|are) (for|against) it', example['summary']):
            for name in re.split(', | and ', names.strip()):
                assert sides.pop(name) == (side == 'for')
        assert not sides


# Key -> wrong forms, and texts that have one.
WRONG = {
    'summary': (
        r' and [^.]* is (?:for|against)|\ba [aeio]\w|, and|\b(on|in) (on|in)\b',
        ['Anna and Leo is for it.'],
    ),
    'summary_de': (
        r' und [^.]* ist da|\b(\w+) \1\b|weil [^.,]*(?<! muss)\.|dass [^.]*(?<! wird)\.',
        ['Anna und Leo ist dafür.', 'Anna wird die Pizza bestellen, weil Leo muss arbeiten.'],
    ),
    'summary_zh': (r'[a-zA-Z .,]|说[^，]|、[^和。]*(?:计划|都)', ['安娜、利奥都表示支持。']),
}


@pytest.mark.parametrize('key', WRONG)
def test_no_wrong_form(corpora, key):
    wrong = re.compile(WRONG[key][0])
    assert all(map(wrong.search, WRONG[key][1]))
    for examples in corpora.values():
        for example in examples:
            assert not wrong.search(example[key]), example[key]


def test_the_trivial_systems_are_far_from_right(corpora):
    train, test = corpora['XSAMSum', 'train'][:1500], corpora['XSAMSum', 'test'][:60]
    pairs = [(e['dialogue'].lower(), e['summary_de'].lower()) for e in train]
    sources, targets = ([e[key].lower() for e in test] for key in ('dialogue', 'summary_de'))
    score = rouge.MultilingualRouge('de', stem=True)
    for name, most in (('first_sentences', 20), ('longest_utterance', 10), ('nearest_input', 70)):
        predictions = [texts[0] for texts in baselines.predict(name, pairs, sources)]
        assert score(targets, predictions)['rouge_1'] < most, name


def test_views_are_of_the_dialogues(root, corpora):
    for (name, split), examples in corpora.items():
        path = segments.views_path(str(root / 'clidsum' / name / f'{split}.json'))
        views = list(segments.read_views(path))
        assert len(views) == len(examples)
        for example, (topics, stages) in zip(examples, views, strict=True):
            assert len(topics) == len(stages) == len(said(example))
            assert topics[0] == 1 and stages[0] == 0 and stages == sorted(stages)
        assert sum(one.topics[-1] > 1 for one in views) > len(views) / 2
        assert len({stage for one in views for stage in one.stages}) == 4


def test_the_monolingual_part_is_three_times_as_large_and_new(root, corpora):
    """The list of ids names the interviews of XMediaSum40k, and no other one is like them."""
    folder = root / 'clidsum' / 'MediaSum424k'
    objects = json.loads((folder / 'news_dialogue.json').read_bytes())
    ids = json.loads((folder / 'train_val_test_split.40k.json').read_bytes())
    assert [list(splits) for splits in (ids, clidsum.SPLITS)] == [['train', 'val', 'test']] * 2
    summaries = {}
    for talk in objects:
        assert list(talk) == ['id', 'summary', 'utt', 'speaker']
        lines = zip(talk['speaker'], talk['utt'], strict=True)
        summaries[talk['id']] = ('\n'.join(map(': '.join, lines)), talk['summary'])
    for split, size in clidsum.SPLITS.items():
        known = {(e['dialogue'], e['summary']) for e in corpora['XMediaSum40k', split]}
        assert {summaries.pop(name) for name in ids[split]} == known and len(known) == size
    others = {e['dialogue'] for split in clidsum.SPLITS for e in corpora['XMediaSum40k', split]}
    assert len({dialogue for dialogue, _ in summaries.values()} - others) == 18_000
    assert len(summaries) == 18_000
    with pipeline.bound('sample_clidsum', str(root)):
        pairs = task_records.read('clidsum_mediasum424k_en_en')
        assert sum(isinstance(pair, dict) for pair in pairs) == 18_000


def test_the_tasks_read_it(root):
    with pipeline.bound('sample_clidsum', str(root)):
        for corpus in ('xsamsum', 'xmediasum40k'):
            (record, *others) = task_records.read(f'clidsum_{corpus}_en_zh', 'test')
    assert len(others) == 299
    assert ', host: ' in record['inputs'] and '。' in record['targets']


def test_vocabulary(root, corpora):
    tokenizer = tokenizers.load('sample_clidsum', str(root))
    assert tokenizer.pieces()[-3:] == ['<mask>', '[summarize]', '|']
    ids = tokenizer.encode('[summarize] anna: <mask> it.').tolist()
    assert {tokenizer.vocab_size - 2, tokenizer.vocab_size - 3} <= set(ids)
    assert tokenizer.decode(ids) == '[summarize] anna: <mask> it.'
    for lang in clidsum.LANGUAGES:
        assert len(tokenizer.encode_batch([f'<{lang}> x'])[0]) <= 4
    for examples in corpora.values():
        for key, most in (('dialogue', 191), ('summary_de', 63), ('summary_zh', 63)):
            lines = [example[key].lower().replace('\r', '') for example in examples[:200]]
            ids = tokenizer.encode_batch(lines)
            assert max(map(len, ids)) <= most
            # Line ends are spaces to SentencePiece, and full-width commas are commas.
            decoded = [text.replace(' ', '') for text in tokenizer.decode_batch(ids)]
            expected = [re.sub(r'\s', '', line).replace('，', ',') for line in lines]
            assert [text.replace('，', ',') for text in decoded] == expected
