"""The record of `make speed`: merging, the table, what changed, and the page that shows it."""

import json
import pathlib
import subprocess
import sys

import pages
import pytest

SPEED = pathlib.Path(__file__).parents[2] / 'tools' / 'speed'
sys.path.insert(0, str(SPEED))  # As a script of that folder finds them.
import catalog
import interleaved
import machine
import record

TORCH = {'torch': 'PyTorch'}


def a_run(name, rows=(), left_out='', date='2026-11-23 04:50', load=0.01):
    return {
        'name': name, 'command': f'tools/speed/{name}.py', 'date': date, 'load': load,
        'seconds': 1.0, 'versions': {'jax': '0.10.2'}, 'rows': list(rows), 'left_out': left_out,
    }  # fmt: skip


def a_record(*given, cores=2, cpu='Some CPU'):
    facts = {'cpu': cpu, 'cores': cores, 'memory_gb': 24, 'os': 'Linux'}
    return {'machine': facts, 'runs': list(given)}


def comparison(theirs, ours=(1.0, 1.0, 1.0), work='a step', note=''):
    seconds = {'torch': list(theirs), 'xlbench': list(ours)}
    return interleaved.rows(work, seconds, TORCH, note)[0]


def test_rows_hold_the_ratios_that_are_printed(capsys, tmp_path):
    seconds = {'torch': [4.0, 3.0, 8.0], 'xlbench': [2.0, 2.0, 2.5], 'other': [1.0, 1.0, 1.0]}
    made = interleaved.rows('a step', seconds, TORCH, note='bound by memory')
    assert made == [
        {
            'work': 'a step', 'against': 'PyTorch', 'medians': 2.0, 'fastest': 1.5, 'paired': 2.0,
            'rounds': 3, 'note': 'bound by memory',
            'seconds': {'torch': [4.0, 3.0, 8.0], 'xlbench': [2.0, 2.0, 2.5]},
        }
    ]  # fmt: skip
    interleaved.print_ratios(seconds)
    assert capsys.readouterr().out.splitlines()[0] == (
        'xlbench against torch: 2.00 (medians), 1.50 (fastest), 2.00 (paired)'
    )
    interleaved.write(str(tmp_path / 'rows.json'), made)
    assert json.loads((tmp_path / 'rows.json').read_text()) == made
    interleaved.write('', made)


def test_new_figures_replace_older_ones_and_missing_peers_replace_none():
    old = a_record(
        a_run('a', [comparison([2, 2, 2])], date='2026-11-01 00:00'),
        a_run('b', [comparison([3, 3, 3])], date='2026-11-01 00:00'),
        a_run('c', left_out='torch missing'),
        a_run('renamed', [comparison([1, 1, 1])]),
    )
    new = a_record(
        a_run('d', left_out='torch missing'),
        a_run('b', left_out='it ended with status 1'),
        a_run('a', [comparison([4, 4, 4])]),
    )
    merged = record.merge(old, new, order=['d', 'c', 'b', 'a'])
    assert [run['name'] for run in merged['runs']] == ['d', 'c', 'b', 'a']
    assert merged['runs'][2] == old['runs'][1] and merged['runs'][3] == new['runs'][2]
    with pytest.raises(SystemExit, match=r'another machine \(Some CPU, 2 cores.*--output'):
        record.merge(old, a_record(cores=4), order=['a'])


def test_the_table_has_every_figure_and_says_what_is_missing():
    one = (
        a_record(
            a_run('a', [comparison([2, 2, 2], note='bound|by memory')], date='2026-11-22 10:00'),
            a_run('b', [interleaved.value('memory of a step', 12_345.6, 'MB')], load=0.125),
            a_run(
                'grown',
                [
                    interleaved.grown('a step', 'layers', layers, number, unit)
                    for layers in (1, 1_000)
                    for unit, number in (('tokens/s', 20_000 / layers), ('MiB', 8 + layers))
                ],
            ),
            a_run('c', left_out='torch missing'),
        )
    )
    other = a_record(
        a_run('a', [comparison([3, 3, 3], note='bound|by memory')]),
        a_run('b', [interleaved.value('time of a step', 0.5, 's')]),
        a_run('d', left_out='no time'),
        cpu='Another CPU (family 7)',
    )
    assert record.name_of(other['machine']) == 'another-cpu-family-7.json'
    both = record.table([one, other])
    assert both.splitlines()[:11] == [
        '| work | against | Some CPU | Another CPU (family 7) | note | run |',
        '| --- | --- | ---: | ---: | --- | --- |',
        '| a step | PyTorch | 2.00 | 3.00 | bound\\|by memory | `a` |', '',
        '| figures without a peer | Some CPU | Another CPU (family 7) | run |',
        '| --- | ---: | ---: | --- |', '| memory of a step | 12,346 MB | | `b` |',
        '| time of a step | | 0.5 s | `b` |', '',
        '| figures as a size grows | unit | size | Some CPU | Another CPU (family 7) | run |',
        '| --- | --- | --- | --- | --- | --- |',
    ]  # fmt: skip
    assert '- `d` was left out on Another CPU (family 7): no time' in both
    assert both.count('Measured on 2026-11-2') == 2
    text = record.table([one])
    assert text.splitlines() == [
        '| work | against | Some CPU | note | run |',
        '| --- | --- | ---: | --- | --- |',
        '| a step | PyTorch | 2.00 | bound\\|by memory | `a` |', '',
        '| figures without a peer | Some CPU | run |',
        '| --- | ---: | --- |',
        '| memory of a step | 12,346 MB | `b` |', '',
        '| figures as a size grows | unit | size | Some CPU | run |',
        '| --- | --- | --- | --- | --- |',
        '| a step | tokens/s | layers | 1: 20,000; 1,000: 20 | `grown` |',
        '| a step | MiB | layers | 1: 9; 1,000: 1,008 | `grown` |', '',
        '- `c` was left out: torch missing', '',
        'Measured on 2026-11-22 to 2026-11-23 on Some CPU, 2 cores, 24 GB, Linux, with jax 0.10.2. '
        'Before a script began, at most 0.12 cores were at work.',
    ]  # fmt: skip
    page = f'# Page\n\n{record.BEGIN}\nold\n{record.END}\n\nthe rest\n'
    page = record.replace_section(page, text)
    assert record.section(page) == text and page.endswith(f'{record.END}\n\nthe rest\n')
    assert record.replace_section(page, text) == page
    with pytest.raises(SystemExit, match='no lines'):
        record.replace_section('# Page\n', text)


def test_only_changes_beyond_noise_are_told():
    def values(memory, time):
        return [interleaved.value('memory', memory, 'GB'), interleaved.value('time', time, 's')]

    noisy = [1.6, 2.0, 2.6]
    old = a_record(
        a_run('same', [comparison([2.0, 2.02, 1.98])]), a_run('noisy', [comparison(noisy)]),
        a_run('slower', [comparison([2.0, 2.02, 1.98])]), a_run('values', values(10, 10)),
        a_run('gone', [interleaved.value('memory', 1, 'GB')]),
    )  # fmt: skip
    new = a_record(
        a_run('same', [comparison([2.05, 2.06, 2.04])]),
        a_run('noisy', [comparison([x * 1.1 for x in noisy])]),
        a_run('slower', [comparison([1.5, 1.52, 1.48])]),
        a_run('values', values(10.5, 5)),
        a_run('new', [comparison([1, 1, 1])]),
    )
    assert record.changes(old, new) == [
        'gone: gone: memory', 'slower: a step, against PyTorch: 2 -> 1.5', 'values: time: 10 -> 5',
        'new: new: a step, against PyTorch',
    ]  # fmt: skip


def test_the_machine_says_what_it_is():
    facts = machine.facts()
    assert facts['cores'] >= 1 and facts['memory_gb'] >= 1 and facts['cpu'] and facts['os']
    versions = machine.versions(sys.executable)
    assert {'python', 'jax', 'jaxlib'} <= set(versions)
    assert not machine.busy_cores(0.02) < 0


def test_every_script_is_there_and_has_a_name_of_its_own():
    names = [script.name for script in catalog.SCRIPTS]
    assert len(set(names)) == len(names)
    texts = {path.stem: path.read_text('utf-8') for path in SPEED.glob('*.py')}
    scripts = {name for name, text in texts.items() if "\nif __name__ == '__main__':" in text}
    assert {script.script for script in catalog.SCRIPTS} == scripts - {'__main__'}
    chosen = catalog.chosen('search,beam_search_32k')
    assert [script.name for script in chosen] == ['beam_search_32k', 'search']
    with pytest.raises(SystemExit, match='no script is called serch'):
        catalog.chosen('serch')
    torch = next(script for script in catalog.SCRIPTS if script.peers)
    assert 'XLBENCH_TORCH_PYTHON' in catalog.missing(torch, '')
    assert 'does not run' in catalog.missing(torch, '/no/such/python')
    far = catalog.Script('x', 'x', variables=('NO_SUCH_VARIABLE',))
    assert catalog.missing(far, '') == 'NO_SUCH_VARIABLE is not set'
    lacking = catalog.Script('x', 'x', ('json', 'no_such_module'), '--torch_python')
    assert catalog.missing(lacking, sys.executable) == 'no_such_module missing'


def test_a_script_that_fails_or_hangs_is_left_out(tmp_path, monkeypatch):
    (tmp_path / 'fails.py').write_text('raise SystemExit(3)')
    (tmp_path / 'hangs.py').write_text('import time; time.sleep(60)')
    (tmp_path / 'works.py').write_text(
        'import json, sys; json.dump(sys.argv[1:-1], open(sys.argv[-1].partition("=")[2], "w"))'
    )
    monkeypatch.setattr(catalog, 'SPEED', tmp_path)
    assert catalog.figures(catalog.Script('a', 'fails'), '') == ([], 'it ended with status 3')
    hangs = catalog.Script('b', 'hangs', limit=1)
    assert catalog.figures(hangs, '') == ([], 'it took longer than 1 seconds')
    assert catalog.figures(catalog.Script('c', 'works --rounds=3'), '') == (['--rounds=3'], '')


def test_the_page_shows_the_record():
    """docs/results.md has the table of docs/speed/, whose files have the names of processors."""
    text = pages.FILES['results.md'].read_text('utf-8')
    paths = sorted((pages.PROJECT / 'docs' / 'speed').glob('*.json'))
    records = list(map(record.load, paths))
    assert [path.name for path in paths] == [record.name_of(one['machine']) for one in records]
    assert record.section(text) == record.table(records)


def test_commands_are_listed():
    command = [sys.executable, str(SPEED), '--list', '--only=beam_search_32k,growth_model']
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert 'beam_search_32k      tools/speed/beam_search.py --vocab_size=32128' in answer
    assert 'growth_rows          tools/speed/growth_model.py rows' in answer  # All of a script.
    assert 'beam_search  ' not in answer
