"""Studies are blind and repeatable; answers are checked, and scored by hand and as others do."""

import json
import math
import re
import time

import judging
import msgspec
import pytest
from workdir_files import write_predictions, write_result, write_workdir

from xlbench import annotate, report
from xlbench.judgement import answers, scores, sources, studies
from xlbench.reporting import render
from xlbench.system import errors
from xlbench.system.errors import UserError

ASPECTS = ('Grammar', 'Fluency', 'Relevance')


def rating(system: str, aspect: str, index: int) -> int:
    """The first system is better by 2, but in every third item."""
    return 2 + (2 if system == 'system-0' and index % 3 else 0)


def test_a_study_is_made_from_its_seed():
    study, again = judging.study(), judging.study()
    assert study == again
    assert len(study.items) == 12 and study.systems == ['system-0', 'system-1']
    anna, ben = study.sheets
    assert anna.order != ben.order and sorted(anna.order) == list(range(12))
    firsts = [slots[0] for slots in anna.slots]
    assert 2 < firsts.count('system-0') < 10  # Neither system always comes first.
    assert anna.page != ben.page
    both = [judging.source('a', '?'), judging.source('b', '!', 9)]
    sampled = studies.make(both, studies.SCALES['ratings'], ['anna'], items=5, seed=1)
    assert len(sampled.items) == 5 and all(int(item.id) < 9 for item in sampled.items)


def test_judges_see_no_mark_that_is_for_models():
    text = 'Rom ist <alt>. <answer> Rom'
    one = sources.Prediction(prediction='Was ist alt?', input=f'<de> {text}', target='Was?')
    other = msgspec.structs.replace(one, input=text)
    both = [sources.Source(n, n, {'mtg_qg_en_de': {'0': x}}) for n, x in (('a', one), ('b', other))]
    study = studies.make(both, studies.SCALES['ratings'], ['anna'], items=0, seed=1)
    assert study.items[0].input == 'Rom ist <alt>.\n\nAnswer: Rom'


def test_subsets_of_systems_are_the_same_for_all_judges():
    study = judging.study('best_worst', systems=4, shown=3)
    assert all(len(item.shown) == 3 for item in study.items)
    assert len({tuple(sorted(item.shown)) for item in study.items}) > 1
    for sheet in study.sheets:
        for index, slots in zip(sheet.order, sheet.slots, strict=True):
            assert sorted(slots) == sorted(study.items[index].shown)


def test_a_page_is_blind_and_loads_nothing():
    study = judging.study(langs=('he', 'ar'), judges=['<i>anna</i>'], title='a < b & "c"')
    page = studies.document(study, study.sheets[0])
    assert not re.search(r'system-\d|key|jsonl', page.split('id="study">')[1].split('</script>')[0])
    assert page.count('<script') == 2 and '<b>' not in page and '<i>' not in page
    assert 'a &lt; b &amp; &#34;c&#34;' in page and '&lt;i&gt;anna' in page
    assert "default-src 'none'" in page and 'unsafe' not in page
    assert not re.search(r'https?:|src=|href="', page)
    content = json.loads(page.split('id="study">')[1].split('</script>')[0])
    item = content['items'][0]
    assert (item['inputDir'], item['dir'], item['lang']) == ('rtl', 'rtl', 'ar')
    assert studies.page_name(study.sheets[0]) == 'i-anna-i.html'


def test_ratings_by_hand(tmp_path):
    study = judging.study()
    ways = {'anna': rating, 'ben': lambda s, a, i: rating(s, a, i) + (a == 'Grammar')}
    paths = [
        judging.write(tmp_path, f'{judge}.json', judging.answers(study, judge, way))
        for judge, way in ways.items()
    ]
    judged = answers.read(paths, study)
    assert judged.judges == ('anna', 'ben') and not judged.notes
    table, agreed, differences = scores.tables(study, judged)
    first = {c.label: cell for c, cell in zip(table.columns, table.rows[0].cells, strict=True)}
    # Eight of twelve items are rated 4, the others 2; ben adds 1 for grammar.
    assert first['Fluency'].value == pytest.approx((8 * 4 + 4 * 2) / 12)
    assert first['Grammar'].value == pytest.approx(first['Fluency'].value + 0.5)
    deviation = math.sqrt((8 * (2 / 3) ** 2 + 4 * (4 / 3) ** 2) / 11)
    assert first['Fluency'].spread == pytest.approx(2.200985 * deviation / math.sqrt(12), rel=1e-5)
    assert first['Fluency'].best and not table.rows[1].cells[0].best
    grammar, fluency, _ = agreed.rows
    assert fluency.cells[0].value == fluency.cells[1].value == pytest.approx(1)
    # Judges who always differ by one never agree: 24 texts, 2 or 4 against 3 or 5.
    counts = [[1, 1, 0, 0]] * 16 + [[0, 0, 1, 1]] * 8
    assert grammar.cells[0].value == pytest.approx(scores.fleiss_kappa(counts))
    assert grammar.cells[1].value == pytest.approx(scores.randolph_kappa(counts, 5))
    assert [str(cell) for cell in grammar.cells[3:]] == ['24', '24']
    assert differences.rows[0].name == 'system-1 minus system-0'
    assert str(differences.rows[0].cells[1]) == '-1.33 ±0.63*'
    assert '3 of 3 differences are significant at 0.05 (*)' in differences.notes[0]
    lines = list(map(json.loads, scores.rated_texts(study, judged).splitlines()))
    assert len(lines) == 24 and lines[0]['references'] == ['Wo ist Zug?']
    assert lines[0]['ratings'] == {'Grammar': 2.5, 'Fluency': 2.0, 'Relevance': 2.0}


def test_best_worst_by_hand(tmp_path):
    study = judging.study('best_worst', systems=4, judges=['a', 'b', 'c'])

    def choose(systems, aspect, index):
        return 'system-0', 'system-3' if index % 2 else 'system-2'

    paths = [
        judging.write(tmp_path, f'{judge}.json', judging.answers(study, judge, choose))
        for judge in 'abc'
    ]
    judged = answers.read(paths, study)
    table, counts, agreed, _ = scores.tables(study, judged)
    assert [row.cells[0].value for row in table.rows] == pytest.approx([1, 0, -0.5, -0.5])
    assert [str(cell) for cell in counts.rows[2].cells[:3]] == ['0', '18', '36']
    best, worst, both = agreed.rows[:3]
    assert str(best.cells[0]) == str(best.cells[2]) == 'undefined'  # One and the same choice.
    assert best.cells[1].value == 1  # Which chance does not explain, where all are as likely.
    assert worst.cells[0].value == both.cells[0].value == 1
    assert str(both.cells[3]) == '24'
    assert 'undefined' in render.screen(agreed) and render.markdown(table)


def same(value: float, expected: float | None) -> bool:
    return math.isnan(value) if expected is None else value == pytest.approx(expected, rel=1e-9)


def test_fleiss_equals_the_reference(golden):
    for case in golden('agreement/fleiss'):
        kappa = scores.fleiss_kappa(case['inputs']['counts_items_by_categories'])
        assert same(kappa, case['expected']['fleiss_kappa']), case['name']
        kappa = scores.randolph_kappa(case['inputs']['counts_items_by_categories'])
        assert same(kappa, case['expected']['randolph_free_marginal_kappa']), case['name']


def test_krippendorff_equals_the_reference(golden):
    for case in golden('agreement/krippendorff'):
        inputs = case['inputs']
        alpha = scores.krippendorff_alpha(inputs['raters_by_items'], inputs['level'])
        assert same(alpha, case['expected']['alpha']), case['name']


def test_best_worst_equals_the_reference(golden):
    for case in golden('best_worst/'):
        inputs = case['inputs']
        counts = scores.best_worst(
            (a['shown'], a['best'], a['worst']) for a in inputs['annotations']
        )
        for system, expected in case['expected'].items():
            assert counts[system].score == pytest.approx(expected.pop('score'))
            assert counts[system]._asdict() == expected


def test_agreement_by_hand():
    """Two judges, two units: one agreement, one difference."""
    # P = 1/2; the categories have 3/4 and 1/4 of the votes, so Pe = 10/16.
    assert scores.randolph_kappa([[2, 0], [1, 1]]) == pytest.approx((1 / 2 - 1 / 2) / (1 / 2))
    assert scores.randolph_kappa([[2, 0], [1, 1]], 5) == pytest.approx((1 / 2 - 1 / 5) / (4 / 5))
    assert scores.fleiss_kappa([[2, 0], [1, 1]]) == pytest.approx((1 / 2 - 5 / 8) / (3 / 8))
    assert math.isnan(scores.krippendorff_alpha([[3, 3], [3, None]], 'ordinal'))
    assert math.isnan(scores.krippendorff_alpha([[3, None], [None, 4]], 'ordinal'))
    with pytest.raises(ValueError, match='same number of judges'):
        scores.fleiss_kappa([[2, 0], [1, 0]])


def test_unfinished_and_doubled_answers_are_named(tmp_path):
    study = judging.study(judges=['anna', 'ben', 'cleo'])
    whole = judging.answers(study, 'anna', rating)
    paths = [judging.write(tmp_path, name, whole) for name in ('a.json', 'copy.json')]
    half = judging.answers(study, 'ben', rating)
    half = judging.signed(half | {'answers': half['answers'][:-4]})
    paths.append(judging.write(tmp_path, 'b.json', half))
    judged = answers.read(paths, study)
    doubled, absent, unfinished = judged.notes
    assert doubled.endswith(f'has the same answers as {paths[0]}, and counts once.')
    assert absent == 'No answers of cleo.'
    assert re.match(r'ben is not finished: 1 of 12 .* \(items 12 of the page\)', unfinished)
    _, agreed, _ = scores.tables(study, judged)
    assert [str(cell) for cell in agreed.rows[1].cells[3:]] == ['24', '22']
    other = judging.answers(study, 'anna', lambda *_: 1)
    with pytest.raises(UserError, match="different answers of 'anna'"):
        answers.read([*paths, judging.write(tmp_path, 'other.json', other)], study)


WRONG = {
    'is from another page': {'page': '0' * 16},
    'answers study': {'study': 'another'},
    'not a judge of this study': {'judge': '<script>alert(1)</script>'},
    'checksum does not fit': {'checksum': '00000000'},
    'holds no answers': {'format': 'x'},
}
WRONG_ANSWERS = {
    'the page has 12 items': {'item': 13},
    'no such aspect': {'aspect': '<img src=x>'},
    'no text C': {'text': 'C'},
    'rating 6 is above 5': {'rating': 6},
    'a rating alone': {'choice': 'best'},
    'is answered twice': {'item': 2},
    'Invalid enum value': {'text': '../../etc/passwd'},
    'Expected `int`': {'item': True},
}


def test_wrong_answers_end_in_one_line(tmp_path, capsys):
    study = judging.study()
    key = tmp_path / 'key.json'
    key.write_bytes(studies.encode(study))
    whole = judging.answers(study, 'anna', rating)
    files = {message: {**whole, **change} for message, change in WRONG.items()}
    for message, change in WRONG_ANSWERS.items():
        rows = [{**whole['answers'][0], **change}, *whole['answers'][1:]]
        if change == {'item': 2}:
            rows[1] = rows[-1]
        files[message] = judging.signed(whole | {'answers': rows})
    cases = {
        message: judging.write(tmp_path, f'{i}.json', file)
        for i, (message, file) in enumerate(files.items())
    }
    huge, cut = tmp_path / 'huge.json', tmp_path / 'cut.json'
    huge.write_bytes(b'{"a": "' + b'x' * (50 << 20) + b'"}')
    cut.write_text(json.dumps(whole)[:500])
    cases |= {'is too large': str(huge), 'not JSON': str(cut), 'cannot be read': str(tmp_path)}
    began = time.monotonic()
    for message, path in cases.items():
        assert errors.run_main(annotate.main, ['annotate', 'score', str(key), path]) == 2
        said = capsys.readouterr()
        assert message in said.err, said.err
        assert said.err.count('\n') == 1 and not said.out and len(said.err) < 500
    assert time.monotonic() - began < 30


def test_wrong_keys_end_in_one_line(tmp_path):
    study = judging.study()
    study.sheets[0].order[0] = study.sheets[0].order[1]
    path = tmp_path / 'key.json'
    path.write_bytes(studies.encode(study))
    with pytest.raises(UserError, match="sheet of 'anna' does not fit"):
        studies.read(str(path))
    path.write_text('{}')
    with pytest.raises(UserError, match='missing required field'):
        studies.read(str(path))


def test_systems_from_files_and_runs(tmp_path, capsys):
    lines = tmp_path / 'lines.txt'
    lines.write_text('eins\nzwei\n')
    records = tmp_path / 'records.jsonl'
    records.write_text('{"id": 0, "prediction": "a", "input": "x"}\n{"id": 1, "prediction": "b"}\n')
    systems = sources.read([f'one={lines}', str(records)], 'last', '', [], 'texts')
    assert [source.name for source in systems] == ['one', 'records']
    study = studies.make(systems, studies.SCALES['ratings'], ['j'], items=0)
    assert [item.texts['one'] for item in study.items] == ['eins', 'zwei']
    assert study.items[0].input == 'x'
    run, output = tmp_path / 'run', tmp_path / 'study'
    write_workdir(run, lambda step, task: 40.0)
    for i, folder in enumerate(sorted((run / 'eval' / '10' / 'test').iterdir())):
        lines = [
            {'id': j, 'input': f'{i} {j}', 'target': 'x', 'prediction': 'y', 'scores': {'loss': 1}}
            for j in range(3)
        ]
        write_predictions(run, folder.name, lines)
    places = [f'a={run}', f'b={run}', f'--output={output}', '--items=2']
    assert annotate.main(['annotate', 'make', *places, '--judges=anna, ben']) == 0
    assert '8 items of 4 tasks, 2 systems' in capsys.readouterr().out
    assert sorted(path.name for path in output.glob('[a-z]*')) == ['key.json', 'pages']
    assert sorted(path.name for path in (output / 'pages').iterdir()) == ['anna.html', 'ben.html']
    made = studies.read(str(output / 'key.json'))
    assert made.systems == ['a', 'b'] and made.data == 'sample'
    assert [item.lang for item in made.items[::2]] == ['de', 'en', 'es', 'fr']
    assert made.items[0].references == ['x'] and made.items[0].scores['a'] == {'loss': 1}
    (folder / 'predictions.jsonl').write_text('{"id": 0}\n')
    for flags, message in (
        ([], 'has no prediction that is a text'),
        (['--tasks=mtg_tg_de_de'], 'no predictions of mtg_tg_de_de'),
    ):
        with pytest.raises(UserError, match=message):
            annotate.main(['annotate', 'make', str(run), f'--output={tmp_path}/other', *flags])


@pytest.mark.parametrize(
    ('flags', 'message'),
    [
        (['--judges=0'], '1 to 100'),
        (['--judges=a,a'], 'different names'),
        (['--judges=a b,a-b'], 'same name of a file'),
        (['--scale=mtg'], 'unknown scale'),
        (['--scale=best_worst'], 'from 2 to 9'),
        (['--shown=3'], 'from 1 to 9'),
        (['--items=-3'], '0 or more'),
        (['--output={here}'], 'exists already'),
        (['{here}/lines.txt'], 'two systems are called'),
        (['other={here}/twice.jsonl'], 'is there twice'),
        (['other={here}/else.jsonl'], 'different inputs'),
        (['none.jsonl'], 'no workdir or file'),
        (['--tasks=mtg_qg_de_de'], '--task=mtg_qg_de_de names the task of files'),
        (['other={here}/later.jsonl'], 'in common; --task names'),
    ],
)
def test_slips_of_make(tmp_path, flags, message):
    (tmp_path / 'lines.txt').write_text('a\n')
    (tmp_path / 'one.jsonl').write_text('{"id": 0, "prediction": "a", "input": "x"}\n')
    (tmp_path / 'else.jsonl').write_text('{"id": 0, "prediction": "a", "input": "y"}\n')
    (tmp_path / 'later.jsonl').write_text('{"id": 7, "prediction": "a"}\n')
    (tmp_path / 'twice.jsonl').write_text('{"id": 0, "prediction": "a"}\n' * 2)
    system = 'lines.txt' if 'lines' in flags[0] else 'one.jsonl'
    argv = ['make', f'--output={tmp_path}/study', f'{tmp_path}/{system}']
    with pytest.raises(UserError, match=message):
        annotate.main(['annotate', *argv, *(flag.format(here=tmp_path) for flag in flags)])


def test_own_scales(tmp_path):
    path = tmp_path / 'scale.json'
    aspect = {'name': 'Tone', 'question': 'Is it polite?', 'levels': ['no', 'yes']}
    path.write_text(json.dumps({'kind': 'ratings', 'aspects': [aspect]}))
    assert studies.load_scale(str(path)).aspects[0].levels == ['no', 'yes']
    for change, message in (
        ([{**aspect, 'levels': []}], 'as many levels'),
        ([aspect, aspect], 'same name'),
        ([{**aspect, 'name': 'a\nb'}], 'one line'),
        ([], 'length >= 1'),
    ):
        path.write_text(json.dumps({'kind': 'ratings', 'aspects': change}))
        with pytest.raises(UserError, match=message):
            studies.load_scale(str(path))


def replies_run(folder, task: str, rouge: float, **texts):
    """A workdir that was scored on English replies; `texts` is what it wrote to each message."""
    name = f'mrs_{task}_en_en'
    stages = {'stage1': {'mixture': f'mrs_mono_{task}_en'}}
    config = {'stages': stages, 'model': {'family': 'mt5'}}
    folder.mkdir()
    (folder / 'config.json').write_text(json.dumps({'config': config, 'data': 'sample'}))
    scores = {'mrs_rouge': rouge, 'dist_1': 2.5, 'dist_2': 3.5}
    write_result(folder / 'eval' / '10' / 'test', name, scores)
    mark = '<en> ' if task == 'generation' else ''
    lines = [
        {'id': i, 'input': f'{mark}message {i}', 'target': 'x', 'prediction': f'{task} 0', **texts}
        for i in range(4)
    ]
    write_predictions(folder, name, lines)
    return str(folder)


def test_sets_of_replies_are_preferred_and_drawn(tmp_path, capsys):
    """A generator beside a retriever, as in figure 2 of arXiv:2106.02017."""
    n_best = [{'prediction': f'generation {i}', 'score': 0.5} for i in range(4)]
    suggestions = [{'text': f'retrieval {i}', 'response': i} for i in range(3)]
    runs = [
        replies_run(tmp_path / 'written', 'generation', 5.5, n_best=n_best),
        replies_run(tmp_path / 'chosen', 'retrieval', 3.25, suggestions=suggestions),
    ]
    make = [*runs, '--sets=3', '--scale=replies', '--judges=anna,ben']
    assert annotate.main(['annotate', 'make', *make, f'--output={tmp_path}/study']) == 0
    study = studies.read(f'{tmp_path}/study/key.json')
    assert {(item.task, item.lang) for item in study.items} == {('mrs_retrieval_en_en', 'en')}
    assert study.items[0].texts['written'] == '- generation 0\n- generation 1\n- generation 2'
    assert study.items[0].texts['chosen'] == '- retrieval 0\n- retrieval 1\n- retrieval 2'
    assert study.items[0].input.startswith('message ')

    def prefer(systems, aspect, index):  # Three of four sets are the generator's.
        first = 'chosen' if index == 0 else 'written'
        return first, ({*systems} - {first}).pop()

    files = [
        judging.write(tmp_path, f'{judge}.json', judging.answers(study, judge, prefer))
        for judge in ('anna', 'ben')
    ]
    output = f'--output={tmp_path}/scores'
    mine = tmp_path / 'scores' / 'ratings.jsonl'  # Somebody's own, which stays.
    mine.parent.mkdir()
    mine.write_text('{"rating": 5}\n')
    with pytest.raises(UserError, match=r'ratings\.jsonl exists and is not of xlbench\.annotate'):
        annotate.main(['annotate', 'score', f'{tmp_path}/study/key.json', *files, output])
    assert mine.read_text() == '{"rating": 5}\n' and len(list(mine.parent.iterdir())) == 1
    mine.unlink()
    for _ in range(2):  # Its own it may replace.
        key = f'{tmp_path}/study/key.json'
        assert annotate.main(['annotate', 'score', key, *files, output]) == 0
    capsys.readouterr()
    flags = ['--figure=2', f'--ratings={tmp_path}/scores/ratings.jsonl']
    assert report.main([*runs, *flags, f'--output={tmp_path}/report']) == 0
    text = (tmp_path / 'report' / 'report.md').read_text()
    assert '| generation (written) | 5.50 | 2.50 | 3.50 | 75.00 |' in text
    assert '| retrieval (chosen) | 3.25 | 2.50 | 3.50 | 25.00 |' in text
    assert (tmp_path / 'report' / 'figure2.png').is_file()
    assert report.main([runs[0], '--figure=2']) == 0
    assert '| retrieval (no run) | - | - | - | - |' in capsys.readouterr().out
    with pytest.raises(UserError, match='has no predictions of mrs_retrieval_de_de'):
        flags = ['--tasks=mrs_retrieval_de_de', f'--output={tmp_path}/other']
        annotate.main(['annotate', 'make', *make, *flags])
