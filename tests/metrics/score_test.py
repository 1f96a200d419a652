"""Outputs of any system, scored from files: as the official tools do it, and beside runs."""

import gzip
import json
import os
import pathlib
import subprocess
import sys
import threading
from concurrent import futures

import pytest
import rouge_score.rouge_scorer
import sacrebleu
import tiny_labels
import warm
import workdir_files

from xlbench import metrics, report, score
from xlbench.benchmarks import MRS
from xlbench.data import outputs, postprocess, prepared
from xlbench.reporting import documents, layout, results, sections as sections_lib
from xlbench.system import command_line
from xlbench.system.errors import UserError

PROJECT = pathlib.Path(__file__).parents[2]
TASK = 'mtg_qg_de_de'
REFERENCES = [
    'Der Zug fährt heute spät ab.', 'Wir gehen nach Hause.', 'Die Brücke ist wieder offen.', 'Ja.'
]  # fmt: skip
OTHERS = [
    'Der Zug kommt heute zu spät.', 'Wir laufen heim.', 'Die alte Brücke ist offen.', 'Ja, gern.'
]  # fmt: skip
PREDICTIONS = [
    'Der Zug kommt heute spät ab.', 'Wir laufen nach Hause.', '', 'Ja, gern.'
]  # fmt: skip


def write(path: pathlib.Path, *lines) -> str:
    rows = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text(''.join(f'{row}\n' for row in rows))
    return str(path)


def run(capsys, *arguments) -> str:
    assert score.main([str(a) for a in arguments]) == 0
    return capsys.readouterr().out


def result(workdir, task, split='test', step=0):
    folder = pathlib.Path(workdir) / 'eval' / str(step) / split / task
    lines = (folder / 'predictions.jsonl').read_text().splitlines()
    return json.loads((folder / 'metrics.json').read_text()), [json.loads(x) for x in lines]


@pytest.fixture
def texts(tmp_path):
    return [write(tmp_path / n, *t) for n, t in (('a.de', REFERENCES), ('b.de', OTHERS))]


def test_several_references_as_the_official_tools_have_them(texts, tmp_path, capsys):
    outputs = write(tmp_path / 'out.txt', *PREDICTIONS)
    workdir = tmp_path / 'other'
    out = run(
        capsys, outputs, f'--references={",".join(texts)}', '--lang=de', f'--workdir={workdir}'
    )
    found, lines = result(workdir, 'a')
    bleu = sacrebleu.metrics.BLEU(force=True).corpus_score(PREDICTIONS, [REFERENCES, OTHERS])
    assert found['scores']['bleu'] == pytest.approx(bleu.score, abs=1e-9) and bleu.score > 20
    chrf = sacrebleu.metrics.CHRF().corpus_score(PREDICTIONS, [REFERENCES, OTHERS])
    assert found['scores']['chrf'] == pytest.approx(chrf.score, abs=1e-9)
    rouge = metrics.MultilingualRouge('de')
    scorer = rouge_score.rouge_scorer.RougeScorer(
        ['rouge1', 'rouge2', 'rougeL'], tokenizer=rouge.tokenizer
    )
    for line, prediction, pair in zip(
        lines, PREDICTIONS, zip(REFERENCES, OTHERS, strict=True), strict=True
    ):
        expected = scorer.score_multi(list(pair), prediction)
        for name, kind in (('rouge_1', 'rouge1'), ('rouge_2', 'rouge2'), ('rouge_l', 'rougeL')):
            assert line['scores'][name] == pytest.approx(100 * expected[kind].fmeasure)
        assert line['references'] == list(pair) and line['prediction'] == prediction
    mean = sum(line['scores']['rouge_l'] for line in lines) / 4
    assert found['scores']['rouge_l'] == pytest.approx(mean) and f'{mean:.2f}' in out
    assert 'nrefs:2' in found['signatures']['SacreBleu']
    assert 'nrefs:2|refs:best-f1' in found['signatures']['MultilingualRouge']
    assert (found['num_examples'], found['data'], found['stage']) == (4, 'files', 'score')
    assert [entry['file'] for entry in found['references']] == texts
    # Examples with different numbers of references.
    some = [{'target': [a, b]} for a, b in zip(REFERENCES, OTHERS, strict=True)]
    some[1]['target'] = REFERENCES[1]
    path = write(tmp_path / 'some.jsonl', *some)
    run(capsys, outputs, f'--references={path}', '--metrics=sacrebleu', '--lang=de',
        f'--workdir={tmp_path / "some"}')  # fmt: skip
    second = [OTHERS[0], None, *OTHERS[2:]]
    bleu = sacrebleu.metrics.BLEU(force=True).corpus_score(PREDICTIONS, [REFERENCES, second])
    found, _ = result(tmp_path / 'some', 'some')
    assert found['scores'] == {'bleu': pytest.approx(bleu.score, abs=1e-9)}
    assert 'nrefs:var' in found['signatures']['SacreBleu']


def test_outputs_that_are_published_packed(tmp_path, capsys):
    """A backslash before a quote is a backslash: lines are no JSON."""
    for name, texts in (('out', ['er sagt \\"ja\\" .', 'nein']), ('gold', ['er sagt ja .', 'ja'])):
        (tmp_path / f'{name}.txt.gz').write_bytes(gzip.compress('\n'.join([*texts, '']).encode()))
    files = [str(tmp_path / 'out.txt.gz'), f'--references={tmp_path}/gold.txt.gz', '--lang=de']
    assert outputs.read_outputs(files[0]).n_best[0] == ['er sagt \\"ja\\" .']
    assert 'rouge_1                  50.00' in run(capsys, *files, '--metrics=multilingual_rouge')


def test_official_outputs(dev_data):
    for name, quotes in (('de', 572), ('de_da', 25), ('zh', 0), ('zh_da', 0)):
        path = dev_data / 'clidsum_outputs' / f'mdialbart_{name}.txt.gz'
        read = outputs.read_outputs(str(path))
        texts = [text for (text,) in read.n_best]
        assert len(texts) == 10_000 and all(texts)
        assert texts == gzip.decompress(path.read_bytes()).decode().split('\n')[:-1]
        assert sum('\\"' in text for text in texts) == quotes


def test_one_reference_is_what_an_evaluation_has(texts, tmp_path, capsys):
    outputs = write(tmp_path / 'out.txt', *PREDICTIONS)
    run(capsys, outputs, f'--references={texts[0]}', '--lang=de', f'--workdir={tmp_path / "one"}')
    found, lines = result(tmp_path / 'one', 'a')
    for metric in (metrics.MultilingualRouge('de'), metrics.SacreBleu(), metrics.Distinct()):
        expected = metric(REFERENCES, PREDICTIONS)
        assert expected.items() <= found['scores'].items()
        assert found['signatures'][type(metric).__name__] == metric.signature
    assert 'references' not in lines[0] and lines[0]['target'] == REFERENCES[0]
    assert run(capsys, outputs, f'--references={texts[0]}', '--metrics=chrf').startswith('chrf ')


def test_a_prepared_split_and_its_own_metrics(tiny_root, tmp_path, capsys):
    """Found in the data root, without naming the vocabulary."""
    task = prepared.open_task(str(tiny_root), 'sample', TASK, 'test')
    records = task.read(range(len(task)))
    targets = [record['targets_pretokenized'] for record in records]
    predictions = ['', *targets[1:-1], 'etwas anderes']
    outputs = write(tmp_path / 'out.txt', *predictions)
    workdir = tmp_path / 'system'
    run(capsys, outputs, f'--task={TASK}', f'--root={tiny_root}', f'--workdir={workdir}')
    found, lines = result(workdir, TASK)
    assert found['manifest'] == task.sha256 and found['data'] == task.manifest['data']
    for spec in task.manifest['metrics']:
        expected = metrics.from_spec(spec)(targets, predictions)
        assert expected.items() <= found['scores'].items()
    assert [line['input'] for line in lines] == [r['inputs_pretokenized'] for r in records]
    # What an evaluation has written: by ids, in whatever order.
    again = write(tmp_path / 'again.jsonl', *reversed(lines))
    run(capsys, again, f'--task={TASK}', f'--root={tiny_root}', f'--workdir={tmp_path / "again"}')
    assert result(tmp_path / 'again', TASK)[1] == lines
    first = write(tmp_path / 'first.txt', *predictions[:5])
    run(capsys, first, f'--task={TASK}', f'--root={tiny_root}', '--num_examples=5',
        f'--workdir={workdir}', '--split=test')  # fmt: skip
    assert result(workdir, TASK)[0]['num_examples'] == 5
    about = {'config': {'data': {'root': str(tiny_root), 'vocabulary': 'sample', 'sample': False}}}
    (tmp_path / 'run').mkdir()
    write(tmp_path / 'run' / 'config.json', about)
    run(capsys, outputs, f'--task={TASK}', f'--like={tmp_path / "run"}')
    # A relative root starts where the run was begun.
    data = about['config']['data'] | {'root': tiny_root.name}
    about = {'config': {'data': data}, 'cwd': str(tiny_root.parent)}
    write(tmp_path / 'run' / 'config.json', about)
    run(capsys, outputs, f'--task={TASK}', f'--like={tmp_path / "run"}')
    with pytest.raises(UserError, match=r'mtg_qg_de_de/dev is not prepared in .*; name a vocabul'):
        run(capsys, outputs, f'--task={TASK}', f'--root={tiny_root}', '--split=dev')


def test_n_best_lists(texts, tmp_path, capsys):
    """As predict writes them; an example may have none."""
    pairs = [(1, 'Der Zug'), (1, 'Der Zug fährt'), (3, ''), (3, 'Die Brücke ist offen.')]
    lines = write(tmp_path / 'out.txt', *(f'{n}\t{t}' for n, t in pairs))
    scored = write(tmp_path / 'scored.txt', *(f'{n}\t-0.5\t{t}' for n, t in pairs))
    rows = [[t for n, t in pairs if n == i] for i in range(1, 5)]
    records = write(
        tmp_path / 'out.jsonl', *({'predictions': [{'prediction': t} for t in row]} for row in rows)
    )
    expected = metrics.MrsRouge('de')(REFERENCES, rows)
    options = (f'--references={texts[0]}', '--lang=de', '--metrics=mrs_rouge,chrf')
    for i, (path, flags) in enumerate(
        ((lines, ['--n_best']), (scored, ['--n_best', '--scores']), (records, []))
    ):
        out = run(capsys, path, *options, *flags, f'--workdir={tmp_path / str(i)}')
        assert '2 of 4 examples have no prediction' in out
        found, written = result(tmp_path / str(i), 'a')
        assert expected.items() <= found['scores'].items() and expected['mrs_rouge'] > 0
        assert found['scores']['chrf'] == metrics.ChrF()(
            REFERENCES, ['Der Zug', '', '', '']
        )['chrf']  # fmt: skip
        assert written[0]['n_best'][1] == {'prediction': 'Der Zug fährt'}


def test_tags(tmp_path, capsys):
    gold, tags = ['NOUN VERB', 'X'], ['NOUN NOUN', 'X']
    expected = metrics.ChunkF1()(gold, tags) | metrics.TagAccuracy()(gold, tags)
    reference = write(tmp_path / 'gold.conll', 'a\tNOUN', 'b\tVERB', '', 'c\tX')
    outputs = [
        write(tmp_path / 'out.conll', 'a\tNOUN', 'b\tNOUN', '', 'c\tX'),
        write(tmp_path / 'out.jsonl', *({'prediction': row.split()} for row in tags)),
        write(tmp_path / 'out.txt', *tags),
    ]
    for i, path in enumerate(outputs):
        run(capsys, path, f'--references={reference}', f'--workdir={tmp_path / str(i)}')
        assert result(tmp_path / str(i), 'gold')[0]['scores'] == pytest.approx(expected)
    root = tmp_path / 'root'
    rows = tiny_labels.records('tagging', tiny_labels.TASKS['tagging'][0], 'test')
    task = tiny_labels.write_task(root, 'tagging', tiny_labels.TASKS['tagging'][0], 'test', rows)
    lists = [{'prediction': row['targets_pretokenized'].split()} for row in rows]
    path = write(tmp_path / 'right.jsonl', *lists)
    assert 'tag_accuracy             100.00' in run(
        capsys, path, f'--task={task.name}', f'--root={root}'
    )


def test_a_declared_task_scores_files_without_its_data(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gold = ['Anna kauft ein Haus.', 'Ben geht nach Hause.']
    said = ['anna kaufte häuser', 'Ben geht nach Hause']
    refs, outputs = write(tmp_path / 'gold.txt', *gold), write(tmp_path / 'out.txt', *said)
    task = '--task=clidsum_xmediasum40k_en_de'
    run(capsys, outputs, f'--references={refs}', task, '--workdir=theirs')
    content, _ = result('theirs', 'clidsum_xmediasum40k_en_de')
    assert 'stem:snowball-german' in ' '.join(content['signatures'].values())
    # By their stems, "kaufte" and "kauft" are one word.
    assert content['scores']['rouge_1'] > 60
    generic = run(capsys, outputs, f'--references={refs}', '--task=clidsum_other', '--lang=de')
    assert 'chrf ' in generic and 'chrf' not in content['scores']
    assert run(capsys, outputs, f'--references={refs}', task, '--metrics=chrf').startswith('chrf ')


def test_a_benchmark_scores_files_with_all_scores_of_its_tables(tmp_path, capsys, monkeypatch):
    """As its first task of the language declares, and with BERTScore, whose model is missing."""
    line = 'task x: BERTScore needs a model: hf download it'
    monkeypatch.setattr(metrics.BertScore, 'missing', lambda self: [line])
    gold = write(tmp_path / 'gold.txt', '今天天气好', '我们回家')
    outputs, flags = write(tmp_path / 'out.txt', '今天天气', '我们'), [f'--references={gold}']
    assert score.main([outputs, *flags, '--benchmark=clidsum', '--lang=zh']) == 0
    said = capsys.readouterr()
    assert 'tok:jieba' in said.out and 'bleu ' in said.out and 'chrf ' not in said.out
    assert f'without bertscore_clidsum: {line}' in said.err
    monkeypatch.setattr(metrics.BertScore, 'missing', lambda self: [])
    monkeypatch.setattr(metrics.BertScore, 'with_examples', lambda s, t, p: ({'f': 1.0}, [{}] * 2))
    assert 'f ' in run(capsys, outputs, *flags, '--benchmark=clidsum', '--lang=zh')
    for more, words in (
        ([*flags, '--benchmark=clidsum'], 'needs --lang, one of en, de, zh'),
        ([*flags, '--benchmark=fewshot', '--lang=de'], 'not score all its tasks alike'),
        ([*flags, '--benchmark=clidsun'], "unknown benchmark 'clidsun'"),
        ([*flags, '--benchmark=clidsum', '--metrics=chrf'], 'leave out one of them'),
        (['--benchmark=clidsum', '--lang=zh'], 'name the references'),
    ):
        with pytest.raises(UserError, match=words):
            score.main([outputs, *more])


def test_rouge_as_the_official_command_writes_it(texts, tmp_path, capsys):
    outputs = write(tmp_path / 'out.txt', *PREDICTIONS)
    flags = [f'--references={texts[0]}', '--lang=de', '--metrics=multilingual_rouge']
    both = [f'--rouge_csv={tmp_path}/a.csv', f'--rouge_examples={tmp_path}/b.csv']
    out = run(capsys, outputs, *flags, *both)
    assert out.count('wrote ') == 2 and run(capsys, outputs, *flags, *both) == out
    low, mid, high = map(float, (tmp_path / 'a.csv').read_text().splitlines()[3].split(',')[1:])
    assert 0 < low < mid < high < 1  # rouge1-F
    assert (tmp_path / 'b.csv').read_text().startswith('id,rouge1-P,rouge1-R,rouge1-F,rouge2-P')
    with pytest.raises(UserError, match='are of multilingual_rouge'):
        score.main([outputs, *flags[:2], '--metrics=chrf', both[0]])
    (tmp_path / 'a.csv').write_text('mine\n')
    with pytest.raises(UserError, match=r'a\.csv'):
        score.main([outputs, *flags, both[0]])


def test_files_of_mrs_have_all_in_columns(tmp_path, capsys):
    lines = ['hi\tsee you later\tbye\tsee you\tlater', 'Was?\tgut\t\tgut', '\ta b\ta b\tc']
    path = write(tmp_path / 'de_model_responses.txt', *lines)
    out = run(capsys, path, '--format=mrs', '--lang=de', f'--workdir={tmp_path / "w"}')
    found, written = result(tmp_path / 'w', 'de_model_responses')
    # The empty message of the last line is stripped, and so "a b" is its message and its reference.
    rows = [('see you later', ['bye', 'see you', 'later']), ('gut', ['', 'gut']), ('a b', ['c'])]
    expected = metrics.MrsRouge('de')([row[0] for row in rows], [row[1] for row in rows])
    assert found['scores'] == pytest.approx(expected) and 'mrs_rouge ' in out
    assert [(line['input'], line['target']) for line in written] == [
        ('hi', 'see you later'), ('Was?', 'gut'), ('a b', 'a b')
    ]  # fmt: skip
    with pytest.raises(UserError, match=':1: no TAB'):
        score.main([write(tmp_path / 'x.txt', 'hi'), '--format=mrs', '--lang=de'])
    with pytest.raises(UserError, match='in the same file'):
        score.main([path, '--format=mrs', '--lang=de', f'--references={path}'])


def test_reports_show_it_beside_runs(tmp_path, capsys):
    run_folder = workdir_files.write_workdir(
        tmp_path / 'run', lambda step, task: 50.0, data='files'
    )
    for seed in (0, 1):
        for lang in ('de', 'en', 'fr', 'es'):
            refs = write(tmp_path / f'refs.{lang}', *REFERENCES)
            outputs = write(tmp_path / f'out.{lang}', *REFERENCES[:2], 'x' * seed, 'y')
            place = [f'--workdir={tmp_path / f"seed{seed}"}', f'--seed={seed}', '--system=Other']
            run(
                capsys, outputs, f'--references={refs}', f'--task=mtg_qg_{lang}_{lang}',
                '--metrics=multilingual_rouge,sacrebleu,chrf,distinct', *place,
            )  # fmt: skip
    folders = [run_folder, tmp_path / 'seed0', tmp_path / 'seed1']
    (section,) = sections_lib.sections([results.read_run(folder) for folder in folders])
    rows = {s.name: s.cell('rouge_l', section.columns[0].tasks) for s in section.systems}
    assert {'run', 'Other (2 seeds)', 'copy_input'} <= set(rows)
    assert rows['Other (2 seeds)'].value == pytest.approx(50.0)
    report.main([*map(str, folders), f'--output={tmp_path / "report"}'])
    assert 'Other (2 seeds)' in (tmp_path / 'report' / 'report.md').read_text()
    assert 'Other' in layout.screen(str(tmp_path / 'seed0'))


def test_a_system_without_a_model_joins_the_tables_of_all_models(tmp_path, capsys):
    """Where settings are columns, sections are about one model each."""
    scenario = MRS.scenario('mono', 'generation', 'de')
    folders = []
    for model in ('mt5', 'mbart'):
        stages = {'stage1': {'mixture': scenario.mixture}}
        info = {'config': {'model': {'family': model}, 'stages': stages}}
        folders.append(
            workdir_files.write_workdir(
                tmp_path / model, lambda *_: 5.0, data='files', mixture=scenario.mixture,
                tasks=scenario.evaluate, baselines=False, info=info,
            )
        )  # fmt: skip
        for path in folders[-1].glob('eval/*/*/*/metrics.json'):
            content = json.loads(path.read_text())
            path.write_text(json.dumps(content | {'scores': {'mrs_rouge': 5.0}}))
    refs = write(tmp_path / 'refs.txt', *REFERENCES)
    run(capsys, refs, f'--references={refs}', f'--task={scenario.evaluate[0]}',
        '--metrics=mrs_rouge', f'--workdir={tmp_path / "human"}')  # fmt: skip
    human = results.read_run(tmp_path / 'human')
    runs = [results.read_run(folder) for folder in folders]
    sections = sections_lib.sections([*runs, human])
    assert [section.model for section in sections] == ['mt5', 'mbart']
    assert all('human' in [s.name for s in section.systems] for section in sections)
    (alone,) = sections_lib.sections([human])
    assert [s.name for s in alone.systems] == ['human'] and not alone.title.endswith(', ')
    assert 'human, mt5' not in documents.comma_separated(sections)


def test_numbers_of_an_evaluation_stand_for_records_with_ids(tmp_path, capsys):
    rows = [{'id': i, 'target': t} for i, t in zip('abcd', REFERENCES, strict=True)]
    gold = write(tmp_path / 'gold.jsonl', *rows)
    numbered = [{'id': i, 'prediction': t} for i, t in enumerate(REFERENCES)]
    flags = (f'--references={gold}', '--lang=de', '--metrics=chrf')
    outputs = write(tmp_path / 'predictions.jsonl', *reversed(numbered))
    assert '100.00' in run(capsys, outputs, *flags)
    short = write(tmp_path / 'short.jsonl', *numbered[:3])
    with pytest.raises(UserError, match=r"ids that are not in .*: '0', '1', '2'"):
        score.main([str(short), *map(str, flags)])


def test_mistakes(texts, tmp_path, capsys):
    outputs = write(tmp_path / 'out.txt', *PREDICTIONS)
    ids = [{'id': i, 'target': t} for i, t in zip('abcd', REFERENCES, strict=True)]
    gold = write(tmp_path / 'gold.jsonl', *ids)

    def records(*names, file='in.jsonl'):
        rows = [{'id': n, 'prediction': 'x'} if n else {'prediction': 'x'} for n in names]
        return write(tmp_path / file, *rows)

    twice = records(*'abca', file='5.jsonl')
    short = write(tmp_path / 'short.txt', *PREDICTIONS[:3])
    run_folder = workdir_files.write_workdir(tmp_path / 'run', lambda *_: 1.0)
    mixed = (f'--references={texts[0]}', '--lang=de')
    for arguments, message in (
        ((short, *mixed), r'short.txt has 3 predictions, and .*a.de has 4 examples'),
        ((outputs, f'--references={texts[0]},{short}', '--lang=de'), 'short.txt has 3 references'),
        ((outputs, f'--references={texts[0]}'), 'has to know the language of the texts: set --lan'),
        ((outputs, *mixed, '--metrics=rouge'), "unknown metric 'rouge'; "),
        ((outputs, f'--references={",".join(texts)}', '--lang=de', '--metrics=mrs_rouge'),
         'MrsRouge compares with one reference, and .* has up to 2; leave it out'),
        ((records(*'abca', file='1.jsonl'), f'--references={gold}', '--metrics=chrf'),
         "1.jsonl:4: id 'a' is on line 1 already; --id_field= leaves ids out and takes"),
        ((outputs, f'--references={twice}', '--reference_field=prediction'),
         "5.jsonl:4: id 'a' is on line 1 already"),
        ((records('', 'b', 'c', file='6.jsonl'), f'--references={gold}'),
         '6.jsonl:1: id is missing; it is a text'),
        ((records(*'abcx', file='2.jsonl'), f'--references={gold}', '--metrics=chrf'),
         "that are not in .*: 'x'"),
        ((records(*'abc', file='3.jsonl'), f'--references={gold}', '--metrics=chrf'),
         "that are missing: 'd'"),
        ((records('a', '', 'c', file='4.jsonl'), f'--references={gold}'),
         '4.jsonl:2: id is missing; it is a text'),
        ((records(*'ab'), *mixed, '--field=text'),
         "in.jsonl:1: unknown field 'text'; .*Set --fiel"),
        ((outputs,), 'name the references: --task=NAME of a prepared task, or --references=FILE'),
        ((outputs, *mixed, '--n_best'), 'out.txt:1: the line does not begin with a number'),
        ((outputs, *mixed, '--field=x'), '--field is for jsonl, and .* is read as text'),
        ((outputs, *mixed, f'--workdir={run_folder}'), 'is the workdir of a run; name another'),
        ((outputs, *mixed, f'--workdir={tmp_path}'), 'exists and holds no scores of xlbench'),
        ((outputs, *mixed, '--num_examples=9'), '--num_examples=9; .* has 4 examples'),
        ((outputs, '--references=,'), 'name the references: --task=NAME'),
        ((tmp_path / 'none.txt', *mixed), 'there is no file .*none.txt'),
        ((outputs, '--references=none.de', '--lang=de'), 'there is no file none.de'),
        ((write(tmp_path / 'b.jsonl', '{"prediction": null}'), *mixed),
         'b.jsonl:1: prediction is No'),
        ((write(tmp_path / 'd.jsonl', '[' * 5000), *mixed), 'd.jsonl:1'),
        ((outputs, *mixed, '--task=../x'), "task '../x' is not a plain name"),
        ((outputs, '--task=a', '--split=../x'), "split '../x' is not a plain name"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=message) as error:
            run(capsys, *arguments)
        assert '\n' not in str(error.value)
    run(capsys, outputs, *mixed, f'--workdir={tmp_path / "mine"}')
    with pytest.raises(UserError, match="has the scores of system 'mine' with seed 0, and this is"):
        run(capsys, outputs, *mixed, f'--workdir={tmp_path / "mine"}', '--seed=1')


def test_it_needs_neither_jax_nor_tensorflow(texts, tiny_root, tmp_path):
    """Also: a slip is one line."""
    outputs = write(tmp_path / 'out.txt', *PREDICTIONS)
    program = (
        'import sys\nfrom xlbench import score; from xlbench.system import errors\n'
        'code = errors.run_main(score.main, sys.argv[1:4])\n'
        'code += errors.run_main(score.main, sys.argv[4:])\n'
        "assert not {'tensorflow', 'seqio', 'jax'} & set(sys.modules)\nsys.exit(code)"
    )
    first = [outputs, f'--references={texts[0]}', '--metrics=chrf']
    second = [outputs, f'--task={TASK}', f'--root={tiny_root}', f'--workdir={tmp_path / "x"}']
    child = subprocess.run(
        [sys.executable, '-c', program, *first, *second],
        cwd=PROJECT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert child.returncode == 2 and child.stdout.startswith('chrf ')
    assert child.stderr.splitlines() == [
        f'error: {outputs} has 4 predictions, and {TASK}/test has 33 examples; there must be one '
        'for each, in the same order (empty lines count)'
    ]


def test_a_reader_that_has_enough_ends_it_without_a_trace(texts, tmp_path):
    outputs = write(tmp_path / 'out.txt', *PREDICTIONS)
    command = [warm.python(), '-m', 'xlbench.score', outputs, f'--references={texts[0]}']
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with subprocess.Popen([*command, '--metrics=chrf'], cwd=PROJECT, **pipes) as child:
        child.stdout.close()
        assert (child.stderr.read(), child.wait()) == (b'', 1)


def test_a_function_of_ones_own(texts, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv('XLBENCH_TASKS', str(tmp_path))
    (tmp_path / 'lengths.py').write_text(
        'def length(targets, predictions):\n'
        "    return {'length': sum(map(len, predictions)) / len(predictions)}\n"
    )
    outputs = write(tmp_path / 'out.txt', *PREDICTIONS)
    out = run(capsys, outputs, f'--references={texts[0]}', '--metrics=tasks/lengths.py:length')
    assert f'length{" " * 19}{sum(map(len, PREDICTIONS)) / 4:.2f}' in out
    with pytest.raises(UserError, match='length compares with one reference, and'):
        several = f'--references={",".join(texts)}'
        run(capsys, outputs, several, '--metrics=tasks/lengths.py:length')


def test_what_a_postprocessor_makes_of_texts_is_scored(tiny_root, tmp_path, capsys, monkeypatch):
    open_task = prepared.open_task

    def with_one(*args):
        found = open_task(*args)
        return prepared.Prepared(found.folder, found.manifest | {'postprocessor': True})

    def upper(text, example, is_target):
        assert isinstance(example['inputs_pretokenized'], bytes)
        return text.upper() if is_target else text.replace('ß', 'SS').upper()

    monkeypatch.setattr(prepared, 'open_task', with_one)
    monkeypatch.setattr(postprocess, '_of_task', lambda name: upper)
    targets = [r['targets_pretokenized'] for r in open_task(str(tiny_root), 'sample', TASK, 'test')]
    outputs = write(tmp_path / 'out.txt', *(text.lower() for text in targets))
    options = (f'--task={TASK}', f'--root={tiny_root}', '--metrics=chrf')
    assert run(capsys, outputs, *options).startswith(f'chrf{" " * 21}100.00')
    monkeypatch.setattr(prepared, 'open_task', open_task)
    expected = metrics.ChrF()(targets, [text.lower() for text in targets])['chrf']
    assert f'{expected:.2f}' in run(capsys, outputs, *options) and expected < 100


def test_references_that_are_all_alike_are_pointed_out(tmp_path, capsys):
    """A hidden test set has one label in place of all."""
    outputs = write(tmp_path / 'out.txt', *['a'] * 2, 'b')
    for labels, said in ((['b'] * 3, True), (['b', 'b', 'a'], False)):
        path = write(tmp_path / f'{said}.txt', *labels)
        workdir = tmp_path / f'{said}'
        arguments = (f'--references={path}', '--metrics=classification', f'--workdir={workdir}')
        out = run(capsys, outputs, *arguments)
        found, _ = result(workdir, f'{said}')
        note = "all 3 examples have the target 'b'; it may stand for labels that are not published"
        assert (note in out) == (note in found.get('note', '')) == said


def test_tasks_that_are_scored_at_once_are_all_noted(tmp_path, capsys, monkeypatch):
    """A system's folder has one config.json, which every scoring reads and writes."""
    # Python 3.11 parses code in one thread at a time only (python/cpython#106905).
    doc = command_line.about('xlbench.score')
    monkeypatch.setattr(command_line, 'about', lambda module: doc)
    texts = write(tmp_path / 'x.txt', 'ein Haus')
    tasks = [f'task{number}' for number in range(6)]
    together = threading.Barrier(len(tasks))

    def score_one(task):
        together.wait()
        flags = [f'--references={texts}', '--metrics=chrf', f'--task={task}']
        score.main([texts, *flags, f'--workdir={tmp_path / "system"}'])

    with futures.ThreadPoolExecutor(len(tasks)) as threads:
        list(threads.map(score_one, tasks))
    scored = json.loads((tmp_path / 'system' / 'config.json').read_text())['scored']
    assert sorted(scored) == [f'{task}/test' for task in tasks]
    assert sorted(os.listdir(tmp_path / 'system')) == ['config.json', 'eval']
