"""Tests of data/bitext.py: what is done to parallel texts before a translator learns them."""

import gzip
import json
import subprocess

import numpy as np
import pytest
import warm

from xlbench.data import bitext
from xlbench.system import errors

GOOD = [
    ('The old bridge over the river is closed today.', 'Die alte Brücke über den Fluss ist zu.'),
    ('We will meet at the station on Monday.', 'Wir treffen uns am Montag am Bahnhof.'),
    ('Yes.', 'Ja, das stimmt.'),
]


@pytest.mark.parametrize(
    ('lang', 'text', 'written'),
    [
        ('de', '„Ｇｒüße”…\u00a0\u200bja –  nein', '"Grüße"... ja - nein'),
        ('de', 'Gru\u0308ße\tund\x07\r\nmehr\u00ad', 'Grüße und mehr'),
        ('en', '“It’s”', '"It\'s"'),
        ('zh', '２０岁,好! 是吗?（Ａ）', '20岁，好！是吗？（A）'),
        ('zh', '3,5 元：好。', '3,5 元：好。'),
        ('ja', 'ｶﾞﾗｽ、１２', 'ガラス、12'),
        ('en', '，。！', ',。!'),
    ],
)
def test_characters_are_written_in_one_way(lang, text, written):
    assert bitext.normalized(text, lang) == written
    assert bitext.normalized(written, lang) == written


def test_rules_in_their_order():
    rules = bitext.Rules('en', 'de', max_length=20)
    long = 'word ' * 20
    cases = {
        ('...', 'Ja'): 'no letters',
        (long + 'x', long): 'length',
        ('Yes', 'Ja, ' * 9): 'length ratio',
        ('Berlin!', 'berlin'): 'copy',
        ('The bridge is closed.', 'Мост сегодня закрыт.'): 'script',
        (GOOD[0][0], 'The bridge over the river is not open.'): 'language',
    }
    pairs = [*cases, *GOOD]
    assert rules.verdicts(pairs) == [*cases.values(), '', '', '']
    anything = bitext.Rules('en', 'de', identify=False)
    assert anything.verdicts([pairs[5]]) == ['']
    chinese = bitext.Rules('en', 'zh')
    assert chinese.verdicts([(GOOD[0][0], '河上的老桥今天关闭了。'), ('Hello.', 'Hallo.')]) == [
        '', 'script',
    ]  # fmt: skip
    assert bitext.length('河上的老桥今天关闭了。', 'zh') == 11 / 1.6


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'target_lang': 'en'}, "both languages are 'en'"),
        ({'target_lang': 'xx'}, "unknown language 'xx'"),
        ({'max_length': 0}, 'max_length is 0; give 1 word or more'),
        ({'max_ratio': 0.5}, 'max_ratio is 0.5; give 1 or more'),
    ],
)
def test_impossible_rules(change, message):
    with pytest.raises(errors.UserError, match=message):
        bitext.Rules(**{'source_lang': 'en', 'target_lang': 'de'} | change)


def test_what_was_there_before_is_known():
    """Against a set, over many additions, with repetitions inside and between them."""
    numbers = np.random.default_rng(0).integers(0, 5000, 20_000).astype(np.uint64)
    known, before = bitext.Seen(), set()
    for part in np.split(numbers, 100):
        new = known.add(part)
        for number, is_new in zip(part.tolist(), new.tolist(), strict=True):
            assert is_new == (number not in before)
            before.add(number)
    assert len(known._arrays) < 20
    assert not known.add(numbers).any() and known.add(numbers[:0]).shape == (0,)
    same = bitext.hashes([('Ja!', 'Yes'), ('ja', 'yes.'), ('ja', 'no'), ('jay', 'es')])
    assert len(set(same.tolist())) == 3


def write_inputs(folder):
    (folder / 'a.en').write_text(''.join(f'{en}\n' for en, _ in GOOD))
    (folder / 'a.de.gz').write_bytes(gzip.compress(''.join(f'{de}\n' for _, de in GOOD).encode()))
    rows = ['1\tDie Tür ist offen.\tThe door\u00a0is open.', f'2\t{GOOD[1][1]}\t{GOOD[1][0]}', 'x']
    (folder / 'b.tsv').write_text('\n'.join(rows) + '\n')
    units = '<tu><tuv lang="en"><seg>{}</seg></tuv><tuv lang="{}"><seg>{}</seg></tuv></tu>'
    body = units.format('Good night', 'de', 'Gute Nacht') + units.format('a', 'fr', 'b')
    (folder / 'c.tmx').write_text(f'<tmx>{body}</tmx>')
    return [f'{folder}/a.en,{folder}/a.de.gz', f'{folder}/b.tsv:3,2', f'{folder}/c.tmx']


def test_files_of_any_form_become_one(tmp_path, monkeypatch):
    monkeypatch.setattr(bitext, '_CHUNK', 2)
    inputs = [bitext.Input.parse(name) for name in write_inputs(tmp_path)]
    rules = bitext.Rules('en', 'de')
    report = bitext.clean(inputs, str(tmp_path / 'out' / 'train.tsv'), rules)
    kept = [*GOOD, ('The door is open.', 'Die Tür ist offen.'), ('Good night', 'Gute Nacht')]
    written = (tmp_path / 'out' / 'train.tsv').read_text()
    assert written == ''.join(f'{en}\t{de}\n' for en, de in kept)
    assert (report.read, report.kept) == (8, 5)
    dropped = {'duplicate': 1, 'unreadable': 1, 'not both languages': 1}
    assert +report.dropped == dropped
    told = '\n'.join(report.lines())
    assert '8 pairs read, 5 kept' in told and 'duplicate                 1 dropped (12.5%)' in told
    assert f'{tmp_path}/b.tsv:3: 1 TAB-separated columns; 3 are needed' in told
    about = json.loads((tmp_path / 'out' / 'train.tsv.about.json').read_text())
    assert about['kept'] == 5 and about['dropped']['duplicate'] == 1
    bitext.clean(inputs, str(tmp_path / 'packed.tsv.gz'), rules)
    assert gzip.decompress((tmp_path / 'packed.tsv.gz').read_bytes()).decode() == written


@pytest.mark.parametrize(
    ('inputs', 'message'),
    [
        (['no.tsv'], 'there is no file no.tsv'),
        (['a,b,c'], 'a,b,c is not the names of two files with a comma between'),
        (['x.tsv:1'], 'x.tsv:1: after the colon there are two columns, such as 2,1'),
        (['x.tsv:2,2'], 'after the colon there are two columns'),
    ],
)
def test_inputs_that_cannot_be(inputs, message):
    with pytest.raises(errors.UserError, match=message):
        bitext.clean([*map(bitext.Input.parse, inputs)], 'out.tsv', bitext.Rules('en', 'de'))


def test_a_file_that_is_wrong_as_a_whole_leaves_nothing(tmp_path):
    (tmp_path / 'bad.tmx').write_text('<tmx><tu>')
    for name, message in (('bad.tmx', 'bad.tmx:1: not well-formed XML'), ('out.tsv', 'is one of')):
        if name == 'out.tsv':
            (tmp_path / name).touch()
        with pytest.raises(errors.UserError, match=message):
            bitext.clean(
                [bitext.Input.parse(str(tmp_path / name))],
                str(tmp_path / 'out.tsv'),
                bitext.Rules('en', 'de'),
            )
        assert name == 'out.tsv' or not (tmp_path / 'out.tsv').exists()
    assert (tmp_path / 'out.tsv').read_text() == ''
    with pytest.raises(errors.UserError, match=r'out\.tsv exists already; name another --output'):
        bitext.clean([], str(tmp_path / 'out.tsv'), bitext.Rules('en', 'de'))


def test_the_command_gives_the_same_bytes_with_workers(tmp_path):
    inputs = write_inputs(tmp_path)
    command = [warm.python(), '-m', 'xlbench.data', 'clean', '--source_lang=en', '--workers=2']
    command += ['--target_lang=de', f'--output={tmp_path}/train.tsv', *inputs]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert '8 pairs read, 5 kept' in done.stdout and 'train.tsv.about.json' in done.stdout
    rules = bitext.Rules('en', 'de')
    bitext.clean([*map(bitext.Input.parse, inputs)], f'{tmp_path}/again.tsv', rules)
    assert (tmp_path / 'train.tsv').read_bytes() == (tmp_path / 'again.tsv').read_bytes()
