"""Tests of xlbench/data/rows: every format gives the same rows, and says what is wrong where."""

import json

import pyarrow
import pytest
from put_files import broken, put
from pyarrow import ipc, parquet

from xlbench.data import readers, rows
from xlbench.system import errors

RECORDS = [
    ('Sie sagte "Ja".', 'gut'),
    ('a\tTAB, and a comma', 'schlecht'),
    ('two\nlines', 'gut'),
    ('"whole"', 'gut'),
    ('it\'s 5" long', 'schlecht'),
    (' spaces ', 'gut'),
]
KEYS = ('label', 'text')
# As pandas 3.1 writes them: to_csv(sep='\t', index=False) and to_csv().
PANDAS_TSV = (
    'text\tlabel\n"Sie sagte ""Ja""."\tgut\n"a\tTAB, and a comma"\tschlecht\n"two\nlines"\tgut\n'
    '"""whole"""\tgut\n"it\'s 5"" long"\tschlecht\n spaces \tgut\n'
)
PANDAS_CSV = (
    ',text,label\n0,"Sie sagte ""Ja"".",gut\n1,"a\tTAB, and a comma",schlecht\n2,"two\nlines",gut\n'
    '3,"""whole""",gut\n4,"it\'s 5"" long",schlecht\n5, spaces ,gut\n'
)
# As Excel saves it where a comma is in numbers: a byte order mark, semicolons, \r\n.
EXCEL_CSV = (
    '\ufefftext;label\r\n"Sie sagte ""Ja"".";gut\r\na\tTAB, and a comma;schlecht\r\n'
    '"two\nlines";gut\r\n"""whole""";gut\r\n"it\'s 5"" long";schlecht\r\n spaces ;gut\r\n'
)


def as_json(record):
    return {'text': record[0], 'label': record[1], 'other': 3}


def test_every_format_gives_the_same_rows(tmp_path):
    table = pyarrow.Table.from_pylist([as_json(record) for record in RECORDS])
    parquet.write_table(table, tmp_path / 'a.parquet', row_group_size=4)
    for name, new in (('a.arrow', ipc.new_stream), ('file.arrow', ipc.new_file)):
        with pyarrow.OSFile(str(tmp_path / name), 'wb') as sink, new(sink, table.schema) as out:
            out.write_table(table, max_chunksize=4)
    objects = [as_json(record) for record in RECORDS]
    lines = ''.join(json.dumps(value) + '\n' for value in objects)
    layouts = {
        put(tmp_path, 'a.tsv', PANDAS_TSV): rows.Layout(),
        put(tmp_path, 'a.csv', PANDAS_CSV): rows.Layout(),
        put(tmp_path, 'excel.csv', EXCEL_CSV): rows.Layout(separator=';'),
        put(tmp_path, 'a.jsonl', lines): rows.Layout(),
        put(tmp_path, 'a.json', json.dumps(objects, indent=1)): rows.Layout(),
        put(tmp_path, 'a.txt', lines): rows.Layout(format='jsonl'),
        put(tmp_path, 'packed.jsonl.gz', lines): rows.Layout(),
        str(tmp_path / 'a.parquet'): rows.Layout(),
        str(tmp_path / 'a.arrow'): rows.Layout(),
        str(tmp_path / 'file.arrow'): rows.Layout(),
    }
    for path, layout in layouts.items():
        got = [(row.values['text'], row.values['label']) for row in rows.read(path, KEYS, layout)]
        assert got == RECORDS, path
        assert rows.count(path, layout) == len(RECORDS), path
    # A row that is several lines long is at the first of them.
    numbers = [row.number for row in rows.read(str(tmp_path / 'a.csv'), KEYS, rows.Layout())]
    assert numbers == [2, 3, 4, 6, 7, 8]


def test_columns_without_a_header_and_without_quotes(tmp_path):
    path = put(tmp_path, 'a.tsv', '"Ja" sagte sie\tgut\n5" long\t"bad"\n')
    layout = rows.Layout(columns=('text', 'label'), quotes=False)
    first, second = (row.values for row in rows.read(path, KEYS, layout))
    assert first == {'text': '"Ja" sagte sie', 'label': 'gut'}
    assert second == {'text': '5" long', 'label': '"bad"'}
    assert rows.count(path, layout) == 2
    unnamed = rows.read(path, KEYS, rows.Layout(columns=()))  # The first line is no header.
    assert broken(unnamed)[1].endswith("no column 'label'; the columns are []")


@pytest.mark.parametrize(
    ('name', 'text', 'place', 'reason'),
    [
        # Of a file in which quotes mean nothing: a half of them is not a text.
        ('a.tsv', 'text\tlabel\n"Ja" sagte sie\tgut\n', 2, 'quotes mean nothing.*quotes=False'),
        ('a.tsv', 'text\tlabel\nsie sagte "Ja"\tgut\n', 2, 'quotes mean nothing.*quotes=False'),
        ('a.tsv', 'text\tlabel\nx\ty\n"offen\tgut\n', 3, 'opened here and never closed'),
        ('a.csv', 'text;label\na;b\n', 1, "no column 'label'.*try separator=';'"),
        ('a.csv', 'text,label,text\na,b,c\n', 1, "more than one column 'text'"),
        ('a.csv', 'text,label\na,b\na,b,c\n', 3, '3 columns instead of 2'),
        ('a.csv', 'text,label\na\n', 2, '1 column instead of 2'),
        ('a.csv', 'text,label\n\n', 2, 'the line is empty'),
        ('a.csv', '', 1, 'the file is empty'),
        ('a.csv', '"text";"label"\n"a";"b"\n', 1, "inside a cell.*; try separator=';'"),
        ('a.csv', '"text",a"label"\n', 1, 'inside a cell.*quotes=False'),
        ('a.jsonl', '{"text": "a", "label": "b"}\n{"text": "a"}\n', 2, "no key 'label'"),
        ('a.jsonl', '[1]\n', 1, 'a list, not an object'),
        ('a.jsonl', '{"text\n', 1, 'not JSON'),
        ('a.json', '{"data": []}', 1, 'the file is not a list of objects'),
        ('a.json', '[{"text": "a", "label": "b"}, 3]', 0, 'object 2: a number, not an object'),
        ('a.json', '[\n{"text"}]', 2, 'not JSON'),
        ('a.parquet', 'PAR1 and no more', 0, 'cannot be read'),
        ('a.arrow', 'no table', 0, 'cannot be read'),
        ('a.parquet.gz', '', 0, 'unpack the file'),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, name, text, place, reason):
    path = put(tmp_path, name, text)
    policy = readers.BadRecords()
    with pytest.raises(errors.UserError, match=reason) as raised:
        for row in rows.read(path, KEYS, rows.Layout()):
            if not isinstance(row, rows.Row):
                policy.add(row)
    said = str(raised.value)
    assert said.startswith(f'{path}:{place}: ' if place else f'{path}: ') and '\n' not in said


def test_a_carriage_return_is_text_inside_quotes_alone(tmp_path):
    path = put(tmp_path, 'a.csv', 'text,label\r\n"a\rb",x\r\nc\rd,y\r\n')
    good, bad = rows.read(path, ('text', 'label'), rows.Layout())
    assert good.values == {'text': 'a\rb', 'label': 'x'}
    assert bad == readers.BadRecord(path, 3, readers.CR_INSIDE)
    put(tmp_path, 'a.csv', 'text,label\ra,x\rb,y\r')  # Its line ends are all of this kind.
    found = broken(rows.read(path, ('text', 'label'), rows.Layout()))
    assert found == ([], f'{path}:1: {readers.CR_INSIDE}')


@pytest.mark.parametrize('kind', ['parquet', 'arrow'])
def test_a_file_of_columns_that_expands_too_far_is_refused(tmp_path, kind):
    path = str(tmp_path / f'a.{kind}')
    text = 'a' * (1 << 20)
    table = pyarrow.table({'text': [f'{text}{i}' for i in range(20)], 'label': ['x'] * 20})
    if kind == 'parquet':
        parquet.write_table(table, path, compression='zstd')
    else:
        options = pyarrow.ipc.IpcWriteOptions(compression='zstd')
        with pyarrow.ipc.new_file(path, table.schema, options=options) as file:
            file.write_table(table)
    _, said = broken(rows.read(path, ('text', 'label'), rows.Layout()))
    assert 'XLBENCH_MAX_EXPANSION' in said


def test_a_cell_of_parquet_keeps_to_the_limit_of_a_line(tmp_path, monkeypatch):
    path = str(tmp_path / 'a.parquet')
    parquet.write_table(pyarrow.table({'text': ['a' * 90, 'b' * 101], 'label': ['x', 'y']}), path)
    assert len(list(rows.read(path, ('text', 'label'), rows.Layout()))) == 2
    monkeypatch.setenv('XLBENCH_MAX_LINE_BYTES', '100')
    _, said = broken(rows.read(path, ('text', 'label'), rows.Layout()))
    assert "a cell of column 'text' has 101 bytes: at most 100" in said


def test_columns_of_parquet_must_be_there(tmp_path):
    parquet.write_table(pyarrow.table({'text': ['a']}), tmp_path / 'a.parquet')
    _, said = broken(rows.read(str(tmp_path / 'a.parquet'), KEYS, rows.Layout()))
    assert "no column 'label'; the columns are ['text']" in said
    with pytest.raises(errors.UserError, match='there is no file'):
        list(rows.read(str(tmp_path / 'b.parquet'), KEYS, rows.Layout()))


# What datasets 5.2 writes into the schema of a Parquet or Arrow file.
FEATURES = {
    'text': {'dtype': 'string', '_type': 'Value'},
    'label': {'names': ['bad', 'good'], '_type': 'ClassLabel'},
    'tags': {'feature': {'names': ['O', 'B-X'], '_type': 'ClassLabel'}, '_type': 'List'},
}


def test_numbers_of_labels_get_the_names_that_datasets_keeps(tmp_path):
    table = pyarrow.table(
        {'text': ['Ja.', 'Nein.', 'Hm.'], 'label': [1, 0, -1], 'tags': [[0], [1, 0], []]}
    )
    about = json.dumps({'info': {'features': FEATURES}}).encode()
    path = str(tmp_path / 'a.parquet')
    parquet.write_table(table.replace_schema_metadata({'huggingface': about}), path)
    read = list(rows.read(path, ('label', 'tags'), rows.Layout()))
    assert [row.values for row in read] == [
        {'label': 'good', 'tags': ['O']},
        {'label': 'bad', 'tags': ['B-X', 'O']},
        {'label': -1, 'tags': []},  # As datasets marks what has no label.
    ]


def test_a_folder_that_datasets_has_saved(tmp_path):
    datasets = pytest.importorskip('datasets', reason='needs the package datasets')
    labels = datasets.ClassLabel(names=['no', 'yes'])
    kinds = datasets.Features({'text': datasets.Value('string'), 'label': labels})
    saved = datasets.Dataset.from_dict({'text': ['a', 'b'], 'label': [1, 0]}, features=kinds)
    datasets.DatasetDict({'train': saved}).save_to_disk(str(tmp_path / 'saved'))
    (path,) = readers.find(rows.in_folder(str(tmp_path / 'saved' / 'train')))
    read = [row.values for row in rows.read(path, KEYS, rows.Layout())]
    assert read == [{'text': 'a', 'label': 'yes'}, {'text': 'b', 'label': 'no'}]


def test_values():
    assert [rows.label(v, 'x') for v in (3, True, ' gut ')] == ['3', 'true', 'gut']
    assert rows.texts('zwei Wörter', 'x') == rows.texts(['zwei', 'Wörter'], 'x')
    for value in (3.0, '', None, []):
        with pytest.raises(ValueError, match='stars'):
            rows.label(value, 'stars')
    with pytest.raises(ValueError, match=r'stars is 3\.0; a label is a text'):
        rows.label(3.0, 'stars')


def test_mistakes_in_a_layout():
    for options, words in (
        ({'format': 'xml'}, "unknown format 'xml'"),
        ({'separator': '; '}, 'is not one character'),
        ({}, 'does not say its format'),
    ):
        with pytest.raises(errors.UserError, match=words):
            rows.Layout(**options).format_of('news.txt')
