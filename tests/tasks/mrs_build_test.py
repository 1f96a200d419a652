import bz2
import gzip
import itertools
import json
import lzma
import os
import pathlib
import random
import subprocess
import sys

import far_engine
import pytest
import reddit_files
from backports import zstd
from nightly import nightly
from put_files import tree
from reddit_files import IN_2017, comment

from xlbench.data import readers
from xlbench.prepare import shards, stages
from xlbench.system import errors, locks
from xlbench.tasks.mrs_build import command, dumps, pairs as pairs_lib, plugins, publish

TRAIN = ['th00', 'th01', 'th03', 'th04', 'th05', 'th06']
VALID, TEST = 'th02', 'th16'
FLAGS = [
    '--language_model=reddit_files:identify', '--languages=en,de', '--min_count=2',
    '--partitions=2', '--max_bad=0.5', '--workers=1',
]  # fmt: skip


def write_dumps(folder):
    """Every defect that the paper names, and those of real dumps, in three files."""
    folder.mkdir()
    first = [
        comment('a1', TRAIN[0], body='How are you?'),
        comment('a2', TRAIN[0], 'a1', body=' Fine,\tthanks\r\n\nTom &amp; Ann &gt;_&lt; \u2028'),
        comment('a3', TRAIN[0], 'a2', body='[deleted]'),
        comment('a4', TRAIN[0], 'a3', body='answers what was deleted'),
        comment('a5', TRAIN[0], 'a1', body='[removed] by a moderator'),
        comment('a6', TRAIN[0], 'a1', body='disliked', score=0),
        comment('a7', TRAIN[0], 'a6', body='answers what is disliked'),
        comment('a8', TRAIN[0], 'a1', body='hated', score=-3),
        comment('a9', TRAIN[0], 'a1', body=' \n '),
        comment('b1', TRAIN[1], body='Guten Tag ja'),
        comment('b2', TRAIN[1], 'b1', body='Danke!'),
        comment('b3', TRAIN[1], 'b1', body='xx-unsure ja'),
        comment('b4', TRAIN[1], 'b1', body='xx-klingon'),
        comment('b5', TRAIN[1], 'zz', body='Danke an niemanden'),
        comment('b6', TRAIN[2], 'b1', body='answers a comment of another thread'),
        comment('b7', TRAIN[1], 'b7', body='answers itself'),
        # Its parent is in a later file, and so is its child.
        comment('c2', VALID, 'c1', body='yes', created_utc='1514764801'),
        # A copy of it was voted down.
        comment('d1', TRAIN[3], body='I liked this once'),
        comment('d2', TRAIN[3], 'd1', body='me too'),
        # The same pair three times; that in the test split is the earliest.
        comment('e1', TRAIN[4], body='Same'),
        comment('e2', TRAIN[4], 'e1', body='Same here', created_utc=reddit_files.IN_2018 + 5),
        comment('e3', TRAIN[5], body='Same'),
        comment('e4', TRAIN[5], 'e3', body='Same here', created_utc=reddit_files.IN_2018 + 6),
    ]
    second = [
        comment('c1', VALID, body='Is it true?'),
        comment('c3', VALID, 'c2', body='No!', created_utc=1_546_300_799),
        comment('c4', VALID, 'c1', body='too old', created_utc=IN_2017),
        comment('c5', VALID, 'c1', body='too young', created_utc=1_546_300_800),
        comment('b8', TRAIN[1], 'b1', body='Danke sehr', created_utc=IN_2017),
        comment('d1', TRAIN[3], body='I liked this once', score=0),
        comment('a2', TRAIN[0], 'a1', body=' Fine,\tthanks\r\n\nTom &amp; Ann &gt;_&lt; \u2028'),
        comment('e5', TEST, body='Same'),
        comment('e6', TEST, 'e5', body='Same here', created_utc=reddit_files.IN_2018 + 4),
        comment('f1', TEST, 'e5', body='toxic51 it is'),
        comment('f2', TEST, 'e5', body='toxic90 it is'),
        comment('f3', TRAIN[0], 'a1', body='toxic51 it is'),
        comment('f4', TRAIN[0], 'a1', body='toxic91 it is'),
        comment('f5', TRAIN[0], 'a1', body='toxic90 it is'),
    ]
    replies = ['Yes!', 'yes', 'YES', 'Ok', ':)', ':(', 'toxic51']
    for number, (reply, count) in enumerate(zip(replies, (4, 3, 2, 2, 2, 2, 2), strict=True)):
        for copy in range(count):
            name = f'g{number}x{copy}'
            second.append(comment(name, TRAIN[4], body=f'Question {name}'))
            second.append(comment(f'{name}r', TRAIN[4], name, body=reply))
    bad = [
        b'{"id": "h1", "body": ', b'["h2"]', b'\xff\xfe',
        comment('h3', TRAIN[0], 'a1', body='half: HALF').replace('HALF', '\\ud83d').encode(),
        comment('h4', TRAIN[0], 'a1', score=None).encode(),
        comment('h5', TRAIN[0], 'a1', score=True).encode(),
        comment('h6', TRAIN[0], 'a1', body=7).encode(),
        comment('../../h7', TRAIN[0], 'a1').encode(), comment('h8', 'a\tb', 'a1').encode(),
        comment('h9', TRAIN[0], 'a1', created_utc=10**12).encode(),
        json.dumps({'id': 'i1', 'link_id': 't3_a', 'parent_id': 't3_a', 'score': 1}).encode(),
        comment('i2', TRAIN[0], 'a1', body='long' * 2**18).encode(),
    ]  # fmt: skip
    lines = '\n'.join(second).encode().split(b'\n')
    mixed = list(itertools.chain(*itertools.zip_longest(lines, bad, fillvalue=b'')))
    reddit_files.write_zst(folder / 'RC_2018-01.zst', '\n'.join(first).encode())
    (folder / 'RC_2018-02.bz2').write_bytes(bz2.compress(b'\r\n'.join(mixed)))
    # A download that broke off: whole lines, then half of one.
    tail = [comment('k1', TEST, 'e5', body='Near the end')] + [
        comment(f'k{n}', TEST, body=random.Random(n).randbytes(200).hex()) for n in range(20, 40)
    ]
    reddit_files.write_gz(folder / 'RC_2018-03.gz', '\n'.join(tail).encode())
    whole = (folder / 'RC_2018-03.gz').read_bytes()
    (folder / 'RC_2018-03.gz').write_bytes(whole[:-900])
    return sorted(map(str, folder.iterdir()))


EN_TRAIN = {
    'How are you?\tFine, thanks Tom & Ann >_<\tt1_a2\t2018-01-01',
    'How are you?\ttoxic51 it is\tt1_f3\t2018-01-01',
    'How are you?\ttoxic90 it is\tt1_f5\t2018-01-01',
    *(
        f'Question g{n}x{i}\t{reply}\tt1_g{n}x{i}r\t2018-01-01'
        for n, (reply, count) in enumerate(
            [('Yes!', 4), ('yes', 3), ('YES', 2), ('Ok', 2), (':)', 2), (':(', 2), ('toxic51', 2)]
        )
        for i in range(count)
    ),
}
TOXIC_91 = 'How are you?\ttoxic91 it is\tt1_f4\t2018-01-01'
TOXIC_TEST = {f'Same\ttoxic{n} it is\tt1_f{i}\t2018-01-01' for i, n in ((1, 51), (2, 90))}
PAIRS = {
    'train/en': EN_TRAIN | {TOXIC_91},
    'valid/en': {'Is it true?\tyes\tt1_c2\t2018-01-01', 'yes\tNo!\tt1_c3\t2018-12-31'},
    'test/en': {
        'Same\tSame here\tt1_e6\t2018-01-01', 'Same\tNear the end\tt1_k1\t2018-01-01',
        *TOXIC_TEST,
    },
    'train/de': {
        'Guten Tag ja\tDanke!\tt1_b2\t2018-01-01',
        'Guten Tag ja\tDanke sehr\tt1_b8\t2017-07-14',
    },
    'valid/de': set(), 'test/de': set(),
}  # fmt: skip


def code_of(paths, output, *flags):
    return errors.run_main(command.main, ['', *paths, f'--output={output}', *FLAGS, *flags])


def run(paths, output, *flags):
    assert code_of(paths, output, *flags) == 0
    return output / 'mrs'


def pairs_of(mrs):
    return {name: (mrs / name / 'pairs.tsv').read_text('utf-8').split('\n')[:-1] for name in PAIRS}


@pytest.fixture(scope='module')
def paths(tmp_path_factory):
    return write_dumps(tmp_path_factory.mktemp('reddit') / 'dumps')


@pytest.fixture(scope='module')
def built(paths, tmp_path_factory):
    return run(paths, tmp_path_factory.mktemp('built'))


# 'Ok' has no translation.
MT = [
    '--engine=command:sed -e s/Question/Frage/;s/Yes/Ja/;s/^Ok$//', '--mt_pairs=10',
    '--mt_valid_pairs=5',
]  # fmt: skip


@pytest.fixture(scope='module')
def translated(paths, tmp_path_factory):
    return run(paths, tmp_path_factory.mktemp('translated'), *MT)


@pytest.fixture
def plugins_for_children(monkeypatch, tmp_path):
    folder = pathlib.Path(__file__).parents[1] / 'support'
    monkeypatch.setenv('PYTHONPATH', f'{folder.parent}{os.pathsep}{folder}')
    monkeypatch.setenv('REDDIT_KILLED', str(tmp_path / 'killed'))


def test_the_files_are_exactly_those_expected(built):
    assert set(tree(built)) == {
        *(f'{name}/pairs.tsv' for name in PAIRS),
        *(f'gmr_valid/{lang}/pairs.tsv' for lang in ('en', 'de')),
        *(f'rsp_set/{lang}/response_lm_cluster.txt' for lang in ('en', 'de')),
        *(f'rsp_map/{lang}/response.mapping.txt' for lang in ('en', 'de')),
        'stats.json',
    }
    found = pairs_of(built)
    assert {name: set(lines) for name, lines in found.items()} == PAIRS
    assert all(len(set(lines)) == len(lines) for lines in found.values())
    rows = (built / 'rsp_set/en/response_lm_cluster.txt').read_text().split('\n')[:-1]
    # 21 training pairs, 7 responses.
    assert rows == [
        '-1.722767\tYes!\t0', '-1.945910\tyes\t0', '-2.233592\t:(\t1', '-2.233592\t:)\t2',
        '-2.233592\tOk\t3', '-2.233592\tYES\t0', '-2.233592\ttoxic51\t4',
    ]  # fmt: skip
    assert (built / 'rsp_set/de/response_lm_cluster.txt').read_text() == ''
    shown = (built / 'rsp_map/en/response.mapping.txt').read_text()
    texts = [row.split('\t')[1] for row in rows]
    assert shown == ''.join(f'{text}\t{text}\n' for text in texts)


def test_statistics_tell_what_was_dropped_and_why(paths, built):
    stats = json.loads((built / 'stats.json').read_text('utf-8'))
    first, second, third = stats['dumps']
    with zstd.open(paths[0]) as file, pytest.raises(zstd.ZstdError, match='too much memory'):
        file.read()  # The default does not read what was written with --long=31.
    assert first == {'name': 'RC_2018-01.zst', 'lines': 23, 'malformed': {}, 'damage': ''}
    once = (
        'body of a wrong type', 'created_utc of a wrong form', 'half a surrogate pair',
        'longer than 1,048,576 bytes', 'no body', 'not JSON', 'not UTF-8', 'not a JSON object',
    )  # fmt: skip
    twice = 'id, parent_id or link_id of a wrong form', 'score of a wrong type'
    assert second['malformed'] == dict.fromkeys(once, 1) | dict.fromkeys(twice, 2)
    assert third['malformed'] == {} and 'ended before' in third['damage']
    dropped = {'deleted': 1, 'empty': 1, 'removed': 1, 'score below 1': 3}
    assert stats['comments']['dropped'] == dropped
    assert stats['replies'] == {
        'read': 41,
        'copies of comments': 2,
        'dropped': {
            'English of another year': 2,
            'another language': 1,
            'language not sure': 1,
            'no parent in the dumps': 3,
            'parent: deleted': 1,
            'parent: score below 1': 2,
        },
    }
    en = stats['languages']['en']
    assert (en['train'], en['valid'], en['test'], en['responses']) == (21, 2, 4, 7)
    assert en['dropped'] == {'duplicate': 2}
    assert '21  ' in publish.table(stats) and '12 lines' not in publish.table(stats)


def test_the_readers_of_the_layout_accept_it(built):
    for name, lines in PAIRS.items():
        found = list(readers.read_pairs(str(built / name / 'pairs.tsv')))
        assert {(r['message'], r['reply']) for r in found} == {
            tuple(line.split('\t')[:2]) for line in lines
        }
    responses_path = built / 'rsp_set/en/response_lm_cluster.txt'
    mapping_path = built / 'rsp_map/en/response.mapping.txt'
    found = list(readers.read_responses(str(responses_path), str(mapping_path)))
    assert [r['display'] for r in found] == ['Yes!', 'yes', ':(', ':)', 'Ok', 'YES', 'toxic51']


def test_other_workers_and_order_give_the_same_bytes(paths, built, tmp_path, plugins_for_children):
    again = run(paths[::-1], tmp_path, '--workers=3')
    assert tree(again) == tree(built)
    # The layout is read back; a finished build is left alone.
    before = os.stat(again / 'stats.json').st_mtime_ns
    run(paths, tmp_path)
    assert os.stat(again / 'stats.json').st_mtime_ns == before


def test_less_memory_than_a_partition_needs_gives_the_same_bytes(paths, built, tmp_path):
    assert tree(run(paths, tmp_path, '--memory=1e-6')) == tree(built)


@pytest.mark.parametrize('engine', ['far', 'beam'])
def test_another_engine_gives_the_same_bytes(
    engine, paths, translated, tmp_path, plugins_for_children, monkeypatch
):
    """Jobs and results are sent; Beam has two processes, and goes on after a kill."""
    flags = [flag for flag in FLAGS if not flag.startswith('--workers')]
    argv = ['', *paths, f'--output={tmp_path}', *flags, *MT]
    if engine == 'beam':
        pytest.importorskip('apache_beam')
        argv += ['--beam', '--', '--direct_running_mode=multi_processing', '--direct_num_workers=2']
        make = stages.make

        def interrupted(engine, stage, *arguments):
            if stage == 'split':
                raise KeyboardInterrupt
            return make(engine, stage, *arguments)

        monkeypatch.setattr(stages, 'make', interrupted)
        with pytest.raises(KeyboardInterrupt):
            command.main(argv)
        monkeypatch.setattr(stages, 'make', make)
    else:
        monkeypatch.setattr(stages, 'of_flags', lambda *arguments: far_engine.FarEngine())
    assert errors.run_main(command.main, argv) == 0
    assert tree(tmp_path / 'mrs') == tree(translated)


def test_killed_at_every_file_it_goes_on(paths, translated, tmp_path, plugins_for_children):
    """Each process makes one file appear and is killed before the next one does."""
    code = 'import sys, reddit_files; reddit_files.killed_until_done(sys.argv[1:])'
    argv = [sys.executable, '-c', code, str(tmp_path), *paths, f'--output={tmp_path}', *FLAGS]
    states = json.loads(subprocess.run([*argv, *MT], check=True, capture_output=True).stdout)
    # Settings, 3 blocks, 3 ends of files, 2 x 2 partitions, 5 translations; then the final files.
    assert len(states) == 16
    for before, after in itertools.pairwise(states):
        # What was finished is not done again.
        assert before.items() < after.items() and len(after) == len(before) + 1
        assert not any('mrs/' in path for path in after)
    assert tree(tmp_path / 'mrs') == tree(translated)


def test_english_pairs_and_responses_are_translated(paths, built, translated):
    """A sample of the training pairs, all validation pairs, and the response set."""
    more, fewer = tree(translated), tree(built)
    assert more.keys() - fewer.keys() == {f'mt_{part}/de/pairs.tsv' for part in ('train', 'valid')}
    changed = {name for name in fewer if fewer[name] != more[name]}
    assert changed == {
        'rsp_set/de/response_lm_cluster.txt', 'rsp_map/de/response.mapping.txt', 'stats.json',
    }  # fmt: skip
    pairs = (translated / 'mt_train/de/pairs.tsv').read_text().split('\n')[:-1]
    english = {line.split('\t')[2]: line.split('\t') for line in EN_TRAIN | {TOXIC_91}}
    assert len(pairs) == 8  # Of 10, two of which have an empty reply.
    for line in pairs:
        message, reply, name, day = line.split('\t')
        assert message == english[name][0].replace('Question', 'Frage')
        assert (reply, day) == (english[name][1].replace('Yes', 'Ja'), english[name][3])
    assert set((translated / 'mt_valid/de/pairs.tsv').read_text().split('\n')[:-1]) == {
        'Is it true?\tyes\tt1_c2\t2018-01-01', 'yes\tNo!\tt1_c3\t2018-12-31',
    }  # fmt: skip
    # 'Ok' has no translation; nothing of the set occurs in German, so that all are alike.
    rows = (translated / 'rsp_set/de/response_lm_cluster.txt').read_text().split('\n')[:-1]
    assert [row.split('\t')[1] for row in rows] == ['Ja!', 'yes', ':(', ':)', 'YES', 'toxic51']
    # Pairs whose reply is in the set, whatever its case and punctuation.
    assert (built / 'gmr_valid/en/pairs.tsv').read_text() == 'Is it true?\tyes\tt1_c2\t2018-01-01\n'
    stats = json.loads((translated / 'stats.json').read_text())
    de = stats['languages']['de']
    assert (de['mt_train'], de['mt_valid'], de['untranslated pairs']) == (8, 2, 2)
    assert (de['untranslated responses'], de['translated responses']) == (1, 6)
    assert stats['languages']['en']['gmr_valid'] == 1
    assert 'mt_train' in publish.table(stats).split('\n')[0]
    assert stats['settings']['translated_de']['mt_pairs'] == 10


def test_what_cannot_be_translated_is_said_before_the_work(paths, tmp_path, capsys):
    for flags, message in [
        (['--mt_languages=de'], '--mt_languages is for an --engine'),
        ([*MT, '--mt_languages=fr'], "unknown language in --mt_languages 'fr'"),
        ([*MT, '--languages=de'], 'add en to --languages'),
        ([*MT, '--num_beams=4'], 'decoding flags are for models'),
        (['--engine=command:there-is-none'], 'there-is-none'),
    ]:
        assert code_of(paths, tmp_path, *flags) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / 'mrs_build' / 'scan').exists()


def test_the_largest_languages_and_splits_by_pair(paths, built, tmp_path, capsys):
    flags = ['--languages=largest', '--num_languages=2', '--min_pairs=1', '--split_by=pair']
    mrs = run(paths, tmp_path, *flags)
    stats = json.loads((mrs / 'stats.json').read_text())
    assert list(stats['languages']) == ['en', 'de']  # One pair is Klingon.
    assert stats['settings']['split'].items() >= {'num_languages': 2, 'split_by': 'pair'}.items()
    everywhere = {
        folder: sorted(
            line
            for part in pairs_lib.SPLITS
            for line in (folder / part / 'en' / 'pairs.tsv').read_text('utf-8').split('\n')[:-1]
        )
        for folder in (mrs, built)
    }
    assert everywhere[mrs] == everywhere[built]
    # A thread is in several splits now.
    assert tree(mrs)['train/en/pairs.tsv'] != tree(built)['train/en/pairs.tsv']
    run(paths, tmp_path, *flags)  # It is done, and left alone.
    assert code_of(paths, tmp_path / 'few', '--languages=largest') == 2
    said = capsys.readouterr().err
    assert 'no language has --min_pairs=100,000 pairs; there are 29 in en' in said


def test_killed_workers_and_a_killed_parent(paths, built, tmp_path, plugins_for_children, capsys):
    flags = ['--workers=2', '--language_model=reddit_files:identify_and_die']
    assert code_of(paths, tmp_path, *flags) == 2
    assert 'a worker process died' in capsys.readouterr().err
    run(paths, tmp_path, *flags)
    assert tree(tmp_path / 'mrs')['train/en/pairs.tsv'] == tree(built)['train/en/pairs.tsv']

    os.remove(os.environ['REDDIT_KILLED'])
    argv = [sys.executable, '-m', 'xlbench.data', 'mrs_build', *paths, *FLAGS]
    argv += [f'--output={tmp_path / "two"}']
    argv += ['--workers=2', '--toxicity=reddit_files:toxicity_and_orphan', '--max_toxicity=1']
    assert subprocess.run(argv, capture_output=True).returncode == -9
    assert subprocess.run(argv, capture_output=True).returncode == 0
    assert tree(tmp_path / 'two/mrs')['test/en/pairs.tsv'] == tree(built)['test/en/pairs.tsv']


def test_toxicity_by_functions(paths, tmp_path):
    strict = '--strict_toxicity=reddit_files:strict_toxicity'
    mrs = run(paths, tmp_path, '--toxicity=reddit_files:toxicity', strict)
    found = pairs_of(mrs)
    assert set(found['train/en']) == EN_TRAIN
    assert set(found['test/en']) == PAIRS['test/en'] - {'Same\ttoxic51 it is\tt1_f1\t2018-01-01'}
    assert set(found['train/de']) == PAIRS['train/de']
    assert 'toxic51' not in (mrs / 'rsp_set/en/response_lm_cluster.txt').read_text()
    stats = json.loads((mrs / 'stats.json').read_text())
    assert stats['languages']['en']['dropped'] == {'duplicate': 2, 'toxic': 2}
    assert stats['languages']['en']['toxic responses'] == 1


def test_redo_takes_what_the_first_run_left(paths, built, tmp_path, capsys):
    run(paths, tmp_path)
    flags = ['--toxicity=reddit_files:toxicity', '--max_responses=3', '--response_pairs=all']
    assert code_of(paths, tmp_path, *flags) == 2
    assert 'exists already and was not built by this command' in capsys.readouterr().err
    os.rename(tmp_path / 'mrs', tmp_path / 'old')
    assert code_of(paths, tmp_path, *flags) == 2
    line = capsys.readouterr().err
    assert '--toxicity was "" and is "reddit_files:toxicity"' in line
    assert '--max_responses was 50000' in line
    assert len(line.splitlines()) == 1
    kept = {p: p.stat().st_mtime_ns for p in (tmp_path / 'mrs_build/pair').iterdir()}
    mrs = run(paths, tmp_path, *flags, '--redo')
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())
    assert set(pairs_of(mrs)['train/en']) == EN_TRAIN

    # In all pairs, 'yes' occurs as often as 'Yes!'.
    responses = (mrs / 'rsp_set/en/response_lm_cluster.txt').read_text().splitlines()
    assert [line.split('\t')[1:] for line in responses] == [
        ['Yes!', '0'], ['yes', '0'], [':(', '1'],
    ]  # fmt: skip


def test_what_stops_a_build(paths, tmp_path, capsys):
    def error(*argv):
        assert errors.run_main(command.main, ['', *argv, f'--output={tmp_path / "out"}']) == 2
        return capsys.readouterr().err.splitlines()[-1]

    submissions = tmp_path / 'RS_2018-01'
    submissions.write_text('{"id": "a", "title": "b"}\n' * 3 + comment('a', 'b') + '\n')
    line = error(str(submissions), *FLAGS)
    assert '3 of 4 lines are not comments (3 no parent_id), more than 50.00%' in line
    cut = tmp_path / 'RC.zst'
    noise = b''.join(random.Random(0).randbytes(1500) for _ in range(200))
    reddit_files.write_zst(cut, noise, window_log=20)
    data = bytearray(cut.read_bytes())
    data[150_000:150_004] = b'\0' * 4
    cut.write_bytes(b'not zstd' + data)
    assert 'bytes cannot be read' in error(str(cut), *FLAGS, '--redo')
    assert 'given twice' in error(paths[0], paths[0])
    assert 'no file' in error('nowhere.zst')
    assert 'cannot be imported' in error(paths[0], '--toxicity=nowhere:function', '--redo')
    assert 'is not a model of fastText' in error(paths[0], f'--language_model={paths[0]}', '--redo')
    assert "'20x' is not a whole number of 2 or more" in error(paths[0], '--min_count=20x')
    assert 'not a number from 0 to 1' in error(paths[0], '--max_toxicity=1.5')
    assert 'list of codes' in error(paths[0], '--languages=../..')


def test_two_builds_do_not_share_a_folder(paths, tmp_path, capsys):
    with locks.folder(tmp_path / 'mrs_build'):
        assert code_of(paths, tmp_path) == 2
    said = f'{tmp_path / "mrs_build"} is in use by process {os.getpid()} on'
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_bundled_model_names_the_ten_languages():
    identify = plugins.identifier(plugins.bundled_model())
    texts = {
        'en': 'What did you have for breakfast today? Just some toast and a cup of coffee',
        'es': '¿Qué desayunaste hoy? Solo un poco de pan tostado y una taza de café',
        'de': 'Was hast du heute gefrühstückt? Nur ein bisschen Toast und eine Tasse Kaffee',
        'pt': 'O que você comeu hoje no café da manhã? Só um pouco de pão e uma xícara de café',
        'fr': "Qu'est-ce que tu as mangé ce matin ? Juste du pain grillé et une tasse de café",
        'ja': '今朝は何を食べましたか。トーストとコーヒーだけです。',
        'it': 'Che cosa hai mangiato oggi a colazione? Solo un po’ di pane e una tazza di caffè',
        'sv': 'Vad åt du till frukost idag? Bara lite rostat bröd och en kopp kaffe',
        'nl': 'Wat heb je vandaag als ontbijt gegeten? Alleen wat geroosterd brood en koffie',
        'ru': 'Что ты ел сегодня на завтрак? Только немного хлеба и чашку кофе',
    }
    found = identify([*texts.values(), ''])
    assert [lang for lang, _ in found[:-1]] == list(texts)
    assert all(0.7 < confidence <= 1 for _, confidence in found[:-1])
    assert found == identify([*texts.values(), ''])
    assert found[-1][1] <= 1


def test_a_plugin_is_held_to_its_word(monkeypatch):
    for answer, message in (
        ([], 'gave 0 answers to 1 texts'),
        ([('en', 2)], 'gave 2, not a number from 0 to 1'),
        (['english'], 'not (language, confidence)'),
    ):
        monkeypatch.setattr(reddit_files, 'answer', lambda texts, a=answer: a, raising=False)
        plugins.identifier.cache_clear()
        with pytest.raises(errors.UserError, match=message.replace('(', r'\(').replace(')', r'\)')):
            plugins.identifier('reddit_files:answer')(['text'])


def test_blocks_are_whole_lines_whatever_the_reads(tmp_path):
    path = tmp_path / 'dump'
    lines = [bytes([97 + n % 26]) * (n % 13) for n in range(200)]
    path.write_bytes(b'\n'.join(lines))
    for size in (16, 50, 1000, 10**6):
        blocks = list(dumps.Reader(str(path), size))
        assert b''.join(blocks).split(b'\n') == lines
        assert all(block.endswith(b'\n') and len(block) <= size for block in blocks[:-1])
    # The rest of a line that is longer than a block is never held.
    path.write_bytes(b'a\n' + b'b' * 5_000_000 + b'\nc\n')
    blocks = list(dumps.Reader(str(path), 2**20))
    assert blocks[0] == b'a\n' and len(blocks[1]) == 2**20 and blocks[2:] == [b'c\n']


@pytest.mark.parametrize('name, pack', [
    ('a.zst', zstd.compress), ('a.gz', gzip.compress),
    *nightly(('a.xz', lzma.compress), ('a.bz2', bz2.compress)),
])  # fmt: skip
def test_a_dump_that_expands_too_far_is_no_dump(tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(bytes(16 << 20)))
    message = rf'{name} expands too far, .*at most 100 times.*XLBENCH_MAX_EXPANSION'
    with pytest.raises(errors.UserError, match=message):
        for _ in dumps.Reader(str(tmp_path / name)):
            pass
    # What is true text, in lines that repeat each other more than comments do, is read.
    lines = [
        f'{{"id": "{i}", "body": "the same words again and again, {i * 7919 % 99_991}"}}'
        for i in range(99_999)
    ]
    (tmp_path / name).write_bytes(pack('\n'.join(lines).encode()))
    assert sum(block.count(b'\n') for block in dumps.Reader(str(tmp_path / name))) == 99_998


@pytest.mark.parametrize('name, module', [('a.xz', lzma), ('a.gz', gzip), ('a.bz2', bz2)])
def test_damaged_files_are_read_as_far_as_they_go(tmp_path, name, module):
    data = b''.join(b'%d\n' % n for n in range(30_000))
    whole = module.compress(data)
    (tmp_path / name).write_bytes(whole)
    reader = dumps.Reader(str(tmp_path / name), 10_000)
    assert b''.join(reader) == data and not reader.damage
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    reader = dumps.Reader(str(tmp_path / name), 10_000)
    found = b''.join(reader)
    assert reader.damage and data.startswith(found) and (name == 'a.bz2' or found.endswith(b'\n'))


def test_shards_hold_lines_by_key(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, '_FLUSH', 10)  # Several frames for a key.
    path = str(tmp_path / 'shard')
    writer = shards.Writer(path, 4)
    for number in range(50):
        writer.add(number % 3, f'line {number} ü')
    writer.close({'lines': 50})
    for key in range(3):
        assert list(shards.lines(path, key)) == [f'line {n} ü' for n in range(key, 50, 3)]
    assert list(shards.lines(path, 3)) == [] and shards.counts(path) == {'lines': 50}
    assert os.listdir(tmp_path) == ['shard']


def test_splits_are_shares_of_threads():
    names = [pairs_lib.split_of(f'{n:x}') for n in range(20_000)]
    shares = [names.count(split) / len(names) for split in pairs_lib.SPLITS]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.01)


def test_tokens():
    counts = {'Ça va, 2018?': 5, 'dont @ me': 3, "don't": 3, '今日は hello!': 5, 'a_b': 3, '': 0}
    for text, count in counts.items():
        assert pairs_lib.num_tokens(text) == count, text
        assert pairs_lib.num_tokens(f'{text} é') == count + 1, text


def test_clusters():
    alike = ('Thank you!!', 'thank  YOU'), ('Don’t', "don't"), ('ＯＫ', 'ok.')
    apart = (':)', ':('), ('👍', '👎'), ('कि', 'का'), ('no', 'no 2')
    same = [pair for pair in alike + apart if len({*map(publish.cluster_key, pair)}) == 1]
    assert same == [*alike]
