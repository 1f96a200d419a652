"""The sample corpora of MRS: meaning, grammar, responses, what the baselines reach."""

import math
import os
import pathlib
import re
import statistics

import pytest
import sample_files

from xlbench.data import baselines, readers, tokenizers
from xlbench.tasks.samples import mrs

LANGUAGES = mrs.LANGUAGES


@pytest.fixture
def root(written) -> pathlib.Path:
    return written(mrs)


def test_the_bytes_of_seed_0_stay(root):
    sample_files.check_seed_0(root, mrs.SAMPLE)


@pytest.fixture(scope='module')
def splits() -> dict[str, list[mrs.Meaning]]:
    return mrs.make_splits(0)


def pairs(root: pathlib.Path, split: str, lang: str) -> list[tuple[str, str]]:
    paths = readers.find(f'{root}/mrs/{split}/{lang}/*.tsv*')
    records = [record for path in paths for record in readers.read_pairs(path)]
    assert not [r for r in records if isinstance(r, readers.BadRecord)]
    return [(r['message'], r['reply']) for r in records]


def responses(root: pathlib.Path, lang: str, mapping: str | None = None) -> list[dict[str, str]]:
    path = f'{root}/mrs/rsp_set/{lang}/response_lm_cluster.txt'
    records = list(readers.read_responses(path, mapping))
    assert not [r for r in records if isinstance(r, readers.BadRecord)]
    return records


def weighted_rouge(said: list[str], gold: str) -> float:
    """The best of some replies in the measure of the paper's section 4.4, by sets of n-grams."""

    def grams(text: str, n: int) -> set:
        words = baselines.words(text)
        return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}

    def score(text: str) -> float:
        total = 0.0
        for n, weight in ((1, 1 / 6), (2, 1 / 3), (3, 1 / 2)):
            ours, theirs = grams(text, n), grams(gold, n)
            total += weight * 2 * len(ours & theirs) / max(len(ours) + len(theirs), 1)
        return total

    return max(map(score, said))


def test_lines_are_parallel_in_meaning(root):
    """Prices are spelled in digits in all languages, so they must agree line by line."""
    for split in mrs.SPLITS:
        prices = {
            tuple(
                tuple(re.findall(r'\d+', text))
                for pair in pairs(root, split, lang)
                for text in pair
            )
            for lang in LANGUAGES
        }
        assert len(prices) == 1


def test_texts_are_clean(root):
    wrong = {
        'en': r'\b(on|at|in) (on|at|in)\b|\ba [aeio]',
        'es': r'\b[Dd]e el\b|\b[Aa] el\b|(?<!¿)\bDónde\b',
        'de': r'\b(in|an|auf) (in|an|auf|im|am)\b',
        'pt': r'\b[Dd]e o\b|\b[Ee]m o\b',
        'fr': r'\b[Dd]e le\b|[\wé][?!]|\b(que|le|la|je|ne|de) [aeiouéèêAEIOU]',
        'it': r'\b[Dd]i il\b|\b[Aa] il\b',
        'ja': r'[A-Za-z ]|をを|にに|でで',
    }
    for lang in LANGUAGES:
        for split in mrs.SPLITS:
            for text in (text for pair in pairs(root, split, lang) for text in pair):
                assert not re.search(r'[{}|>\t\r]|  |^ | $', text), text
                assert text[-1] in '.?!。！？', text
                first = text.lstrip('¿¡')[0]
                assert first.isupper() or first.isdigit() or lang == 'ja', text
                found = re.search(wrong.get(lang, 'a^'), text)
                assert not found, (lang, found[0], text)


def test_one_reply_says_one_thing_and_does_not_depend_on_words(splits):
    for lang in LANGUAGES:
        said: dict[str, set] = {}
        for meanings in splits.values():
            for meaning in meanings:
                text, says = mrs.reply(meaning, lang)
                said.setdefault(text, set()).add(says)
        assert not {text: says for text, says in said.items() if len(says) > 1}


def test_response_set(root, splits):
    """Two or three hundred responses hold the replies of most test messages."""
    for lang in LANGUAGES:
        records = responses(root, lang)
        texts = {record['reply'] for record in records}
        assert 200 <= len(records) <= 400
        test = pairs(root, 'test', lang)
        assert statistics.mean(reply in texts for _, reply in test) >= 0.8
        # Some replies are of their message only: no retriever can be right about them.
        assert not {reply for _, reply in test} <= texts
        gmr = pairs(root, 'gmr_valid', lang)
        assert gmr == [pair for pair in pairs(root, 'valid', lang) if pair[1] in texts]
        # Paraphrases share a cluster.
        clusters = [record['cluster'] for record in records]
        assert 0.4 * len(records) < len({*clusters}) < 0.8 * len(records)
        assert max(map(clusters.count, clusters)) == 2
        scores = [float(record['lm_score']) for record in records]
        train = [reply for _, reply in pairs(root, 'train', lang)]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] == round(math.log(train.count(records[0]['reply']) / len(train)), 4)


def test_what_is_shown_for_a_response(root):
    assert sorted(os.listdir(root / 'mrs/rsp_map')) == ['de', 'en']
    shown = responses(root, 'de', f'{root}/mrs/rsp_map/de/response.mapping.txt')
    assert any(r['display'] == f'{r["reply"]} 🙂' for r in shown if r['reply'].endswith('!'))
    assert all(r['display'] == r['reply'] for r in shown if not r['reply'].endswith('!'))


@pytest.mark.parametrize('lang', ['en', 'ru', 'ja'])
def test_baselines_stay_behind(root, lang):
    """The replies themselves score 80 to 100: those of one or two words have few n-grams."""
    train, test = pairs(root, 'train', lang), pairs(root, 'test', lang)
    messages, gold = zip(*test, strict=True)
    scores = {}
    for name in ('copy_input', 'most_frequent', 'nearest_input'):
        said = baselines.predict(name, train, messages, count=3)
        scores[name] = statistics.mean(map(weighted_rouge, said, gold))
    best = statistics.mean(weighted_rouge([text], text) for text in gold)
    assert scores['copy_input'] < 0.35 and scores['most_frequent'] < 0.2
    assert scores['nearest_input'] < best - 0.15
    nearest = baselines.predict('nearest_input', train, messages, count=3)
    assert statistics.mean(said[0] == text for said, text in zip(nearest, gold, strict=True)) < 0.4


def test_translated_pairs(root, splits):
    """They say what the first English ones say; some have a slip, some an English sentence."""
    for lang in LANGUAGES[1:]:
        train, found = pairs(root, 'train', lang), pairs(root, 'mt_train', lang)
        changed = [ours != theirs for ours, theirs in zip(found, train, strict=False)]
        assert 0.2 < statistics.mean(changed) < 0.5
    english = mrs.PHRASES['hurry']['en'][0]
    assert any(english in message for message, _ in pairs(root, 'mt_train', 'de'))
    assert not any(english in message for message, _ in pairs(root, 'train', 'de'))


def test_a_word_more_than_another_decides(splits):
    """Messages of the same words have different replies: no bag of words can tell them apart."""
    bags: dict[tuple, set[str]] = {}
    for meaning in splits['train']:
        alone = mrs.Meaning(meaning.frame, meaning.wording, meaning.rows, (), 0)
        bag = tuple(sorted(baselines.words(mrs.message(alone, 'en'))))
        bags.setdefault(bag, set()).add(mrs.reply(alone, 'en')[0])
    assert sum(len(said) > 1 for said in bags.values()) > 100


def test_a_sentence_of_haste_gets_the_short_reply():
    day = {'day': 0, 'day2': 1}
    calm = mrs.Meaning('day', 0, day, (), 0)
    hasty = mrs.Meaning('day', 0, day, (mrs.Beside('hurry', 0, {}),), 1)
    assert mrs.message(hasty, 'de') == (
        'Ich habe es eilig. Am Dienstag kann ich nicht, aber am Montag schon.'
    )
    assert mrs.reply(hasty, 'de')[0] == 'Dann am Montag.'
    assert mrs.reply(calm, 'de')[0] == 'Alles klar, wir sehen uns am Montag.'
    assert mrs.reply(hasty, 'de')[1] == mrs.reply(calm, 'de')[1]


def test_no_word_has_two_meanings():
    """It would make a reply ambiguous."""
    for table in (*mrs.PHRASES.values(), *(frame.messages for frame in mrs.FRAME.values())):
        assert all(len({*cells}) == len(cells) for cells in table.values())


def test_vocabulary(root):
    tokenizer = tokenizers.load('sample_mrs', str(root))
    for lang in LANGUAGES:
        assert len(tokenizer.encode(f'<{lang}>')) <= 2  # The tag, maybe a space before it.
        texts = [text for pair in pairs(root, 'test', lang) for text in pair]
        rows = tokenizer.encode_batch(texts)
        assert tokenizer.decode_batch(rows) == texts
        # Words and not letters, and no bytes: every character of the language has a piece.
        assert sum(map(len, rows)) < 0.45 * sum(map(len, texts)) or lang == 'ja'
        assert max(map(len, rows)) <= 64
    pieces = [tokenizer.decode_batch([row])[0] for row in tokenizer.encode_batch(['Ж', '駅', 'ß'])]
    assert pieces == ['Ж', '駅', 'ß']
