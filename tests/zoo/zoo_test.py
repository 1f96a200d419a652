"""The model zoo's page: runs, seeds, systems, sweeps, and what is added to it."""

import json
import re
import shutil
import subprocess

import pages
import pytest
import tiny_sweep
import workdir_files
from tiny_sweep import group, zero_shot

from xlbench.reporting import origins
from xlbench.reporting.scored import claim, write
from xlbench.system import sessions
from xlbench.system.errors import UserError
from xlbench.zoo import __main__ as zoo

CODE = '/home/anna/code'
HARDWARE = dict(
    processor='A Processor', cores=2, memory_bytes=8 << 30, peak_bytes=3 << 29, devices='data 1'
)


def argv(workdir, *more):
    typed = [f'--config={CODE}/configs/mtg_mt5.py:base', f'--workdir=/home/anna/{workdir}']
    return [f'{CODE}/xlbench/train.py', *typed, *more]


def session(seconds, **fields):
    facts = {'began': '2026-01-05T10:00:00Z', 'wall_seconds': seconds, **HARDWARE}
    return json.dumps(facts | {'processor_seconds': 2 * seconds, **fields}) + '\n'


def write_run(path, rouge, seed=0, seconds=(60,), **info):
    """A workdir that was begun at a path of somebody's machine."""
    facts = {'argv': argv(f'RUNS/{path.name}', f'--config.seed={seed}'), 'cwd': '/home/anna'}
    workdir_files.write_workdir(path, lambda *_: rouge, seed=seed, info={**facts, **info}.items())
    (path / sessions.FILE).write_text(''.join(map(session, seconds)))
    return path


def page(*folders, capsys):
    zoo.main(list(map(str, folders)))
    return capsys.readouterr().out


def cells(text, start):
    line = next(line for line in text.splitlines() if line.startswith(f'| {start} |'))
    return [cell.strip() for cell in line.strip('|').split('|')][1:]


def test_seeds_become_mean_and_spread(tmp_path, capsys):
    runs = [write_run(tmp_path / f'qg{i}', 40.0 + 2 * i, i, (60 + 20 * i,)) for i in range(2)]
    text = page(*runs, capsys=capsys)
    assert cells(text, 'qg (2 seeds)')[-1] == '**41.0 ±1.4**'
    assert cells(text, 'nearest_input')[-1] == '30.0'
    assert cells(text, 'seeds') == ['0, 1']
    assert cells(text, 'wall time') == ['1m10s ±14.1s each of 2 runs, 2m20s in all']
    assert cells(text, 'processor time') == ['2m20s ±28.3s each of 2 runs, 4m40s in all']
    assert cells(text, 'hardware') == ['A Processor, 2 cores, 8 GiB; data 1']
    assert cells(text, 'peak memory') == ['1.5 GiB'] and cells(text, 'dtype') == ['float32']
    assert 'SAMPLE DATA' in text and 'rouge|lang:{de,en,es,fr}|v1' in text
    for seed in range(2):
        typed = f'--workdir=RUNS/qg{seed} --config.seed={seed}'
        assert f'\npython -m xlbench.train --config=configs/mtg_mt5.py:base {typed}\n' in text
    assert 'mtg_qg_de_de/test aaaaaaaaaaaa' in text and 'abc123' in text
    assert cells(text, 'configs/mtg_mt5.py:base')[0] == 'rouge_l qg avg 41.0 ±1.4'
    assert '/home' not in text and str(tmp_path) not in text
    assert text == page(*runs, capsys=capsys)


def test_a_run_that_was_resumed_and_one_of_an_earlier_version(tmp_path, capsys):
    one = write_run(tmp_path / 'one', 30.0, seconds=(100, 40))
    text = page(one, capsys=capsys)
    assert cells(text, 'wall time') == ['2m20s, 1 interruption']
    assert cells(text, 'processor time') == ['4m40s']
    (one / sessions.FILE).unlink()
    text = page(one, capsys=capsys)
    assert cells(text, 'wall time') == ['not recorded'] and '\n| processor time |' not in text
    text = page(one, write_run(tmp_path / 'two', 30.0, seed=1), capsys=capsys)
    assert cells(text, 'wall time') == ['not recorded of one']


@pytest.mark.parametrize(
    'activations, products, expected',
    [
        ('float32', None, 'float32'),
        ('float32', 'bfloat16', 'parameters float32, activations float32, products bfloat16'),
        ('bfloat16', None, 'parameters float32, activations bfloat16, products bfloat16'),
    ],
)
def test_the_types_of_parameters_and_of_products(tmp_path, capsys, activations, products, expected):
    model = {'dtype': activations, 'matmul_dtype': products}
    run = write_run(tmp_path / 'run', 30.0, config={'model': model}, dtype=activations)
    assert cells(page(run, capsys=capsys), 'dtype') == [expected]
    sweep = write_sweep(tmp_path / 'sweep', 1, (50.0, 54.0), model=model, dtype=activations)
    assert cells(page(sweep, capsys=capsys), 'dtype') == [expected]


def test_the_command_of_every_session_once(tmp_path, capsys):
    run = write_run(tmp_path / 'run', 30.0)
    later = session(9, command=argv('RUNS/run', '--config.mesh.data=2'))
    (run / sessions.FILE).write_text(later * 2)
    text = page(run, capsys=capsys)
    assert text.count('python -m xlbench.train') == 1 and '--config.mesh.data=2\n' in text


def write_system(folder, rouge, seed=0):
    folder.mkdir(parents=True)
    who = dict(system='sum + trans', seed=seed)
    claim(folder, **who)
    facts = dict(
        step=0, num_examples=5, scores={'rouge_l': rouge}, signatures={'Rouge': 'rouge|v1'},
        data='files', manifest='b' * 64, headline='rouge_l', decoding={'method': 'chain'},
    )  # fmt: skip
    write(folder, 'mtg_qg_de_de', 'test', facts, [], origin={'file': 'x'}, **who)
    return folder


def test_a_system_that_a_chain_has_made(tmp_path, capsys):
    chains = (write_system(tmp_path / f'chain{seed}', 20.0 + 4 * seed, seed) for seed in range(2))
    text = page(*chains, capsys=capsys)
    assert '\n## sum + trans\n' in text
    assert cells(text, 'sum + trans')[0] == 'rouge_l qg de 22.0 ±2.8'
    assert cells(text, 'seeds') == ['0, 1']


def write_sweep(path, seed, scores, start='source', model=(), dtype='float32'):
    rows = [zero_shot('de', 40.0 + seed), *group('de', 1, scores, seed=seed, start=start)]
    adapt = {'buckets': 2, 'dev': 'validation', 'lengths': {'inputs': 32}, 'seeds': [seed]}
    config = {
        'task': 'udpos', 'adapt': adapt, 'source_workdir': '',
        'source': {'seed': seed, 'data': {'root': '/home/anna/data', 'vocabulary': 'none'},
                   'model': dict(model)},
    }  # fmt: skip
    typed = [f'{CODE}/xlbench/fewshot/__main__.py', '--config=configs/fewshot.py:ud']
    tiny_sweep.write(path, rows, config=config, argv=typed, dtype=dtype, git='abc123')
    (path / sessions.FILE).write_text(session(30))
    return path


def test_a_sweep(tmp_path, capsys):
    one = write_sweep(tmp_path / 'one', 1, (50.0, 54.0, None))  # A bucket is empty.
    text = page(one, capsys=capsys)
    assert '\npython -m xlbench.fewshot --config=configs/fewshot.py:ud\n' in text
    assert cells(text, 'de') == ['41.00', '52.00 ±2.83']
    assert 'over buckets' in text and 'average:micro' in text
    name = 'configs/fewshot.py:ud'
    assert cells(text, name)[0] == 'chunk_f1, de, K=0: 41.0, K=1 (full model): 52.0'
    assert cells(text, 'adaptations') == ['2'] and cells(text, 'seeds') == ['1']
    assert '/home' not in text
    # Another seed is another sweep.
    two = write_sweep(tmp_path / 'two', 2, (56.0, 60.0))
    names = [line for line in page(one, two, capsys=capsys).split('\n') if line[:3] == '## ']
    assert names == [f'## {name} (one)', f'## {name} (two)']


def test_a_sweep_that_begins_without_source_training_alone_has_no_headline(tmp_path, capsys):
    text = page(write_sweep(tmp_path / 'sweep', 1, (30.0, 34.0), start='none'), capsys=capsys)
    assert cells(text, 'configs/fewshot.py:ud')[0] == ''
    assert cells(text, 'adaptations') == ['2']


def test_no_other_file_is_written_over(tmp_path, capsys):
    run, path = write_run(tmp_path / 'run', 30.0), tmp_path / 'docs' / 'zoo.md'
    zoo.main([str(run), f'--output={path}'])
    text = path.read_text()
    zoo.main([str(run), f'--output={path}'])
    capsys.readouterr()
    assert text == page(run, capsys=capsys) == path.read_text()
    (tmp_path / 'mine.md').write_text('# Mine\n')
    with pytest.raises(UserError, match=r'mine\.md exists and is not a page of xlbench\.zoo'):
        zoo.main([str(run), f'--output={tmp_path / "mine.md"}'])
    assert (tmp_path / 'mine.md').read_text() == '# Mine\n'
    with pytest.raises(UserError, match=r'has no config\.json'):
        zoo.main([str(tmp_path)])


@pytest.mark.parametrize(
    'words, cwd, expected',
    [
        ([], '', ''),
        (['/a/xlbench/train.py', '--config=/a/configs/x.py'], '', 'train --config=configs/x.py'),
        (['/xlbench/xlbench/train.py', '--x=/m/n/e5'], '', 'train --x=e5'),
        (['/a/xlbench/zoo/__main__.py', '/a/RUNS/x'], '/a', 'zoo RUNS/x'),
        (['/a/xlbench/translate/__main__.py', 'chain', 'translate:/b/c --beam=5'], '',
         "translate chain 'translate:c --beam=5'"),
        (['/a/xlbench/train.py', '--a=x/y', 'b/c'], '/', 'train --a=x/y b/c'),
    ],
)  # fmt: skip
def test_command_lines_for_readers(words, cwd, expected):
    typed = f'python -m xlbench.{expected}' if expected else ''
    assert origins.command(words, cwd) == typed


def test_no_places_but_addresses_and_shares():
    text = 'see https://example.org/a/b, 3 tokens/s/step, and/or, and (/home/anna/x.txt)'
    assert origins.without_places(text) == text.replace('/home/anna/', '')
    assert origins.config_of(['/a/xlbench/train.py', '--config', 'c/x.py:y']) == 'c/x.py:y'
    assert not re.search('home', origins.without_places("'/home/anna/'"))


# Adding to a page.


def sections(text):
    """{heading: its section}, of a page whose lines within sections are no headings."""
    text = re.sub(r'^<!-- {.*} -->\n\n', '', text, flags=re.MULTILINE)
    return {part.split('\n')[0]: part for part in text.split('\n## ')[1:]}


@pytest.fixture
def add(tmp_path, capsys):
    """Adds workdirs to zoo.md, and removes them as their users may; gives the page."""

    def run(*folders):
        zoo.main([*map(str, folders), '--add', f'--output={tmp_path / "zoo.md"}'])
        capsys.readouterr()
        for folder in folders:
            shutil.rmtree(folder)
        return (tmp_path / 'zoo.md').read_text()

    return run


def test_the_page_of_the_documentation_comes_back_as_it_is():
    path = pages.FILES['zoo.md']
    shown = zoo.of_page(path.read_bytes(), 'zoo.md')
    assert len(shown) == path.read_text('utf-8').count('\n| configs/') > 7
    assert zoo.markdown(shown).encode() == path.read_bytes()
    assert [cells(one.section, 'seeds') for one in shown].count(['0, 1, 2']) >= 2
    assert all(one.score for one in shown)


def test_the_code_of_every_experiment_on_the_page_is_in_the_repository():
    """An experiment whose code is lost cannot be repeated."""
    git = ('git', '-C', str(pages.PROJECT))
    asked = subprocess.run([*git, 'rev-parse', '--is-shallow-repository'], capture_output=True)
    if asked.stdout != b'false\n':
        pytest.skip('no checkout with its history')
    path = pages.FILES['zoo.md']
    for shown in zoo.of_page(path.read_bytes(), 'zoo.md'):
        (code,) = cells(shown.section, 'code')
        check = [*git, 'merge-base', '--is-ancestor', code, 'HEAD']
        assert subprocess.run(check, capture_output=True).returncode == 0, shown.name


def test_experiments_are_added_as_if_all_were_written_at_once(tmp_path, capsys, add):
    def made(place):
        """A run, a system, a sweep, and a run with a command of lines."""
        run = write_run(place / 'run', 30.0)
        system = write_system(place / 'system', 20.0)
        sweep = write_sweep(place / 'sweep', 1, (50.0, 54.0))
        lines = argv('other', '--config.note=a\n## b\n| c |\n')
        other = write_run(place / 'other', 31.0, config={'lora': 'x'}, argv=lines)
        return run, system, sweep, other

    *alone, other = made(tmp_path / 'first')
    for folder in alone:
        text = add(folder)
    text = add(other)
    assert not (tmp_path / 'first' / 'run').exists()
    text = text.replace('base (other)', 'base')
    assert text.count('configs/mtg_mt5.py:base\n') == 2
    at_once = page(*made(tmp_path / 'second'), capsys=capsys)
    for name in ('run', 'other'):
        at_once = at_once.replace(f'base ({name})', 'base')
    assert text == at_once
    assert '\n## b\n' in text


def test_an_experiment_replaces_its_older_self_in_its_place(tmp_path, add):
    before = add(*(write_run(tmp_path / name, 30.0, config={'lora': name}) for name in 'abc'))
    after = add(write_run(tmp_path / 'b', 35.5, seed=3, config={'lora': 'b'}))
    old, new = sections(before), sections(after)
    name = 'configs/mtg_mt5.py:base ({})'.format
    assert [*old] == [*new] == [*map(name, 'abc')]
    for letter in 'ac':
        assert new[name(letter)] == old[name(letter)]
        row = next(line for line in before.split('\n') if line.startswith(f'| {name(letter)} |'))
        assert f'\n{row}\n' in after
    assert cells(after, name('b'))[0] == 'rouge_l qg avg 35.5'
    assert cells(new[name('b')], 'seeds') == ['3']
    # One of the same name that is another experiment follows at the end.
    more = add(write_run(tmp_path / 'd', 30.0, config={'lora': 'd'}))
    assert [*sections(more)] == [*map(name, 'abcd')]
    assert sections(more)[name('a')] == old[name('a')]


def test_systems_and_sweeps_replace_their_older_selves(tmp_path, add):
    add(write_system(tmp_path / 'one', 20.0), write_sweep(tmp_path / 'sweep', 1, (50.0, 54.0)))
    text = add(write_system(tmp_path / 'two', 24.0, seed=1), write_run(tmp_path / 'run', 30.0))
    text = add(write_sweep(tmp_path / 'again', 1, (56.0, 60.0)))
    names = ['sum + trans', 'configs/fewshot.py:ud', 'configs/mtg_mt5.py:base']
    assert [*sections(text)] == names
    assert cells(text, names[0])[0] == 'rouge_l qg de 24.0'
    assert cells(text, names[1])[0].endswith('58.0')


def test_the_hardware_is_a_column_where_it_differs(tmp_path, add):
    one = add(write_run(tmp_path / 'one', 30.0, config={'lora': 1}))
    said = '\n\nHardware: A Processor, 2 cores, 8 GiB; data 1.\n\n| experiment |'
    assert said in one
    other = write_run(tmp_path / 'two', 30.0, config={'lora': 2})
    (other / sessions.FILE).write_text(session(60, processor='B_'))
    two = add(other)
    assert 'Hardware' not in two and '| wall time | hardware |\n' in two
    rows = [line for line in two.split('\n') if line.startswith('| configs/')]
    assert [row.split(' | ')[-1] for row in rows] == [
        'A Processor, 2 cores, 8 GiB; data 1 |',
        r'B\_, 2 cores, 8 GiB; data 1 |',
    ]
    assert said in add(write_run(tmp_path / 'two', 30.0, config={'lora': 2}))


def test_pages_that_cannot_be_added_to(tmp_path, capsys):
    run, path = write_run(tmp_path / 'run', 30.0), tmp_path / 'zoo.md'
    with pytest.raises(UserError, match='--add needs --output=FILE'):
        zoo.main([str(run), '--add'])
    zoo.main([str(run), '--add', f'--output={path}'])
    text = path.read_text()
    assert text == page(run, capsys=capsys).removeprefix(f'wrote {path}\n')
    row = next(line for line in text.split('\n') if line.startswith('| configs/'))
    for changed in (
        '# Mine\n', text[:400], text.replace(f'{row}\n', ''),
        text.replace(row, row.replace('base', 'large')),
        text.replace(row, row.replace(' | ', '|')),
        text.replace('\n## configs', '\n# configs'), text.replace('Model zoo', 'Model zo\udcff'),
    ):  # fmt: skip
        assert changed != text
        message = 'does not match its sections' if 'Model' in changed else 'is not a page of'
        path.write_bytes(changed.encode(errors='surrogateescape'))
        with pytest.raises(UserError, match=message) as raised:
            zoo.main([str(run), '--add', f'--output={path}'])
        assert '\n' not in str(raised.value)
        assert path.read_bytes() == changed.encode(errors='surrogateescape')
