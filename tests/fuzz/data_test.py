"""Everything that corpora, buckets, predictions and preparations are read from."""

import functools
import gzip
import io
import json
import os
import pathlib
import random
import shutil
import tarfile
import zipfile

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from xlbench.data import (
    buckets,
    conllu,
    corpora,
    labelled,
    outputs,
    prepared,
    readers,
    rows,
    segments,
    tokenizers,
)
from xlbench.data.corpora import Archive
from xlbench.inference import answer_lines
from xlbench.retrieval.response_set import ResponseSet
from xlbench.system import errors

from . import cases, mutate

# ------------------------------------------------------------------------------------- corpora

WORDS = ('Die', 'alte', 'Brücke', '橋', 'über\u2028', 'x\x0c', '\U0001f600', 'Markt.')


def text(seed: int, count: int = 4) -> str:
    return ' '.join(random.Random(seed).choices(WORDS, k=count))


def lines(*rows) -> bytes:
    return ''.join('\t'.join(row) + '\n' for row in rows).encode()


def json_lines(*values) -> bytes:
    return ''.join(json.dumps(value, ensure_ascii=False) + '\n' for value in values).encode()


SQUAD = {'version': '1.1', 'data': [
    {'title': f'Article {a}', 'paragraphs': [
        {'context': f'{text(a)} Rome is old.', 'qas': [
            {'id': f'{a}-{q}', 'question': text(q),
             'answers': [{'text': text(a), 'answer_start': 0}]}
            for q in range(2)
        ]}
    ]}
    for a in range(2)
]}  # fmt: skip
DIALOGUES = [{'persona': ['x'], 'dialogue': [[text(1), text(2)], [text(3), text(4)]]}] * 2
REVIEW = {'stars': '4', 'review_title': '', 'review_body': text(1), 'product_category': 'home'}
TREEBANK = (
    '# text = Im Haus\n1-2\tIm{0}\n1\tIn\tin\tADP{1}\n2\tdem\tder\tDET{1}\n\n1\tja{0}\n'.format(
        '\t_' * 8, '\t_' * 6
    ).encode()
)
INTERVIEWS = [
    {'id': f'NPR-{i}', 'summary': text(i), 'utt': [text(2), text(3)], 'speaker': ['Ann', 'Ben']}
    for i in range(3)
]
UNITS = ''.join(
    f'<tu><note>x</note><tuv xml:lang="de-AT"><seg>{text(i)}<ph>1</ph> &amp; mehr</seg></tuv>'
    f'<tuv lang="zh"><seg>{text(i + 1)}</seg></tuv></tu>\n'
    for i in range(4)
).replace('\x0c', ' ')
TMX = f'<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header/><body>{UNITS}</body></tmx>'
KEYS = ('text', 'label')
TABLE = pyarrow.table({'text': [text(i) for i in range(5)], 'label': ['a', 'b'] * 2 + ['a']})


def parquet_bytes() -> bytes:
    out = io.BytesIO()
    parquet.write_table(TABLE, out)
    return out.getvalue()


def arrow_bytes(new) -> bytes:
    out = io.BytesIO()
    with new(out, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return out.getvalue()


def read_rows(path: str, **layout):
    return rows.read(path, KEYS, rows.Layout(**layout))


def read_views(path: str):
    for views in segments.read_views(path):
        if isinstance(views, segments.Views):
            views = {'labels': ' '.join(map(str, [*views.topics, *views.stages, '.']))}
        yield views


CSV = ''.join(f'"{text(i)}, ""so""",{"ab"[i % 2]}\n' for i in range(4))
# Name of the file: (whole content, reader).
CORPORA = {
    'a.jsonl': (
        json_lines(*({'src': text(i), 'tgt': text(9 - i)} for i in range(4))),
        lambda path: readers.read_jsonl(path, {'inputs': 'src', 'targets': 'tgt'}),
    ),
    'a.tsv': (
        lines(('id', 'src'), ('1', text(1)), ('2', text(2))),
        lambda path: readers.read_tsv(path, ['src', 'tgt']),
    ),
    'memory.tmx': (TMX.encode(), lambda path: readers.read_tmx(path, 'de', 'zh')),
    'squad.json': (json.dumps(SQUAD).encode(), readers.read_squad),
    'pairs.tsv': (
        lines((text(1), text(2), '1', '2'), (text(3), text(4), '', '')),
        readers.read_pairs,
    ),
    'responses.txt': (
        lines(('-1.5', text(1), 'c1'), ('-2', text(2), 'c1', 'more')),
        readers.read_responses,
    ),
    'dialogues.txt': (
        lines((f'{text(1)} __eou__ {text(2)} __eou__', '1 2')) * 2,
        readers.read_dialogues,
    ),
    'dialogues.json': (json.dumps(DIALOGUES).encode(), readers.read_dialogues_json),
    'interviews.json': (
        json.dumps(INTERVIEWS, indent=1).encode(),
        functools.partial(readers.read_interviews, others={'NPR-1'}),
    ),
    'translations.jsonl': (
        json_lines(*({'id': f'NPR-{i}', 'summary': text(i)} for i in range(3))),
        readers.read_translations,
    ),
    'triples.tsv': (
        lines(('f', '0', 'I', 'send', 'it', *'0112231', 'I send it', 'PRP VBP', 'I', 'send', 'it'))
        * 2,
        readers.read_triples,
    ),
    'views.jsonl': (
        json_lines(*({'topics': [1, 1, 2], 'stages': [0, i, 3]} for i in range(3))),
        read_views,
    ),
    'rows.csv': (f'text,label\n{CSV}'.encode(), read_rows),
    'rows.jsonl': (json_lines(*({'text': text(i), 'label': i} for i in range(4))), read_rows),
    'rows.json': (
        json.dumps([{'text': text(i), 'label': i} for i in range(4)]).encode(),
        read_rows,
    ),
    'rows.parquet': (parquet_bytes(), read_rows),
    'rows.arrow': (arrow_bytes(pyarrow.ipc.new_stream), read_rows),
    'file.arrow': (arrow_bytes(pyarrow.ipc.new_file), read_rows),
    'a.conllu': (TREEBANK, conllu.read_conllu),
    'a.iob2': (b'# text\n1\tBerlin\tB-LOC\t-\tx\n2\tist\tO\t-\tx\n\n', conllu.read_iob2),
    'a.conll': (b'-DOCSTART- O\n\n# id = 1\nEU NNP B-ORG\nsays VBZ O\n', conllu.read_conll),
    'tagged.tsv': ('Dogs\tNOUN\nbark\tVERB\n\nBrücke\tNOUN\n'.encode(), conllu.read_tagged),
    'xnli.tsv': (
        lines(
            ('language', 'gold_label'), *(('ar', 'neutral', text(i), text(i), '1') for i in (1, 2))
        ),
        functools.partial(labelled.read_xnli, lang='ar'),
    ),
    'pawsx.tsv': (
        lines(('id', 'a', 'b', 'label'), ('1', text(1), text(2), '0'), ('2', text(3), 'NS', '1')),
        functools.partial(labelled.read_pawsx, lang='de'),
    ),
    'mldoc.tsv': (
        lines(('CCAT', text(1)), ('MCAT', text(2))),
        functools.partial(labelled.read_mldoc, lang='de'),
    ),
    'marc.json': (json_lines(REVIEW, REVIEW), functools.partial(labelled.read_marc, lang='de')),
}


# A phrase of a triple may be, too.
MAY_BE_EMPTY = ('text_b', 'title', 'display', 'subject', 'relation', 'object')


def check_record(record) -> None:
    """What no record may hold, whatever the file is."""
    if isinstance(record, readers.BadRecord):
        raise errors.UserError(str(record))
    if isinstance(record, readers.LeftOut):
        return
    values = record.values if isinstance(record, rows.Row) else record
    for name, value in values.items():
        if isinstance(record, rows.Row):
            try:
                value = rows.label(value, name) if name == 'label' else rows.text(value, name)
            except ValueError as error:
                raise errors.UserError(str(error)) from None
        assert isinstance(value, str) and '\0' not in value, name
        value.encode()
        assert value or name in MAY_BE_EMPTY, f'{name} is empty'
    if 'tags' in values:
        assert len(values['words'].split(' ')) == len(values['tags'].split(' '))


# What editors, spreadsheets and strangers put into lines.
NASTY = (
    '\r', '\r\n', '\n\n', '\0', '\ufeff', '\u2028', '\x85', '\x1c', '\t', '\t\t', ' ', '"', '""',
    '#', '\\ud800', '\\u0000', '9' * 5000, '-1', 'nan', '1e999', '\u202e', '-DOCSTART-', '__eou__',
    'x' * 9000,
)  # fmt: skip


def harmed_line(whole: bytes, rng: random.Random) -> tuple[str, bytes]:
    """One thing in the middle of a text, or a line that is moved, doubled, cut or joined."""
    text, kind = whole.decode(), rng.randrange(6)
    if kind < 3:
        at, nasty = rng.randrange(len(text) + 1), rng.choice(NASTY)
        return f'{nasty[:20]!r} at {at}', (text[:at] + nasty + text[at:]).encode()
    rows = text.split('\n')
    at = rng.randrange(len(rows))
    if kind == 3:
        rows.insert(rng.randrange(len(rows) + 1), rows[at])
        return f'line {at + 1} is there twice', '\n'.join(rows).encode()
    if kind == 4:
        cells = rows[at].split('\t')
        rng.shuffle(cells)
        rows[at] = '\t'.join(cells[: rng.randrange(len(cells)) + 1])
        return f'other columns on line {at + 1}', '\n'.join(rows).encode()
    codec = rng.choice(['utf-16', 'utf-16-le', 'latin-1', 'cp1252', 'utf-8-sig'])
    return f'saved as {codec}', text.encode(codec, 'replace')


def harmed(whole: bytes, rng: random.Random, folder: pathlib.Path, name: str) -> tuple[str, str]:
    """(what was done, the path of the harmed file), now and then packed."""
    is_text = not name.endswith(('.parquet', '.arrow'))
    harm = harmed_line if is_text and rng.random() < 0.5 else mutate.harmed
    said, data = harm(whole, rng)
    kind = rng.randrange(12)
    if kind < 2:
        name += '.gz'
        data = gzip.compress(data if kind else whole)
        if not kind:
            said, data = mutate.harmed(data, rng)
            said = f'packed, then {said}'
    path = folder / name
    path.write_bytes(data)
    return said, str(path)


def each_harmed(title: str, count: int, table: dict, folder: pathlib.Path):
    """Yields names of a table, each with a harmed file of its content, and the case to read it."""
    names = list(table)
    for case in cases.each(title, count):
        name = names[case.seed % len(names)]
        case.said, path = harmed(table[name][0], case.rng, folder, name)
        yield name, path, case.run(name)
        os.unlink(path)


def test_corpora(tmp_path):
    for name, path, case in each_harmed('corpora', 80, CORPORA, tmp_path):
        ids = set()
        with case:
            for record in CORPORA[name][1](path):
                check_record(record)
                if name == 'squad.json':
                    assert record['id'] not in ids, 'two questions of one id'
                    ids.add(record['id'])


@pytest.mark.parametrize('name', CORPORA)
def test_whole_corpora_are_accepted(tmp_path, name):
    whole, read = CORPORA[name]
    (tmp_path / name).write_bytes(whole)
    records = list(read(str(tmp_path / name)))
    for record in records:
        check_record(record)
    assert sum(not isinstance(record, readers.LeftOut) for record in records) >= 1


def test_parallel_files(tmp_path):
    whole = '\n'.join(text(i) for i in range(6)).encode()
    for case in cases.each('parallel files', 10):
        (tmp_path / 'b').write_bytes(whole)
        case.said, path = harmed(whole, case.rng, tmp_path, 'a')
        with case.run():
            for record in readers.read_parallel(path, str(tmp_path / 'b')):
                check_record(record)


# ------------------------------------------------------------------------------------- buckets


def shot(number: int, label: str) -> dict:
    pair = {'text_a': text(number), 'text_b': text(number + 1)}
    return {'uid': f'german-{4980 + number}-val', 'label': label, 'portion_identifier': -1, **pair}


SHOTS = {label: [shot(i, label)] for i, label in enumerate(labelled.LABELS['xnli'])}
TAGGED = 'Im\tADP\nHaus\tNOUN\n\n#\tSYM\n'
BUCKETS = {
    'xnli/1-shots/german/0-th/sampled.json': json.dumps(SHOTS).encode(),
    'xnli/1-shots/german.jsonl': json_lines(*({'bucket': i, 'data': SHOTS} for i in range(3))),
    'udpos/1-shots/de/0-th/train.tsv': TAGGED.encode(),
    'udpos/1-shots/de.jsonl': json_lines(*({'bucket': i, 'data': TAGGED} for i in range(3))),
}


def test_buckets(tmp_path):
    names = list(BUCKETS)
    for case in cases.each('buckets', 40):
        name = names[case.seed % len(names)]
        folder = tmp_path / os.path.dirname(name)
        folder.mkdir(parents=True, exist_ok=True)
        case.said, path = harmed(BUCKETS[name], case.rng, folder, os.path.basename(name))
        with case.run(name):
            read = buckets.read(path)
            assert len({bucket.index for bucket in read}) == len(read)
            for bucket in read:
                assert 0 <= bucket.index < 1_000_000
                for example in bucket.examples:
                    check_record(example)
            if bucket := next((b for b in read if b.examples), None):
                buckets.encode(bucket)
        shutil.rmtree(tmp_path / name.split('/')[0])


# --------------------------------------------------------------------- predictions and references

IDS = [{'id': f'{i}', 'prediction': text(i), 'target': [text(i), text(9)]} for i in range(4)]
TEXTS = '\n'.join(text(i) for i in range(4)).encode()
SCORED = {
    'out.jsonl': (json_lines(*IDS), {}),
    'out.txt': (TEXTS, {}),
    'n_best.txt': (b'1\tx\n1\ty\n2\tz\n', {'n_best': True, 'format': 'text'}),
    'scores.txt': (b'-1.5\tx\n-2\ty\n', {'scores': True}),
    'out.conll': (b'Im ADP\nHaus NOUN\n\n', {'tags': True}),
}


def test_scored_files(tmp_path):
    gold = tmp_path / 'gold.jsonl'
    gold.write_bytes(json_lines(*IDS))
    for name, path, case in each_harmed('scored files', 25, SCORED, tmp_path):
        with case:
            found = outputs.read_outputs(path, **SCORED[name][1])
            assert found.ids is None or len(set(found.ids)) == len(found.n_best)
            if name == 'out.jsonl':
                references = outputs.read_references([path])
                assert len(set(references.ids)) == len(references.targets)
                found.for_references(outputs.read_references([str(gold)]))


def parse(line: str):
    record = answer_lines._record(line)
    return record, str(answer_lines._value(record, 'prediction'))


INPUTS = {
    'in.jsonl': (json_lines(*IDS), parse),
    'in.text': (TEXTS, lambda line: ({}, line)),
    'in.conll': (b'-DOCSTART- O\n\nIm ADP\nHaus NOUN\n\n', lambda block: ({}, block)),
}


def test_inputs(tmp_path):
    for name, path, case in each_harmed('inputs of predict', 20, INPUTS, tmp_path):
        with case, readers.open_binary(path) as file:
            inputs = answer_lines.Inputs(file, 'in', name[3:], INPUTS[name][1], 4)
            for example in inputs:
                if example is not None:
                    example.encode()
                    json.dumps(inputs.records.popleft(), ensure_ascii=False).encode()
            if inputs.error:
                raise inputs.error


COPY = json_lines(
    *({'text': text(i), 'lm_score': -1.5 * i, 'cluster': 'c', 'display': text(i)} for i in range(3))
)
RESPONSES = {
    'copy.jsonl': (COPY, ResponseSet.of_copy),
    'official.txt': (lines(('-1', 'Ja', 'c1'), ('-2', 'Nein', 'c2')), ResponseSet.of_file),
    'plain.txt': (TEXTS, ResponseSet.of_file),
}


def test_response_sets(tmp_path):
    tokenizer = tokenizers.load('bytes', '/')
    for name, path, case in each_harmed('response sets', 20, RESPONSES, tmp_path):
        with case:
            responses = RESPONSES[name][1](path, tokenizer)
            assert len(set(responses.texts)) == len(responses.texts) == len(responses.ids)
            assert np.isfinite(responses.lm_scores).all()


# -------------------------------------------------------------------------------- preparations

VOCABULARY = {
    'name': 'v', 'sha256': 'ab', 'size': 100, 'pad_id': 0, 'eos_id': 1, 'unk_id': 2,
    'decoder_start_id': 0,
}  # fmt: skip


def test_preparations(tmp_path):
    whole, root = tmp_path / 'whole', tmp_path / 'root'
    manifest = dict(
        task='demo_a', split='train', vocabulary=VOCABULARY, splits=['train'], view='tagging',
        labels=['A', 'B'], features={'inputs': {'pad_id': 0, 'eos_id': 1}}, source_lang='de',
        target_lang='de', data='files', skipped=[], left_out={}, unseen=False, metrics=[],
        inputs=[{'path': 'a.tsv', 'bytes': 3, 'mtime_ns': 5, 'sha256': 'x'}], patterns=['a.tsv'],
        languages=[], answer_mark=[5, 6], headline='', postprocessor=False,
    )  # fmt: skip
    place = prepared.folder(str(whole), 'v', 'demo_a', 'train')
    with prepared.Writer(place, manifest=manifest, shard_examples=4) as writer:
        for i in range(6):
            ids = np.array([5 + i, 9, 1])
            writer.write_batch([{'inputs': ids, 'targets': ids, 'targets_pretokenized': text(i)}])
    prepared.write_mixture(str(whole), 'v', 'demo', 'train', {'demo_a': 1.0})
    for case in cases.each('preparations', 40, (errors.UserError, prepared.NotPrepared)):
        mutate.restore(whole, root)
        # Shards are checked by their library; most of the harm is done to what says of them.
        case.said = mutate.folder(
            root, case.rng, lambda name, rng=case.rng: name[-6:] != 'record' or rng.random() < 0.1
        )
        with case.run():
            tasks, rates = prepared.open_mixture(str(root), 'v', 'demo', 'train')
            assert all(0 < rate < 1e30 for rate in rates)
            for task in tasks:
                for record in task.read(range(len(task))):
                    assert 0 <= record['inputs'].min() <= record['inputs'].max()
                    assert record['inputs'].max() < task.manifest['vocabulary']['size']
            prepared.members(str(root), 'v', 'demo')


# ------------------------------------------------------------------------------------ archives


def tgz(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w:gz') as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def test_archives(tmp_path):
    members = {'top/train/a.tsv': TEXTS, 'top/test/b.tsv': TEXTS, 'other': b'x' * 3000}
    known = Archive('https://corpora.example/all.tgz', r'top/(\w+/[^/]+)', r'mrs/\1', 10_000)
    packers = {'all.tgz': tgz, 'all.tar': lambda m: gzip.decompress(tgz(m)), 'all.zip': zipped}
    for case in cases.each('archives', 20):
        name = list(packers)[case.seed % len(packers)]
        root = tmp_path / 'root'
        case.write(tmp_path / name, packers[name](members))
        with case.run(name):
            for member, content in corpora._members(str(tmp_path / name)):
                try:
                    corpora._place(known, member, content, str(root))
                except OSError as error:
                    if errors.plain(error) is None:
                        raise
                    raise errors.plain(error) from None
        assert {path.name for path in tmp_path.iterdir()} <= {*packers, 'root'}
        shutil.rmtree(root, ignore_errors=True)
