"""What the sample corpora share: seeds, the reading of their texts."""

import dataclasses
import json
import os
import pathlib
import random
import re

import pytest

from xlbench.system import errors
from xlbench.tasks.samples import clidsum, corpus, labels, lexicon, mrs, mtg, texts, translation

# What makes the examples of a seed.
MODULES = {
    mtg: lambda seed: mtg.make_splits('tg', seed),
    mrs: mrs.make_splits,
    labels: lambda seed: labels.make_splits('xnli', seed),
    clidsum: lambda seed: clidsum.make_splits('XSAMSum', seed),
    translation: translation.make_splits,
}

GOOD = """
# A comment.
[events]
en: lost | {name} found it.
de: verlor |
    {name} fand es.

[numbers]
three | drei
"""


@pytest.mark.parametrize('module', MODULES)
def test_another_seed_gives_another_corpus(monkeypatch, module):
    few = {'xnli': {'test': 20}} if module is labels else {'train': 20}
    monkeypatch.setattr(module, 'SPLITS', few)
    make = MODULES[module]
    assert make(0) == make(0) != make(1)


def test_no_key_is_in_two_examples():
    made = corpus.draw_splits(
        'a', {'train': 5, 'test': 5}, 0, lambda rng, _: rng.randrange(20), lambda n: [n, -n]
    )
    assert len({*made['train'], *made['test']}) == 10


def test_a_block_is_read_by_language_or_as_a_table():
    blocks = texts.parse(GOOD)
    assert blocks['events'].wordings() == {
        'en': ('lost', '{name} found it.'),
        'de': ('verlor', '{name} fand es.'),
    }
    assert blocks['numbers'].table() == (('three', 'drei'),)


# Titles of some languages have an article where others have none.
NOT_ALIKE = [('titles', 'events'), *(('questions', role) for role in mtg.ROLES)]
SLOTS = {
    *lexicon.forms('en', lexicon.sample(random.Random(0))),
    *('price', 'did', 'do', 'did_plural', 'pronoun', 'what'),
    *(f'{name}{number}' for name in mrs.PHRASES for number in ('', '2')),
    *(*clidsum.TABLES, 'names', 'other', 'does'),
}
LANGUAGES = {'phrases': mrs.LANGUAGES, 'frames': mrs.LANGUAGES, 'talks': clidsum.LANGUAGES}
CHINESE = '[一-鿿]+'
# What cells of a block in each language look like.
FORMS = dict.fromkeys(('object', 'job'), (r'\S+/DET .*/NOUN.*',) * 2)
FORMS['things'] = (r'\S+/NOUN', '[a-z].+')
# Columns of tables; others have a cell in each of the four languages, or words alone.
COLUMNS = {
    'verbs': ('.+, .+', '.+', '.+, .+', '.+'), 'names': ('[A-Z][a-z]+', CHINESE),
    **dict.fromkeys(('weather', 'numbers', 'actions'), ('.+',) * 4),
    'animal': (r'\S+/DET \S+/NOUN',) * 4, 'time': (r'(\S+/[A-Z]+ ?)+',) * 4,
    'number': (r'\S+/NUM',) * 4,
}  # fmt: skip


def mistakes(name, blocks):
    """What is wrong with the blocks of a text file, each with its block and cell."""
    for block, of_block in blocks.items():
        if not of_block.rows:
            yield f'[{block}] has no row'
            continue
        for cell in of_block.words():
            slots = re.findall(r'{(\w+)}', cell)
            if not cell or not cell.count('{') == cell.count('}') == len(slots):
                yield f'[{block}] {cell!r} is empty, or has a brace that is part of no slot'
            if unknown := set(slots) - SLOTS:
                yield f'[{block}] {cell!r} has a slot that nothing fills: {unknown}'
        if not of_block.rows[0][0]:
            columns = COLUMNS.get(block, ('.+',))
            if name == 'talks':
                columns = {'names': COLUMNS['names'], 'actions': ('.+',) * 4}.get(
                    block, ('.+', '.+', CHINESE)
                )
            for cells in of_block.table() if block not in ('women', 'men', 'towns') else ():
                pairs = zip(columns, cells, strict=False)
                if len(columns) != len(cells) or not all(re.fullmatch(*pair) for pair in pairs):
                    yield f'[{block}] {cells} is not written like the other rows'
            continue
        by_language = of_block.by_language()
        known = LANGUAGES.get(name, lexicon.LANGUAGES)
        if set(by_language) not in (set(known), {'en'} if name == 'talks' else set(known)):
            yield f'[{block}] has the languages {", ".join(by_language)}'
        for lang, rows in by_language.items():
            for cells in rows if name == 'lexicon' and block in FORMS else ():
                if not all(map(re.fullmatch, FORMS[block], cells)):
                    yield f'[{block}] {cells} is not written like the other rows'
            if [*map(len, rows)] != [*map(len, by_language['en'])]:
                yield f'[{block}] has other rows in {lang} than in English'
                continue
            for cell, english in zip(sum(rows, ()), sum(by_language['en'], ()), strict=True):
                slots, expected = ({*re.findall(r'{(\w+)}', text)} for text in (cell, english))
                if (name, block) not in NOT_ALIKE and slots != expected:
                    yield f'[{block}] {cell!r} has other slots than its English'
        if name == 'frames':
            _, _, says = block.partition(' = ')
            sizes = [*map(len, by_language['en'])]
            if len(sizes) != (1 if says else 2) or (not says and sizes[1] != 2):
                yield f'[{block}] needs messages, and a short and a long reply'
            elif says and says not in blocks:
                yield f'[{block}] has the replies of {says}, which is no block'


@pytest.mark.parametrize('name', sorted({name for m in MODULES for name in m.SAMPLE.texts}))
def test_each_text_file_has_the_form_that_its_corpus_needs(name):
    path = pathlib.Path(texts.__file__).with_name(f'{name}.txt')
    headers = re.findall(r'^\[.+\]$', path.read_text('utf-8'), re.M)
    assert len(set(headers)) == len(headers)
    assert list(mistakes(name, texts.read(name))) == []


@pytest.mark.parametrize(
    ('line', 'wrong', 'message'),
    [
        ('de: verlor |', 'es: perdió |', 'has the languages en, es'),
        ('de: verlor |', 'de: verlor', 'has other rows in de'),
        ('de: verlor |', 'de: verlor | |', 'is empty'),
        ('{name} fand es.', '{nmae} fand es.', 'has a slot that nothing fills'),
        ('{name} fand es.', '{name fand es.', 'has a brace that is part of no slot'),
        ('{name} fand es.', 'Man fand es.', 'has other slots than its English'),
        ('three | drei', 'three', 'is not written like the other rows'),
        ('three | drei', '', '[numbers] has no row'),
    ],
)
def test_a_wrong_row_is_named(line, wrong, message, monkeypatch):
    assert GOOD.count(line) == 1
    monkeypatch.setitem(LANGUAGES, 'a', ('en', 'de'))
    monkeypatch.setitem(COLUMNS, 'numbers', ('.+', '.+'))
    assert list(mistakes('a', texts.parse(GOOD))) == []
    assert any(message in said for said in mistakes('a', texts.parse(GOOD.replace(line, wrong))))


def test_samples_are_written_anew_when_a_text_has_changed(tmp_path, monkeypatch):
    """A comment changes nothing, a word does; only the corpora that have it are stale."""
    for name in (name for module in MODULES for name in module.SAMPLE.texts):
        path = pathlib.Path(texts.__file__).with_name(f'{name}.txt')
        (tmp_path / path.name).write_bytes(path.read_bytes())
    before = {module: module.SAMPLE.about(0) for module in MODULES}
    monkeypatch.setattr(texts, '__file__', str(tmp_path / 'texts.py'))
    texts.read.cache_clear()
    try:
        frames = tmp_path / 'frames.txt'
        content = frames.read_text(encoding='utf-8')
        frames.write_text('# Checked.\n' + content, encoding='utf-8')
        assert {module: module.SAMPLE.about(0) for module in before} == before
        texts.read.cache_clear()
        frames.write_text(content.replace("en: I'm hungry.", 'en: I am hungry.'), encoding='utf-8')
        after = {module: module.SAMPLE.about(0) for module in before}
        assert [module for module in before if before[module] != after[module]] == [mrs]
    finally:
        monkeypatch.undo()
        texts.read.cache_clear()
    # That is what `write` compares.
    root, written = str(tmp_path / 'root'), []
    sample = dataclasses.replace(
        mrs.SAMPLE, fill=lambda folder, seed: None, train=lambda folder: b''
    )
    for about in (before[mrs], before[mrs], after[mrs]):
        monkeypatch.setattr(corpus.Sample, 'about', lambda self, seed, about=about: about)
        written.append(sample.write(root))
    assert written == [True, False, True]


def test_each_corpus_says_which_texts_it_has():
    """Every text file is of a corpus, and in what `write` records."""
    samples = [module.SAMPLE for module in MODULES]
    assert {sample.name: sample.about(0)['texts'] for sample in samples} == {
        'mtg': texts.digest('lexicon', 'stories', 'questions', 'titles'),
        'mrs': texts.digest('frames', 'phrases'), 'fewshot': texts.digest('lexicon', 'labels'),
        'clidsum': texts.digest('talks'), 'translation': texts.digest('talks'),
    }  # fmt: skip
    named = {name for sample in samples for name in sample.texts}
    assert named == {path.stem for path in pathlib.Path(texts.__file__).parent.glob('*.txt')}


@pytest.fixture
def sample():
    """A corpus of one file, which holds the seed."""

    def fill(folder, seed):
        corpus.write_text(os.path.join(folder, 'test.src'), f'{seed}\n')

    return corpus.Sample('a', 1, (), 'a.model', fill, lambda folder: b'pieces')


def test_what_is_there_is_kept_and_replaced_only_by_another_seed(sample, tmp_path):
    root, about, text = str(tmp_path), tmp_path / 'SAMPLE.json', tmp_path / 'a' / 'test.src'
    about.write_text(json.dumps({'corpora': {'mtg': {'seed': 5}}}))
    assert sample.write(root, seed=3) and text.read_text() == '3\n'
    assert json.loads(about.read_text())['corpora'] == {'mtg': {'seed': 5}, 'a': sample.about(3)}
    assert sorted(os.listdir(root)) == ['SAMPLE.json', 'a', 'a.model']
    text.write_text('changed\n')
    assert not sample.write(root, seed=3) and text.read_text() == 'changed\n'
    # A vocabulary that went missing is made again, the texts stay.
    (tmp_path / 'a.model').unlink()
    assert sample.write(root, seed=3) and text.read_text() == 'changed\n'
    assert (tmp_path / 'a.model').read_bytes() == b'pieces'
    # An interrupted writing lacks the description; the next one starts anew.
    about.unlink()
    assert sample.write(root, seed=3) and text.read_text() == '3\n'
    assert sample.write(root, seed=4) and text.read_text() == '4\n'
    assert dataclasses.replace(sample, generator=2).write(root, seed=4)


def test_official_files_are_never_replaced(sample, tmp_path):
    official = tmp_path / 'a' / 'train.src'
    official.parent.mkdir()
    official.write_text('real\n')
    with pytest.raises(errors.UserError, match='no sample'):
        sample.write(str(tmp_path))
    assert os.listdir(official.parent) == ['train.src'] and official.read_text() == 'real\n'
    assert not (tmp_path / 'SAMPLE.json').exists()
