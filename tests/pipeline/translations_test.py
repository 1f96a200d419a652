"""Parallel texts of a user's own: pipeline.register_translation_tasks, and TMX."""

import gzip

import own_task_file
import pytest

from xlbench import pipeline
from xlbench.data import readers

TMX = """<?xml version="1.0" encoding="{encoding}"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en"/><body>
<tu><prop>x</prop><tuv xml:lang="en-GB"><seg>Good <hi>morning</hi>
 &amp; more<bpt i="1">&lt;b&gt;</bpt>.</seg></tuv>
<tuv xml:lang="DE_at"><seg>Guten Morgen.</seg></tuv><tuv lang="de"><seg>Anders</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Yes</seg></tuv><tuv xml:lang="fr"><seg>Oui</seg></tuv></tu>
<tu><tuv lang="de"><seg>Grüße</seg></tuv><tuv lang="en"><seg>Greetings</seg></tuv></tu>
</body></tmx>
"""
PAIRS = [('Good morning & more.', 'Guten Morgen.'), ('Greetings', 'Grüße')]


@pytest.fixture
def root(tmp_path):
    with own_task_file.forgotten(), pipeline.bound(None, str(tmp_path)):
        yield tmp_path


def read(task, split):
    chunks = task.source.chunks(split, task.source.paths(split))
    return [pair for c in chunks for pair in zip(c['inputs'], c['targets'], strict=True)]


def test_the_usual_forms_are_read_in_both_directions(root):
    (root / 'a.en.gz').write_bytes(gzip.compress(b'Good morning & more.\nGreetings\n'))
    (root / 'a.de').write_text('Guten Morgen.\nGrüße\n')
    (root / 'b.tmx').write_text(TMX.format(encoding='UTF-8'))
    (root / 'c.tmx.gz').write_bytes(gzip.compress(TMX.format(encoding='UTF-16').encode('utf-16')))
    (root / 'd.tmx').write_bytes(TMX.format(encoding='windows-1252').encode('cp1252'))
    lines = ''.join(f'{en}\t{de}\n' for en, de in PAIRS)
    (root / 'e.tsv').write_text(f'en\tde\n{lines}')
    (root / 'f.jsonl').write_text(''.join(f'{{"en": "{en}", "de": "{de}"}}\n' for en, de in PAIRS))
    (root / 'g.csv').write_text('de,en\n' + ''.join(f'"{de}","{en}"\n' for en, de in PAIRS))
    files = {'pair': (root / 'a.en.gz', 'a.de')}
    files |= {name[0]: name for name in ('b.tmx', 'c.tmx.gz', 'd.tmx', 'e.tsv', 'f.jsonl', 'g.csv')}
    forth, back = pipeline.register_translation_tasks('mine', 'en', 'de', files=files)
    assert (forth.name, back.name) == ('mine_translation_en_de', 'mine_translation_de_en')
    for split in files:
        assert read(forth, split) == PAIRS, split
        assert read(back, split) == [pair[::-1] for pair in PAIRS], split
        assert forth.source.num_input_examples(split) == 2
    assert pipeline.headline(forth) == 'bleu'
    assert (back.source.source_lang, back.source.target_lang) == ('de', 'en')


def test_columns_and_quotes(root):
    (root / 'x.tsv').write_text('1\t"So\tSo\n2\tJa"\tYes\n')
    task, _ = pipeline.register_translation_tasks(
        'other', 'de', 'en', files={'train': 'x.tsv'},
        columns=['id', 'left', 'right'], fields={'de': 'left', 'en': 'right'},
        headline='ter',
    )  # fmt: skip
    assert read(task, 'train') == [('"So', 'So'), ('Ja"', 'Yes')]
    assert pipeline.headline(task) == 'ter'


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        ('<tmx><tu>\n<tuv', r'x.tmx:2: not well-formed XML: unclosed token'),
        ('', r'x.tmx:1: not well-formed XML: no element found'),
        ('<html/>', 'x.tmx:1: the outermost element is <html>, not <tmx>'),
        ('<tmx>' * 65, 'x.tmx:1: has more than 64 elements inside each other'),
        ('<!DOCTYPE tmx [<!ENTITY a "aa">]><tmx>&a;</tmx>', "declares the entity 'a'"),
        ('<!DOCTYPE tmx [<!ENTITY a SYSTEM "/etc/passwd">]><tmx>&a;</tmx>', 'declares the entity'),
        ('<!DOCTYPE t [<!ENTITY % a SYSTEM "/etc/passwd"> %a;]><tmx/>', 'declares the entity'),
        ('<?xml version="1.0" encoding="klingon"?><tmx/>', 'cannot be read: unknown encoding'),
        ('<tmx><tu><tuv lang="en"><seg>' + 'x' * 3000, 'x.tmx:1: a text is too long: at most 1'),
        ('<tmx>\n<!-- ' + 'x' * 200_000, 'x.tmx:2: a tag or comment is too long: at most 1,000'),
        ('<tmx a="' + 'x' * 200_000, 'x.tmx:1: a tag or comment is too long'),
        (
            '<tmx><tu/>\n<tu><tuv lang="en"><seg> </seg></tuv>'
            '<tuv lang="de"><seg>b</seg></tuv></tu></tmx>',
            'x.tmx:2: the text in en is empty',
        ),
    ],
)  # fmt: skip
def test_a_tmx_is_not_believed(root, monkeypatch, content, message):
    monkeypatch.setenv('XLBENCH_MAX_LINE_BYTES', '1000')
    (root / 'x.tmx').write_text(content)
    items = list(readers.read_tmx(str(root / 'x.tmx'), 'en', 'de'))
    assert message.replace('x.tmx', f'{root}/x.tmx') in str(items[-1])
