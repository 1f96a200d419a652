"""Reports of made-up workdirs: the command line, the files it writes, files nobody should trust."""

import collections
import html.parser
import itertools
import json
import subprocess
import sys

import pytest
from report_sections import documents_of, lines_of, section_of
from workdir_files import QG, write_result, write_workdir

from xlbench import report
from xlbench.reporting import documents, layout, notes, predictions, results
from xlbench.reporting.page import plots
from xlbench.system import errors


def test_every_format_says_when_the_data_is_made_up(tmp_path):
    path = write_workdir(tmp_path / 'run', 50.0)
    section = section_of(path)
    for text in documents_of(section):
        # Under each of the three tables, at least.
        assert text.count('SAMPLE DATA') >= 3
    assert 'SAMPLE DATA' in layout.screen(path)
    assert ',sample,' in documents.comma_separated([section])


def test_signatures_stand_under_their_table(tmp_path):
    section = section_of(write_workdir(tmp_path / 'run', 50.0))
    assert notes.signatures(section.picks, ['bleu'], shared=False) == ['SacreBleu: nrefs:1']
    assert notes.signatures(section.picks, ['rouge_l'], shared=False) == [
        'MultilingualRouge: rouge|lang:{de,en,es,fr}|v1'
    ]
    text = documents.markdown([section])
    assert text.index('### bleu') < text.index('SacreBleu') < text.index('### distinct_1')


def test_all_files_are_written_and_written_again(tmp_path, capsys):
    path = write_workdir(tmp_path / 'run', 50.0, steps=(5, 10))
    arguments = [str(path), f'--output={tmp_path / "out"}']
    assert report.main(arguments) == 0
    names = ['report.csv', 'report.html', 'report.md', 'report.tex']
    assert sorted(p.name for p in (tmp_path / 'out').iterdir()) == names
    before = {name: (tmp_path / 'out' / name).read_bytes() for name in names}
    assert report.main(arguments) == 0  # Its own files may be replaced, and nothing changes.
    assert {name: (tmp_path / 'out' / name).read_bytes() for name in names} == before
    assert capsys.readouterr().out.count('wrote') == 8


def test_files_of_the_user_are_left_alone(tmp_path):
    path = write_workdir(tmp_path / 'run', 50.0)
    output = tmp_path / 'out'
    output.mkdir()
    for name, text in {'report.tex': r'\section{Mine}', 'report.csv': 'a,b\n1,2\n'}.items():
        (output / name).write_text(text)
        with pytest.raises(errors.UserError, match='is not a report of xlbench'):
            report.main([str(path), f'--output={output}'])
        assert [p.name for p in output.iterdir()] == [name]
        assert (output / name).read_text() == text
        (output / name).unlink()
    with pytest.raises(errors.UserError, match='is a file; give a folder'):
        report.main([str(path), f'--output={path / "config.json"}'])


def test_csv_has_every_number(tmp_path):
    first = write_workdir(tmp_path / 's0', 40.0, seed=0)
    second = write_workdir(tmp_path / 's1', 44.0, seed=1)
    rows = lines_of(section_of(first, second))
    # Four languages x (four scores of the runs + three of each of three baselines).
    assert len(rows) == 4 * (4 + 3 * 3)
    row = next(r for r in rows if r['kind'] == 'run' and r['score'] == 'rouge_l')
    place = [row[key] for key in ('benchmark', 'task', 'source', 'target')]
    assert place == ['mtg', 'qg', 'en', 'en']
    assert (row['mean'], row['runs'], row['seeds'], row['data']) == ('42.0', '2', '0 1', 'sample')
    assert float(row['standard_deviation']) == pytest.approx(8**0.5)


def test_latex_tables_are_regular(tmp_path):
    text = documents.latex([section_of(write_workdir(tmp_path / 'run_1', 50.0))])
    assert text.count(r'\begin{tabular}{lrrrrr}') == 3
    body = text[text.index(r'\toprule') : text.index(r'\bottomrule')]
    rows = [
        line for line in body.splitlines() if line.endswith(r'\\') and 'multicolumn' not in line
    ]
    assert rows and all(line.count(' & ') == 5 for line in rows)
    assert r'run\_1' in text
    assert r'36\%' not in text and r'29\%' in text


NASTY = '<script>alert(1)</script> | $x^2$ \\input{x} & `a` \x1b[31m "q"'


def test_no_text_of_a_workdir_is_ever_code(tmp_path):
    path = write_workdir(
        tmp_path / '=cmd() _$<b>&', 50.0, steps=(5, 10),
        info={'git': NASTY, 'versions': {NASTY: NASTY}, 'devices': 'a\nb'},
    )  # fmt: skip
    (path / 'eval' / '10' / 'test' / QG.evaluate[0] / 'predictions.jsonl').write_text(
        json.dumps({'id': 0, 'input': NASTY, 'target': NASTY, 'prediction': NASTY}) + '\n{broken\n'
    )
    section = section_of(path)

    shown = documents.html([section])
    tags = collections.Counter()

    class Parser(html.parser.HTMLParser):
        def handle_starttag(self, tag, attributes):
            tags[tag] += 1
            assert not [name for name, _ in attributes if name.startswith('on') or name == 'style']
            # A plot stands in the page itself, as an image, which runs no script.
            assert tag != 'img' or dict(attributes)['src'].startswith('data:image/svg+xml;base64,')

    Parser().feed(shown)
    assert tags['script'] == 2 and not tags.keys() & {'b', 'iframe', 'link', 'object'}
    assert '<script>alert' not in shown and '&lt;script&gt;' in shown
    assert r'\u003cscript>alert(1)\u003c/script>' in shown  # In the texts of examples.
    # Nothing is loaded: the one address is the name of SVG, for pictures that are saved.
    assert 'http' not in shown.replace('http-equiv', '').replace('http://www.w3.org/2000/svg', '')

    markdown = documents.markdown([section])
    assert '<script' not in markdown
    for line in markdown.splitlines():
        if line.startswith('|'):
            assert line.replace(r'\|', '').count('|') == len(section.columns) + 2
    tex = documents.latex([section])
    assert r'\$\textless{}b\textgreater{}\&' in tex
    code = [line for line in tex.splitlines() if not line.startswith('%')]
    assert not any('input{x}' in line for line in code)
    assert not any(row['system'].startswith('=') for row in lines_of(section))
    for text in (shown, markdown, tex, layout.screen(path)):
        assert '\x1b' not in text and r'\u001b' not in text


def test_a_log_that_was_cut_short_and_resumed(tmp_path):
    path = write_workdir(tmp_path / 'run', 50.0)
    lines = [
        '{"step": 1, "kind": "train", "name": "main", "values": {"loss": 3.0}}',
        '{"step": 2, "kind": "train", "name": "main", "values": {"loss": 9.0}}',
        '{"step": 2, "kind": "train", "name": "main", "values": {"loss": 2.0}}',
        '{"step": 3, "kind": "train", "name": "main", "values": {"loss": null}}',
        '[1, 2]',
        '{"step": 4, "kind": "tra',
    ]
    (path / 'metrics.jsonl').write_text('\n'.join(lines))
    run = results.read_run(path)
    assert plots.training_series(run, 'loss') == [(1, 3.0), (2, 2.0)]
    assert run.bad_log_lines == 2
    assert any('2 lines' in note for note in section_of(path).notes)
    (path / 'metrics.jsonl').unlink()
    assert results.read_run(path).log == ()


def test_lines_of_the_log_and_folders_that_no_run_writes_are_left_out(tmp_path):
    path = write_workdir(tmp_path / 'run', 50.0)
    good = '{"step": 1, "kind": "train", "name": "main", "values": {"loss": 3.0}}'
    steps = (10**30, 'Infinity', '"²"', '[' * 10**5)
    bad = [good.replace('1', str(step), 1) for step in steps]
    (path / 'metrics.jsonl').write_text('\n'.join([good, *bad]))
    (path / 'eval' / '10').rename(path / 'eval' / '7')
    for name in ('²', '٣', '1' * 200):
        write_result(path / 'eval' / name / 'test', 'mtg_qg_de_de', {'rouge_l': 1.0})
    prediction = path / 'eval' / '7' / 'test' / 'mtg_qg_de_de' / 'predictions.jsonl'
    prediction.write_text('[' * 10**5 + '\n{"id": 0}\n')
    run = results.read_run(path)
    assert run.bad_log_lines == 4 and list(run.evaluations) == [7]
    with pytest.raises(errors.UserError, match='no results at step'):
        run.choose_step('²', 'test', 'rouge_l')
    result = run.at(7, 'test')['mtg_qg_de_de']
    assert [*predictions.of_result(result, 9, is_strict=False)] == ['0']
    documents.html([section_of(path)])


FIRST = f'eval/10/test/{QG.evaluate[0]}/metrics.json'


@pytest.mark.parametrize(
    ('file', 'content', 'message'),
    [
        ('config.json', None, 'no config.json'),
        ('config.json', '{', 'config.json: not JSON'),
        ('config.json', '[]', 'Expected `object`, got `array`'),
        ('config.json', '{"a": ' + '[' * 10**5, 'too deeply'),
        ('config.json', '{"seed": ' + '[' * 99 + ']' * 99 + '}', 'nested too deeply'),
        ('eval', None, 'no evaluation results'),
        (FIRST, b'\xff\xfe{', 'not JSON: .*; remove that file'),
        (FIRST, '{"task": "t"}', 'field `scores`'),
        (FIRST, '{"task": "t", "scores": {"a": "b"}}', r'Expected `float \| null`, got `str`'),
        (FIRST, '{"scores": {}}', 'field `task`'),
        (FIRST, f'{{"scores": {{"a": {10**400}}}}}', 'metrics.json: Number out of range'),
        (FIRST, '1' * 6000, 'Number out of range'),
    ],
    ids=itertools.count(),
)
def test_odd_workdirs_are_user_errors(tmp_path, file, content, message):
    path = write_workdir(tmp_path / 'run', 50.0)
    (path / file).rename(tmp_path / 'away')
    if content is not None:
        (path / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(errors.UserError, match=message) as caught:
        layout.screen(path)
    assert '\n' not in str(caught.value)


def test_mistakes_on_the_command_line(tmp_path):
    path = write_workdir(tmp_path / 'runs' / 'one', 50.0)
    for arguments, message in [
        ([str(tmp_path / 'nowhere')], 'is not a folder'),
        ([str(tmp_path / 'runs')], 'did you mean its subfolder one'),
        ([str(path), '--format=pdf'], "unknown format 'pdf'"),
        ([str(path), '--format=csv,html'], 'need --output'),
    ]:
        with pytest.raises(errors.UserError, match=message):
            report.main(arguments)


def test_the_screen_gets_markdown_or_what_is_asked(tmp_path, capsys, monkeypatch):
    path = write_workdir(tmp_path / 'RUNS' / 'run', 50.0)
    monkeypatch.chdir(tmp_path)  # A workdir may be named from there.
    assert layout.screen('RUNS/run') == layout.screen(path)
    report.main([str(path)])
    assert capsys.readouterr().out.startswith('<!-- xlbench report')
    report.main([str(path), '--format=csv'])
    assert capsys.readouterr().out.startswith('benchmark,split,')


def test_it_runs_without_jax_tensorflow_and_unless_it_plots_matplotlib(tmp_path):
    path = write_workdir(tmp_path / 'run', 50.0)
    program = (
        'import sys; from xlbench import report; report.main(sys.argv[1:]); '
        'heavy = {"jax", "tensorflow", "seqio", "matplotlib", "transformers"} & set(sys.modules); '
        'assert not heavy, heavy'
    )
    subprocess.run([sys.executable, '-c', program, str(path)], check=True, capture_output=True)
