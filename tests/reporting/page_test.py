"""The HTML report of made-up workdirs: what it shows, and that no text of theirs becomes code."""

import base64
import csv
import dataclasses
import hashlib
import html
import io
import json
import re
import xml.etree.ElementTree as ElementTree

import pytest
from report_sections import section_of
from workdir_files import QG, write_predictions, write_workdir

from xlbench import report
from xlbench.benchmarks import MRS, MTG
from xlbench.reporting import documents, drawing, render, results
from xlbench.reporting.page import document, examples, plots


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_every_text_of_a_page_is_escaped_once(tmp_path):
    paths = [
        write_workdir(tmp_path / f'a "<b>&{i}', 50.0, info={'config': {'i': i}})
        for i in range(2)
    ]
    section = dataclasses.replace(section_of(*paths), notes=('<i> & "q"\x1b\nb',))
    text = documents.html([section])
    assert '<li>&lt;i&gt; &amp; &#34;q&#34;\ufffd\ufffdb</li>' in text
    assert 'data-name="a &#34;&lt;b&gt;&amp;0"' in text and '<b>' not in text
    assert '&amp;amp;' not in text and '&amp;lt;' not in text


def test_the_answer_stands_at_the_top_with_what_it_beats(tmp_path):
    for seed, value in ((1, 40.0), (2, 50.0)):
        write_workdir(tmp_path / f'good_{seed}', value, seed=seed)
    write_workdir(tmp_path / 'bad', 20.0, mixture='mtg_zero_shot_qg')
    section = section_of(*(tmp_path / name for name in ('bad', 'good_1', 'good_2')))
    text = documents.html([section])
    answer = text[text.index('class="answer"') : text.index('id="s1-scores"')]
    assert 'good (2 seeds)' in answer and '<strong>45.0</strong> rouge_l' in answer
    # Student's t with one degree of freedom: 12.706 * 7.071 / sqrt(2).
    assert '2 seeds, 95 % interval ±63.5' in answer
    assert re.findall(r'<td[^>]*>([^<]*)</td>', answer) == ['20.0', '+25.0', '30.0', '+15.0']
    # The marks are those of the plots, the best system first.
    style = plots.of_section(section)
    assert [style.mark(system) for system in style.ranked] == ['series-1', 'series-2']
    assert text.count('class="mark series-1"') >= 2
    assert text == documents.html([section])


def test_the_answer_compares_equal_numbers_of_examples_alone(tmp_path):
    """A run on 10 examples has the highest score, and the baselines were scored on 3,000."""
    section = section_of(*(
        write_workdir(tmp_path / name, value, num_examples=count, baselines=name == 'few',
                      info={'config': {'name': name}})
        for name, value, count in (('few', 99.0, 10), ('many', 40.0, 300), ('most', 30.0, 300))
    ))  # fmt: skip
    text = documents.html([section])
    answer = text[text.index('class="answer"') : text.index('id="s1-scores"')]
    assert '<strong>40.0</strong> rouge_l' in answer
    assert 'best of the 2 scored on 1200 examples' in answer
    assert re.findall(r'<td[^>]*>([^<]*)</td>', answer) == ['30.0', '+10.0']
    assert any(note.startswith('Not comparable: scored on 10 and ') for note in section.notes)


def test_no_text_of_a_plot_is_cut(tmp_path):
    """A map of one task in two languages is lower than the name of its axis is long."""
    langs = ('en', 'de')
    both = tuple(MTG.task_name('qg', a, b) for a in langs for b in langs)
    paths = [
        write_workdir(tmp_path / f'a_run_with_a_long_name_{i}', 30.0 + i,
                      tasks=both, info={'config': {'name': i}})
        for i in range(2)
    ]  # fmt: skip
    for path in paths:
        for task in both:
            lines = [{'id': i, 'target': 'a b', 'prediction': 'a', 'scores': {'rouge_l': 30.0}}
                     for i in range(5)]  # fmt: skip
            write_predictions(path, task, lines)
    cut = []

    def encoded(canvas, kind):
        canvas.draw_without_rendering()
        box, (width, height) = canvas.get_tightbbox(), canvas.get_size_inches()  # In inches.
        if min(box.x0, box.y0, width - box.x1, height - box.y1) < -0.02:
            cut.append((box, width, height, [axes.get_ylabel() for axes in canvas.axes]))
        return b''

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, 'encoded', encoded)
        figures = document.plots([section_of(*paths)])
        assert len(figures) >= 2
        for figure in figures:
            figure.draw(('svg',))
    assert cut == []


def test_systems_of_several_scenarios_are_ranked_by_the_mean_of_what_most_have(tmp_path):
    """No column has it: the cross-lingual run adds languages that the others lack."""
    scores = {'first': (10.0, 50.0), 'second': (30.0, 20.0), 'cross': (90.0, 90.0)}
    for name, (de, en) in scores.items():
        tasks, mixture = ['mtg_qg_en_en', 'mtg_qg_de_de'], 'mtg_multi_qg'
        if name == 'cross':
            tasks, mixture = ['mtg_qg_en_de', 'mtg_qg_en_fr'], 'mtg_cross_qg_en'
        write_workdir(
            tmp_path / name,
            lambda step, task, by=(de, en): by[task.endswith('en')],
            tasks=tasks,
            info={'config': {'stages': {'one': {'mixture': mixture}}, 'model': {'family': name}}},
        )
    section = section_of(*(tmp_path / name for name in scores))
    style = plots.of_section(section)
    assert set(style.column.tasks) == {'mtg_qg_en_en', 'mtg_qg_de_de'}
    assert [system.name for system in style.ranked] == ['first', 'second', 'cross']
    text = documents.html([section])
    assert '<strong>30.0</strong> rouge_l' in text
    assert 'mean over 2 tasks and languages of qg (2 of 3 systems have this score)' in text


def test_differences_are_to_the_paper_on_official_data(tmp_path):
    section = section_of(write_workdir(tmp_path / 'a', 30.0, data='files'))
    text = documents.html([section])
    chosen = re.search(r'<option value="([^"]*)" selected>', text)[1]
    assert section.data == 'official' and chosen.endswith('(paper, multi)')
    assert 'the paper&#39;s best' in text


def test_only_the_script_and_the_style_of_the_page_run(tmp_path):
    path = write_workdir(tmp_path / 'run', 50.0)
    text = documents.html([section_of(path)])
    policy = re.search(r'Security-Policy" content="([^"]*)"', text)[1]
    assert "default-src 'none'" in policy
    parts = {'script': text.rpartition('<script>')[2], 'style': text.partition('<style>')[2]}
    for tag, part in parts.items():
        content = part.partition(f'</{tag}>')[0]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert ' style="' not in text


def test_plots_are_drawn_from_the_logs(tmp_path):
    """With the names of systems as they are."""
    path = write_workdir(tmp_path / '_$b$<c>', lambda step, task: 2.0 * step, steps=(5, 10))
    run = results.read_run(path)
    assert plots.training_series(run, 'loss') == [(s, 8 / s) for s in range(1, 6)]
    assert plots.eval_series(run, 'rouge_l') == {'test': [(5, 10.0), (10, 20.0)]}
    section = section_of(path)
    made = plots.curves(section, plots.of_section(section), 's1')
    titles = ['Training loss', 'Loss in evaluation', 'rouge_l in evaluation']
    assert [plot.numbers.title for plot in made] == titles
    assert documents.html([section]).count('<img class="plot"') == 3
    plot = made[0]
    root = ElementTree.fromstring(plot.svg())
    texts = {''.join(node.itertext()).strip() for node in root.iter() if node.tag.endswith('text')}
    assert {'nats per token', 'step', '_$b$<c>'} <= texts
    assert plot.svg() == plot.svg() and plot.svg().startswith('<svg')


def test_evaluations_in_the_log_are_plotted_by_name(tmp_path):
    path = write_workdir(tmp_path / 'run', lambda step, task: 2.0 * step)
    with (path / 'metrics.jsonl').open('a') as file:
        for step, name, value in [
            (5, 'dev/mtg_qg_de_de', 9.0), (5, 'dev/mean', 4.0), (10, 'dev/mean', 3.0),
            (10, 'test/mean', 3.5),
        ]:  # fmt: skip
            row = {'step': step, 'kind': 'eval', 'name': name, 'values': {'loss': value}}
            file.write(json.dumps(row) + '\n')
    run = results.read_run(path)
    assert plots.eval_series(run, 'loss') == {'dev': [(5, 4.0), (10, 3.0)], 'test': [(10, 3.5)]}
    assert plots.eval_series(run, 'rouge_l') == {'test': [(10, 20.0)]}  # From the results.


def test_maps_of_languages(tmp_path):
    langs = MTG.languages
    pairs = [MTG.task_name('qg', a, b) for a in langs for b in langs]
    values = {name: float(i) for i, name in enumerate(pairs)}
    path = write_workdir(tmp_path / 'run', lambda step, task: values[task], tasks=pairs)
    section = section_of(path)
    (one,) = plots.maps(section, plots.of_section(section), 's1')
    assert one.numbers.title == 'qg, run' and f'Best: {len(pairs) - 1}.0 (' in one.numbers.notes[0]
    texts = re.findall(r'<text[^>]*>([^<]*)</text>', one.svg())
    assert [float(t) for t in texts if t[0].isdigit()] == sorted(values.values())
    path = write_workdir(tmp_path / 'equal', 1.0, tasks=tuple(pairs))
    section = section_of(path)
    (one,) = plots.maps(section, plots.of_section(section), 's1')
    assert 'Best' not in one.numbers.notes[0]  # All are equal.


def test_examples_of_systems_stand_side_by_side(tmp_path):
    task = QG.evaluate[1]
    line = {'id': 7, 'input': 'ein\nText', 'target': 'Ziel', 'references': ['Ziel', 'Ende']}
    for name, value in (('a', 50.0), ('b', 40.0)):
        path = write_workdir(tmp_path / name, value, mixture=f'mtg_{name}')
        lines = [line | {'prediction': f'von {name}', 'scores': {'rouge_l': value}}]
        write_predictions(path, task, lines * (name == 'a') or [*lines, {'id': 8, 'input': 'x'}])
    section = section_of(tmp_path / 'a', tmp_path / 'b')
    content = data_of(documents.html([section]))['sections'][0]
    assert [s['name'] for s in content['systems']] == ['a', 'b'] and content['total'] == 2
    assert content['score'] == 'rouge_l'
    assert content['tasks'][0]['target'] == 'de' and content['tasks'][0]['targetDir'] == 'auto'
    assert content['examples'] == [
        [0, '7', 'ein\nText', ['Ziel', 'Ende'], ['von a', 'von b'], [50.0, 40.0], [[], []]],
        [0, '8', 'x', [], [None, None], [None, None], [[], []]],
    ]


def test_any_text_reaches_the_page_as_it_is(tmp_path):
    path = write_workdir(tmp_path / 'run', 50.0)
    texts = ['</script><!--<script>\r\n', 'שלום עולם', 'a \u200dمی\u200cخواهم', '👩🏽\u200d🚀']
    texts.append('x' * 5000)
    lines = [
        {'id': i, 'input': text, 'target': '', 'prediction': text} for i, text in enumerate(texts)
    ]
    lines.append({'id': 9, 'input': 'a\x00\x1b\ud800b', 'prediction': 'y' * 30_000})
    folder = path / 'eval' / '10' / 'test' / QG.evaluate[0]
    (folder / 'predictions.jsonl').write_text('\n'.join(map(json.dumps, lines)) + '\n{broken')
    text = documents.html([section_of(path)])
    text.encode()
    shown = data_of(text)['sections'][0]['examples']
    texts[0] = texts[0].replace('\r', '')
    assert [example[2] for example in shown[:5]] == texts
    assert [example[4][0] for example in shown[:5]] == texts
    # A lone surrogate is not a text of JSON, so its line is left out; the rest of a text is cut.
    assert all(len(example[4][0] or '') <= 20_010 for example in shown)


def test_too_many_examples_are_chosen_evenly(tmp_path, monkeypatch):
    path = write_workdir(tmp_path / 'run', 50.0)
    for task in QG.evaluate:
        write_predictions(path, task, [{'id': i, 'input': 'x' * 10} for i in range(10)])
    section = section_of(path)
    style = plots.of_section(section)
    # Of a task no more than `MOST` are read.
    for name, value, count, total in (('MOST', 8, 8, 32), ('_CHARACTERS', 200, 20, 40)):
        with monkeypatch.context() as patch:
            patch.setattr(examples, name, value)
            content = examples.content(section, style)
        assert content['total'] == total and len(content['examples']) == count
        assert {example[0] for example in content['examples']} == {0, 1, 2, 3}


def test_all_suggestions_of_an_example_are_shown(tmp_path):
    task = MRS.task_name('retrieval', 'ja')
    path = write_workdir(tmp_path / 'run', 2.0, tasks=(task,), baselines=False)
    example = {'input': 'ねえ', 'target': 'うん', 'prediction': 'はい'}
    suggestions = [{'text': text, 'score': 1.0} for text in ('はい', 'いいえ', '<b>')]
    broken = {'suggestions': 3, 'n_best': ['x']}
    write_predictions(path, task, [example | {'suggestions': suggestions}, example | broken])
    content = data_of(documents.html([section_of(path)]))['sections'][0]
    assert [example[6] for example in content['examples']] == [[['いいえ', '<b>']], [[]]]


def test_speed_cost_and_config_are_folded_away(tmp_path):
    path = write_workdir(tmp_path / 'run', 2.0, info={'parameters': 12_345})
    session = {
        'began': '2026-01-05T10:00:00Z', 'wall_seconds': 90.0, 'processor_seconds': 120.0,
        'peak_bytes': 2**31, 'cores': 2, 'command': ['/home/x/xlbench/train.py', '--config=c.py'],
    }  # fmt: skip
    (path / 'sessions.jsonl').write_text(json.dumps(session) + '\n')
    text = documents.html([section_of(path)])
    folded = html.unescape(text[text.index('<details class="origins"') :])
    for fact in ('12345', '1m30s', '2m00s', '2.0 GiB', 'python -m xlbench.train --config=c.py',
                 '"seed": 0', 'rouge|lang:de|v1', 'jax 0.10.2'):  # fmt: skip
        assert fact in folded, fact
    (path / 'sessions.jsonl').write_text('no JSON')  # It keeps no page away.
    with pytest.warns(match='the page has no costs of .*/run: .*sessions.jsonl:1: not JSON'):
        assert 'no JSON' not in documents.html([section_of(path)])


def test_plots_are_files_for_papers(tmp_path, capsys, monkeypatch):
    path = write_workdir(tmp_path / 'run', lambda step, task: 2.0 * step, steps=(5, 10))
    output = tmp_path / 'report'
    flags = [str(path), f'--output={output}', '--format=csv', '--plots']
    assert report.main(flags) == 0
    names = {file.name for file in output.iterdir()} - {'.lock'}
    stems = ('curve_1', 'curve_2', 'curve_3')
    assert names == {'report.csv'} | {
        f'mtg_test_{stem}.{kind}' for stem in stems for kind in ('svg', 'png', 'pdf')
    }
    assert (output / 'mtg_test_curve_1.png').read_bytes().startswith(b'\x89PNG')
    assert str(output / 'mtg_test_curve_1.pdf') in capsys.readouterr().out
    with pytest.raises(Exception, match='--plots needs --output'):
        report.main([str(path), '--plots'])
    rows = list(csv.DictReader(io.StringIO((output / 'report.csv').read_text())))
    assert rows and document.plots([section_of(path)] * 2)[-1].name == 'mtg_test_2_curve_3'
    monkeypatch.setattr(drawing, 'encoded', lambda drawn, kind: b'again')
    assert report.main(flags) == 0  # Its own files may be written again.
    assert (output / 'mtg_test_curve_1.png').read_bytes() == b'again'


@pytest.mark.parametrize(
    'text',
    ['en->de', 'a && b &c; &amp &#60;i> &lt;i&gt; &#x3c;script>', '> a', '>> a', '# a',
     '<b onclick="x()">b</b> <!-- x <https://a.b>', '*a* **b** _c_ a_b_c',
     '`a` [b](c) ![d](e) | f | \\g'],
)  # fmt: skip
def test_markdown_shows_a_text_as_it_is(text):
    """Also in a table; a terminal shows what begins no Markdown as it is typed."""
    markdown_it = pytest.importorskip('markdown_it')
    parser = markdown_it.MarkdownIt('commonmark').enable('table')
    written = render.markdown_text(text)
    for page in (written, render.items([text]), f'### {written}', f'| a |\n| --- |\n| {written} |'):
        shown = parser.render(page)
        inner = re.sub('</?(p|ul|li|h3|table|thead|tbody|tr|th|td)>|\n', '', shown)
        assert '<' not in inner, page
        assert html.unescape(inner).removeprefix('a' if page[0] == '|' else '') == text, page


def test_markdown_of_commands_can_be_copied():
    command = 'cd out && python -m xlbench.report --table=7 mtg_en->de'
    assert render.markdown_text(command) == command
