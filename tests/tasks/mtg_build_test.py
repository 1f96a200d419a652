"""The construction of MTG: originals, translation there and back, filter, sheets, splits."""

import csv
import gzip
import json
import pathlib
import zlib

import far_engine
import msgspec
import pytest
from nightly import nightly
from put_files import tree

from xlbench.judgement import corrections
from xlbench.prepare import stages
from xlbench.system import errors
from xlbench.tasks.mtg_build import command, originals, publishing
from xlbench.tasks.mtg_build.correcting import SPLITS

# Some words are lost on the way back: of a passage of 8 tokens 1, of the others' some.
ENGINE = 'command:sed -e s/hound/Hund/;s/tart/Torte/;s/sad.glum.dim/x/'
SIDES = ('src', 'trg')
LANGS = ('en', 'de', 'es')


def write_stories(path: pathlib.Path, count: int) -> str:
    """ROCStories: one of two endings has 'tart', so that 2 of 3 tokens come back."""
    names = ['storyid', 'storytitle', *(f'sentence{n}' for n in range(1, 6))]
    with path.open('w', newline='') as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for i in range(count):
            ending = 'A tart!' if i % 2 else 'A "pie"\tcame!'
            writer.writerow([i, 'T', f'Ann {i} ran, so.', 'Two.', ' Three\n x.', 'Four.', ending])
    return str(path)


def write_questions(path: pathlib.Path, articles: int) -> str:
    """SQuAD: three questions a passage; the answer 'the hound' comes back by half."""
    data = []
    for i in range(articles):
        context, questions = f'Here {i} the hound\nsits.', []
        for n, text in enumerate(['the hound', 'Here', 'sits']):
            answers = [{'text': text, 'answer_start': context.index(text)}]
            asked = {'id': f'{i}-{n}', 'question': f'Who {n} sits here?', 'answers': answers}
            questions.append(asked)
        data.append({'title': f'A{i}', 'paragraphs': [{'context': context, 'qas': questions}]})
    path.write_text(json.dumps({'data': data}))
    return str(path)


def write_titles(path: pathlib.Path, count: int) -> str:
    rows = [{'content': f'News {i} of now.', 'title': f'News {i}'} for i in range(count)]
    path.write_text(''.join(json.dumps(row) + '\n' for row in [*rows, rows[0]]))
    return str(path)


def build(folder, *flags, output='data', engine=ENGINE, sizes='4,2,3'):
    given = [f'--engine={engine}', f'--sizes={sizes}', f'--output={folder / output}', *flags]
    return command.main(['mtg_build', 'build', '--languages=de,es', '--per_sheet=4', *given])


def lines(folder, task, lang, split, side, output='data') -> list[str]:
    path = folder / output / 'mtg' / task / lang / f'{split}.{side}'
    return path.read_text().split('\n')[:-1]


def corrected(sheet_path: pathlib.Path, folder: pathlib.Path, change) -> str:
    """What the page of a sheet saves: change(English texts, machine's texts) -> texts or None."""
    data = json.loads(sheet_path.read_text())['sheet']
    sheet = json.dumps(data).encode()
    ident = msgspec.json.decode(sheet, type=corrections.Sheet).id
    items = []
    for number, pair in enumerate(zip(data['sources'], data['texts'], strict=True), 1):
        texts = change(*pair)
        items.append({'item': number, 'left_out': texts is None, 'texts': texts or pair[1]})
    rows = ['\t'.join([str(i['item']), f'{i["left_out"]:d}', *i['texts']]) for i in items]
    value = {
        'format': 'xlbench corrections 1', 'sheet': ident, 'name': data['name'], 'items': items,
        'checksum': f'{zlib.crc32(chr(10).join([ident, *rows]).encode()):08x}',
    }  # fmt: skip
    path = folder / f'corrected-{data["name"]}.json'
    path.write_text(json.dumps(value))
    return str(path)


@pytest.fixture(scope='module')
def built(tmp_path_factory):
    """All three tasks, built at the threshold 0.6; and what the command printed."""
    folder = tmp_path_factory.mktemp('built')
    flags = [
        f'--sg={write_stories(folder / "roc.csv", 20)}',
        f'--qg={write_questions(folder / "squad.json", 9)}',
        f'--tg={write_titles(folder / "articles.txt", 15)}',
        '--threshold=0.6',
    ]
    assert build(folder, *flags) == 0
    return folder, flags


def test_what_a_killed_build_has_left_goes(built):
    folder, flags = built
    left = folder / 'data/mtg/sg/de/.rough_train.src.machine-1.tmp'
    left.write_text('half')
    assert build(folder, *flags) == 0 and not left.exists()


def test_what_stays_is_parallel_and_has_enough_overlap(built, capsys):
    folder, flags = built
    assert build(folder, *flags) == 0  # All is done; the table is printed again.
    table = capsys.readouterr().out
    for task, sample in (('sg', 9), ('qg', 9), ('tg', 9)):
        about = json.loads((folder / f'data/mtg/{task}/rough_train.about.json').read_text())
        assert about['counts']['sample'] == sample and about['counts']['bad'] == 0
        for lang in LANGS:
            for side in SIDES:
                text = lines(folder, task, lang, 'rough_train', side)
                assert len(text) == about['counts']['kept'] == about['kept']['0.6']
    # Endings 'A tart!': 2 of 3 tokens come back, which is enough; then 0.67 is too much.
    about = json.loads((folder / 'data/mtg/sg/rough_train.about.json').read_text())
    tarts = sum('A tart!' in line for line in lines(folder, 'sg', 'en', 'rough_train', 'trg'))
    assert about['kept']['0.66'] == 11 and about['kept']['0.67'] == 11 - tarts
    assert (
        '| 0.5 | 11 (100.0 %) |' in table and 'tg: 15 originals' in table and '1 repeated' in table
    )
    # The answer 'the hound' has an overlap of 0.5.
    english = lines(folder, 'qg', 'en', 'rough_train', 'src')
    german = lines(folder, 'qg', 'de', 'rough_train', 'src')
    assert {line.split('\t')[1] for line in english} == {'Here', 'sits'}
    assert all(a.replace('hound', 'Hund') == b for a, b in zip(english, german, strict=True))
    about = json.loads((folder / 'data/mtg/qg/rough_train.about.json').read_text())
    assert about['kept']['0.5'] * 2 == about['kept']['0.51'] * 3
    # A tab in a text is a space, a line end too.
    assert lines(folder, 'sg', 'en', 'rough_train', 'src')[0].endswith('Two. Three x. Four.')
    assert 'A "pie" came!' in lines(folder, 'sg', 'es', 'rough_train', 'trg')


def test_no_passage_is_in_two_parts(built, tmp_path):
    folder, _ = built
    flags = [f'--output={tmp_path}', f'--work={folder}/data/mtg_build', '--uncorrected']
    command.main(['mtg_build', 'correct', *flags])
    splits = [
        {line.split('\t')[0] for line in lines(tmp_path, 'qg', 'en', split, 'src', '.')}
        for split in SPLITS
    ]
    splits.append({line.split('\t')[0] for line in lines(folder, 'qg', 'en', 'rough_train', 'src')})
    assert sum(map(len, splits)) == len(set.union(*splits))
    assert [len(lines(tmp_path, 'qg', 'es', s, 'trg', '.')) for s in SPLITS] == [4, 2, 3]


def test_fill():
    filled = originals.fill(['ab', 'cde', 'f', 'gh'], [3, 1, 2])
    assert filled == [['a', 'b', 'c'], ['f'], ['g', 'h']]
    assert originals.fill(['ab'], [3, 1]) == [['a', 'b'], []]
    examples = [(f'passage {i // 3}', f'{i}') for i in range(60)]
    names = originals.sample(examples, (10, 5), 1)
    assert len(set(names)) == 15 and names == originals.sample(examples[::-1], (10, 5), 1)
    assert names != originals.sample(examples, (10, 5), 2)


def test_a_killed_build_goes_on_and_any_number_of_workers_makes_the_same(
    built, tmp_path, monkeypatch
):
    folder, flags = built
    monkeypatch.setattr(originals, '_EXAMPLES', 4)  # More files, so that there is a middle.
    done = []

    def dying(*job):
        done.append(job[1:])
        if len(done) > 3:
            raise KeyboardInterrupt
        return translate(*job)

    translate = publishing._translate
    monkeypatch.setattr(publishing, '_translate', dying)
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path, *flags[:1], flags[-1])
    monkeypatch.setattr(publishing, '_translate', translate)
    assert build(tmp_path, *flags[:1], flags[-1], '--workers=2') == 0
    assert tree(tmp_path / 'data/mtg/sg') == tree(folder / 'data/mtg/sg')
    sheets = 'data/mtg_build/sg/sheets'
    assert tree(tmp_path / sheets) == tree(folder / sheets)


@pytest.mark.parametrize('engine', ['far', *nightly('beam')])
def test_another_engine_gives_the_same_bytes(engine, built, tmp_path, monkeypatch):
    folder, flags = built
    more = []
    if engine == 'beam':
        pytest.importorskip('apache_beam')
        more = ['--beam', '--', '--direct_running_mode=multi_processing', '--direct_num_workers=2']
    else:
        monkeypatch.setattr(stages, 'of_flags', lambda *arguments: far_engine.FarEngine())
    assert build(tmp_path, *flags, *more) == 0
    assert tree(tmp_path / 'data/mtg') == tree(folder / 'data/mtg')


def test_other_settings_are_refused_and_what_they_leave_alone_stays(tmp_path, monkeypatch, capsys):
    stories = f'--sg={write_stories(tmp_path / "roc.csv", 20)}'
    assert build(tmp_path, stories, '--languages=de') == 0
    with pytest.raises(errors.UserError, match=r'--threshold was 0\.5 and is 0\.7; repeat'):
        build(tmp_path, stories, '--threshold=0.7', '--languages=de')
    # Another threshold translates nothing again, and replaces what this build has made.
    asked = []
    translate = publishing._translate
    spy = lambda *job: asked.append(job[1:]) or translate(*job)  # noqa: E731
    monkeypatch.setattr(publishing, '_translate', spy)
    before = tree(tmp_path / 'data/mtg')
    assert build(tmp_path, stories, '--threshold=0.7', '--languages=de', '--redo') == 0
    assert not asked and tree(tmp_path / 'data/mtg') != before
    # A file that somebody has changed is theirs.
    mine = tmp_path / 'data/mtg/sg/en/rough_train.src'
    mine.write_text('mine\n')
    with pytest.raises(errors.UserError, match=r'en/rough_train.src exists already'):
        build(tmp_path, stories, '--languages=de', '--redo')
    assert mine.read_text() == 'mine\n'
    mine.unlink()
    # Another language is translated, the first one is not.
    assert build(tmp_path, stories, '--languages=de,es', '--redo') == 0
    assert {job[0] for job in asked} == {'es'}
    assert build(tmp_path, stories, '--languages=es', '--redo') == 0
    assert not (tmp_path / 'data/mtg/sg/de/rough_train.src').exists()
    assert 'sheets for people are in' in capsys.readouterr().err


def test_texts_that_are_not_translated_are_counted(tmp_path, capsys):
    titles = f'--tg={write_titles(tmp_path / "articles.txt", 6)}'
    texts = [t for i in range(6) for t in (f'News {i} of now.', f'News {i}')]
    for name, missing in (('en-de', 'News 3'), ('en-es', ''), ('de-en', ''), ('es-en', 'News 5')):
        table = ''.join(f'{text}\t{text}\n' for text in texts if text != missing)
        (tmp_path / f'{name}.tsv').write_text(table)
    engine = f'file:{tmp_path}/{{source}}-{{target}}.tsv'
    assert build(tmp_path, titles, engine=engine, sizes='0,0,0') == 1
    out = capsys.readouterr().out
    assert '1 in de, 1 in es (' in out and 'has no translation of it' in out
    assert len(lines(tmp_path, 'tg', 'es', 'rough_train', 'src')) == 4


@pytest.mark.parametrize(
    ('content', 'flags', 'message'),
    [
        ('{"article": "A", "title": "T"}\n{"article": "A"}\n', [], r"a.jsonl:2: .*'title'"),
        ('{"article": "A", "title": " "}\n', [], r'a.jsonl:1: title is'),
        ('{"text": "A", "head": "T"}\n', [], "'article'"),
        ('{"article": "A", "title": "T"}\n', [], '1 originals for a sample of 9'),
        ('{"article": "hound", "title": "T"}\n', ['--sizes=0,0,0'], 'none of 1 examples reaches'),
        ('', [], 'no examples|originals for a sample'),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, content, flags, message):
    path = tmp_path / 'a.jsonl'
    path.write_text(content)
    with pytest.raises(errors.UserError, match=message) as error:
        build(tmp_path, f'--tg={path}', *flags)
    assert '\n' not in str(error.value)
    assert not (tmp_path / 'data/mtg').exists()


def test_people_correct_the_sample(built, tmp_path):
    folder, flags = built
    assert build(tmp_path, flags[1], '--spare=3', '--qg_held_out', flags[1].partition('=')[2]) == 0
    sheets = tmp_path / 'data/mtg_build/qg/sheets'
    left_out = []

    def change(source, texts):
        # The first example of German is left out, and with it that of Spanish.
        if not left_out:
            left_out.append(source)
            return None
        return [f'  {text} right\n' for text in texts]

    found = [path for lang in ('de', 'es') for path in sorted((sheets / lang).glob('*.json'))]
    paths = [corrected(path, tmp_path, change) for path in found]
    assert len(paths) == 6

    def correct(*given):
        return command.main(['mtg_build', 'correct', *given, f'--output={tmp_path / "data"}'])

    with pytest.raises(errors.UserError, match=r'3 of 12 examples are corrected .* too few'):
        correct(paths[0], paths[3])
    assert not (tmp_path / 'data/mtg/qg/de/train.src').exists()
    assert correct(*paths) == 0
    for lang in LANGS:
        for split, size in zip(SPLITS, (4, 2, 3), strict=True):
            assert len(lines(tmp_path, 'qg', lang, split, 'src')) == size
    passage, answer, question = left_out[0]
    sides = (lines(tmp_path, 'qg', 'en', 'train', side) for side in SIDES)
    pairs = list(zip(*sides, strict=True))
    assert (f'{passage}\t{answer}', question) not in pairs
    german = lines(tmp_path, 'qg', 'de', 'train', 'src')[0].split('\t')
    assert all(text.endswith(' right') for text in german)
    assert pairs[0][1] + ' right' == lines(tmp_path, 'qg', 'es', 'train', 'trg')[0]
    # What people sent back is checked.
    other = tmp_path / 'other.json'
    other.write_text(pathlib.Path(paths[0]).read_text().replace(' right', ' wrong', 1))
    with pytest.raises(errors.UserError, match='was changed after its page saved it'):
        correct(str(other))
    (tmp_path / 'again').mkdir()
    again = corrected(sorted((sheets / 'de').glob('*.json'))[0], tmp_path / 'again', lambda s, t: t)
    with pytest.raises(errors.UserError, match='different corrections of sheet'):
        correct(*paths, again)
    with pytest.raises(errors.UserError, match='exists already'):
        correct(again, *paths[1:])
    assert correct(again, *paths[1:], '--redo') == 0
    with pytest.raises(errors.UserError, match='which is none of'):
        story = folder / 'data/mtg_build/sg/sheets/de/sg-de-001.json'
        correct(corrected(story, tmp_path, lambda s, t: t))


def test_version_2_has_summaries(tmp_path):
    path = tmp_path / 'documents.csv'
    path.write_text('text,summary\n"One, two.",Numbers.\nThree four.,More.\n')
    flags = [f'--summ={path}', '--languages=zh', '--sizes=0,0,0']
    with pytest.raises(errors.UserError, match='add --benchmark=mtg2'):
        build(tmp_path, *flags)
    assert build(tmp_path, *flags, '--benchmark=mtg2') == 0
    made = tmp_path / 'data/mtg2/summ/zh/rough_train.src'
    assert made.read_text() == 'One, two.\nThree four.\n'


def test_back_translations_are_kept_for_a_look(built):
    folder, _ = built
    path = folder / 'data/mtg_build/qg/translated_de/rough/000000.jsonl.gz'
    row = json.loads(gzip.decompress(path.read_bytes()).split(b'\n')[0])
    assert row['texts'][0] == row['back'][0]
    assert row['matches'][0][0] == [5, 6, 6] and row['matches'][0][3] == [0, 3, 3]
