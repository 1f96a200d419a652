"""Tables in the form of the papers: heads and labels typed by hand from the papers."""

import csv
import io
import itertools
import re
import shutil
import subprocess

import pytest
import tiny_sweep
import workdir_files
from report_sections import cells_of

from xlbench import report
from xlbench.benchmarks import BENCHMARKS, RECIPES, recipe as recipe_lib
from xlbench.reporting import render
from xlbench.reporting.paper_tables import making
from xlbench.reporting.tables import Cell, Column, Row, Table
from xlbench.reproduce import __main__ as reproduce, outcome

NUMBERS = [
    (name, table.number)
    for name, recipe in RECIPES.items()
    for table in recipe.tables
    if table.printed and table.rows
]

TRANSLATORS = ['Trans-WMT', 'OPUS-MT', 'Google Trans.']
ROUGES = 'R1 / R2 / R-L / B-S'
CORPORA = ['XSAMSum En⇒De', 'XSAMSum En⇒Zh', 'XMediaSum40k En⇒De', 'XMediaSum40k En⇒Zh']
MODELS = ['M-BERT', 'XLM', 'mBART', 'mT5']
RATINGS = ['Gram.', 'Flu.', 'Rel.']
SETTINGS = ['Mono', 'Multi', 'Mono-M', 'Multi-M', 'Cross', 'Zero']
MTG_HEAD = [
    ['', '', '', *['N-gram-based'] * 3, *['Embedding-based'] * 2, 'Others', 'Ours'],
    ['Task', 'Model', 'Language', 'BLEU', 'ROUGE-L', 'METEOR', 'BERTScore', 'BLEURT', 'Distant-1',
     'Ensemble'],
]  # fmt: skip


def table_of(name, number):
    (table,) = making.of_paper(BENCHMARKS[name], number)
    return table


def rows_of(languages, *before):
    return [[*before, lang] for lang in languages.split()]


def numbered(name, numbers):
    return [(name, number) for number in numbers.split()]


def product(*parts):
    return list(map(list, itertools.product(*parts)))


def mtg_labels(*pairs):
    return product(['SG', 'QG', 'TG'], MODELS, pairs)


def rated(*settings):
    return product(settings, MODELS)


def replies(*settings, dist):
    names = ['ROUGE', f'{dist}1', f'{dist}2']
    return [['', *[s for s in settings for _ in names]], ['', *names * len(settings)]]


REPLY_LANGUAGES = rows_of('en es de pt fr ja it sv nl ru')
FORTY = (
    'AF AR BG BN DE EL ES ET EU FA FI FR HE HI HU ID IT JA JV KA KK KO ML MR MS MY NL PT RU SW TA '
    'TE TH TL TR UR VI YO ZH'
)
HALVES = [['', 'MLDoc', 'MLDoc', 'PAWSX', 'PAWSX', '', 'POS', 'POS', 'NER', 'NER'],
          ['', 'K=1', 'K=8', 'K=1', 'K=8', '', 'K=1', 'K=4', 'K=1', 'K=4']]  # fmt: skip
SUMMARISERS = ['PEGASUS', 'T5', 'BART', 'mBART', 'MV-BART', 'BART(D_ALL)']
ALL_SYSTEMS = [
    *itertools.product(SUMMARISERS, TRANSLATORS), *((t, 'mBART') for t in TRANSLATORS),
    ('mBART', ''), ('+DA †', ''), ('mDialBART (our) †', ''), ('+DA †', ''),
]  # fmt: skip
COMBINED = (
    'mBART +AcI +UP +MDS +MT +AcI+UP +AcI+MDS +AcI+MT +UP+MDS +UP+MT +MDS+MT +AcI+UP+MDS '
    '+AcI+UP+MT +AcI+MDS+MT +UP+MDS+MT mDialBART'
)

# (benchmark, table): its lines of heads, and the labels of its rows.
PAPERS = {
    ('mtg', '3'): (
        [['Human score', 'AdaBoost', 'Bagging', 'DecisionTree', 'ExtraTree', 'GradientBoosting',
          'Kneighbors', 'Linear', 'RandomForest', 'SVR']],
        rows_of('Grammar Fluency Logical Avg'),
    ),
    ('mtg', '4'): (
        [['Setting', 'Model', 'BLEU', 'R-1', 'R-2', 'R-L', 'METEOR', 'BERTScore', 'D-1', 'D-2',
          'Ensemble']],
        rated('SG', 'QG', 'TG'),
    ),
    ('mtg', '5'): ([['Setting', 'Model', *RATINGS]], rated('Mono', 'Multi', 'Cross', 'Zero')),
    ('mtg', '6'): ([['Threshold', 'QG', 'TG', 'SG']], rows_of('0 0.3 0.4 0.5 0.6')),
    ('mtg', '7'): ([['', *SETTINGS]], rows_of('stage1 stage2 p-value')),
    **dict.fromkeys(numbered('mtg', '8 9 10'), (
        [['Setting', 'Model', *RATINGS]], rated(*SETTINGS)
    )),
    **dict.fromkeys(numbered('mtg', '11 12 13 14'), (
        MTG_HEAD, mtg_labels('en->en', 'de->de', 'fr->fr', 'es->es')
    )),
    ('mtg', '15'): (MTG_HEAD, mtg_labels('en->de', 'en->fr', 'en->es')),
    ('mtg', '16'): (MTG_HEAD, mtg_labels('de->en', 'de->fr', 'de->es')),
    ('mtg', '17'): (MTG_HEAD, mtg_labels('fr->en', 'fr->de', 'fr->es')),
    ('mtg', '18'): (MTG_HEAD, mtg_labels('es->en', 'es->de', 'es->fr')),
    ('mtg', '19'): (MTG_HEAD, mtg_labels('en->de', 'en->fr', 'en->es')),
    **dict.fromkeys(numbered('mrs', '3 5'), (
        replies('Monolingual', 'Zero-Shot', 'MT', 'Multilingual', dist='Dist-'), REPLY_LANGUAGES
    )),
    ('mrs', '4'): (replies('Monolingual', 'MT', 'Multilingual', dist='Dist'), REPLY_LANGUAGES),
    ('clidsum', '3'): (
        [['', '', '', *CORPORA], ['#', '', '', *[ROUGES] * 4]],
        [[str(n), *row] for n, row in enumerate(ALL_SYSTEMS, 1)],
    ),
    ('clidsum', '4'): (
        [['', *['En⇒De'] * 2, *['En⇒Zh'] * 2], ['Methods', *['BLEU ↑', 'TER ↓'] * 2]],
        [[name] for name in TRANSLATORS],
    ),
    ('clidsum', '5'): (
        [['', 'En⇒De', 'En⇒Zh'], ['Model', ROUGES, ROUGES]],
        [['mBART'], ['w/ AcI'], ['w/ UP'], ['w/ MDS'], ['w/ MT'], ['mDialBART']],
    ),
    ('clidsum', '6'): (
        [['Model', 'Gram.', 'Info.', 'Conci.']],
        rows_of('BART(D_ALL)+Google Google+mBART mBART mDialBART'),
    ),
    ('clidsum', '7'): (
        [['', '', 'En⇒De', 'En⇒Zh'], ['#', 'Model', ROUGES, ROUGES]],
        [[str(n), name] for n, name in enumerate(COMBINED.split(), 1)],
    ),
    ('fewshot', '1'): (
        [['Name', 'Metric', 'Task', '|T|', 'TS', '# of lang.']],
        rows_of('XNLI PAWSX MLDoc MARC POS NER'),
    ),
    ('fewshot', '2'): (
        [['', '', 'K=0', 'K=1', 'K=2', 'K=4', 'K=8']],
        [*rows_of('en de fr es it ru zh ja', 'MLDoc'), *rows_of('en de fr es zh ja', 'MARC'),
         *rows_of('en de fr es ru zh ar bg el hi sw th tr ur vi', 'XNLI'),
         *rows_of('en de fr es zh ja ko', 'PAWSX')],
    ),
    ('fewshot', '3'): (
        [['Task', 'Factor', 'S', 'P']],
        product(['NER', 'POS'], ['lexical overlap', '# of common linguistic features']),
    ),
    ('fewshot', '4'): (HALVES, rows_of('de fr es it ru zh ja ko')),
    ('fewshot', '5'): ([['token', '[SEP]', '.', 'nicht', '!', 'Die', 'sehr']], [['Attn']]),
    ('fewshot', '6'): (
        [['', *['Full-Model Finetuning'] * 3, *['FC only'] * 2, *['FC + Pooler'] * 2,
          *['COS + Pooler'] * 2, *['FC (reset) + Pooler'] * 2],
         ['', 'K=0', *['K=1', 'K=8'] * 5]],
        rows_of('de fr es zh ja'),
    ),
    ('fewshot', '7'): ([['MLDoc', 'MARC', 'XNLI', 'PAWSX', 'POS', 'NER']], [[], []]),
    ('fewshot', '11'): (HALVES, rows_of('DE FR ES IT RU ZH JA KO')),
    ('fewshot', '12'): (
        [['', 'K=0', 'K=1', 'K=2', 'K=4']],
        rows_of(
            'EN AF AR BG DE EL ES ET EU FA FI FR HE HI HU ID IT JA KO MR NL PT RU TA TE TR UR VI ZH'
        ),
    ),
    ('fewshot', '13'): ([['', 'K=0', 'K=1', 'K=2', 'K=4']], rows_of(f'EN {FORTY}')),
    ('fewshot', '14'): (
        [['', *['NER'] * 3, *['POS'] * 3], ['', *['K=1', 'K=2', 'K=4'] * 2]], rows_of(FORTY)
    ),
}  # fmt: skip


def test_every_table_with_printed_scores_has_its_form():
    """Table 10 of few-shot transfer is printed without any head."""
    assert set(PAPERS) | {('fewshot', '10')} == set(NUMBERS)


@pytest.mark.parametrize(('name', 'number'), PAPERS)
def test_heads_and_labels_are_the_papers(name, number):
    """Cell by cell, in the three formats."""
    heads, labels = PAPERS[name, number]
    table = table_of(name, number)
    width = len(labels[0])
    grid = list(csv.reader(io.StringIO(render.table_csv(table))))
    grid = [[re.sub(r"^'", '', cell) for cell in row] for row in grid]
    assert grid[: len(heads)] == heads
    assert [row[:width] for row in grid[len(heads) :]] == labels
    marked = [
        [re.sub(r'\\(.)', r'\1', cell) for cell in re.split(r' (?<!\\)\| ', line[2:-2])]
        for line in render.markdown(table).splitlines()
        if line.startswith('|')
    ]
    marked = [row for row in marked if row[0][:1] != '*']
    assert marked[0] == [' '.join(filter(None, column)) for column in zip(*heads, strict=True)]
    rows = [row[:width] for row in marked[2:]]
    for mine, theirs in zip(rows, labels, strict=True):  # A repeated label stands once.
        assert all(cell in ('', label) for cell, label in zip(mine, theirs, strict=True))
    tex = render.latex(table)
    assert f'\\label{{tab:{name}-table-{number}}}' in tex
    for text in {cell for row in (*heads, *labels) for cell in row if cell.isalnum()}:
        assert text in tex


def test_labels_span_their_rows():
    assert r'\multirow{16}{*}{SG} & \multirow{4}{*}{M-BERT} & en-' in render.latex(
        table_of('mtg', '14')
    )
    systems = render.latex(table_of('clidsum', '3'))
    assert r' 1 & \multirow{3}{*}{PEGASUS} & Trans-WMT & 37.8 / 13.2 / 30.6 / 70.7' in systems
    assert r'    2 &  & OPUS-MT & 41.5' in systems
    assert '| 2 |  | OPUS-MT |' in render.markdown(table_of('clidsum', '3'))


def test_numbers_are_printed_as_the_papers_print_them():
    replies_of = render.table_csv(table_of('mrs', '4')).splitlines()
    assert replies_of[2] == 'en,.0543,.0341,.161,,,,.0412,.0352,.175'
    languages = render.markdown(table_of('fewshot', '2'))
    assert '|  | de | 88.30 | 90.36 ±1.48 | 90.77 ±0.87 | 91.85 ±0.83 | 91.98 ±0.82 |' in languages
    judged = render.markdown(table_of('clidsum', '6'))
    assert '| Google+mBART | -0.254 | -0.126 | -0.343 |' in judged
    assert '0.37, 0.26, 0.43' in judged
    halves = render.table_csv(table_of('fewshot', '11')).splitlines()
    assert halves[-1] == 'KO,,,53.92 ±0.78,53.63 ±0.99,,,,,'
    assert halves[2].startswith('DE,52.63 ±8.98,84.31 ±3.60,53.03 ±1.67,53.41 ±1.47,RU,73.18')
    said = render.latex_text('-0.2, en-de: 3-4, K-5, --6, a (-.5 to -1)')
    assert said == '$-$0.2, en-de: 3-4, K-5, --6, a ($-$.5 to $-$1)'


def test_a_table_of_another_form_is_written_by_the_same_functions():
    ours = Row('x_1', 'run', (Cell(1.5), Cell(2.5, best=True)))
    rows = (ours, Row('y', 'paper', (Cell(), Cell())))
    table = Table('T', (Column('g', 'a'), Column('g', 'b')), rows, notes=('Said.',))
    assert render.table_csv(table) == ',g,g\nsystem,a,b\nx_1,1.5,2.5\ny,,\n'
    assert '| x_1 | 1.5 | **2.5** |' in render.markdown(table)
    tex = render.FORMATS['latex'][1]([table, Table('U', missing='no run')])
    assert r'x\_1 & 1.5 & \textbf{2.5} \\' in tex and r'\caption{T. Said.}' in tex
    assert tex.count('begin{table}') == 1 and tex.count(r'\midrule') == 2
    assert render.table_csv(Table('U', missing='no run')) == ''


def test_latex_of_every_table_compiles(tmp_path):
    if not shutil.which('pdflatex'):
        pytest.skip('pdflatex is not installed')
    parts = [render.latex_document([render.latex(table_of(*place))]) for place in NUMBERS]
    head = r'\documentclass{article}\usepackage{booktabs,multirow}\begin{document}'
    text = '\n'.join([head, *(part + r'\clearpage' for part in parts), r'\end{document}'])
    (tmp_path / 'all.tex').write_text(text, encoding='utf-8')
    command = ['pdflatex', '-interaction=nonstopmode', '-halt-on-error', 'all.tex']
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / 'all.pdf').stat().st_size > 10_000


def test_printed_tables_write_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert reproduce.main(['clidsum', '--table=4', '--paper', '--format=latex']) == 0
    assert r'Google Trans. & 40.4 & 47.9 & 47.8 & 44.4 \\' in capsys.readouterr().out
    assert reproduce.main(['mtg', '--table=all', '--paper', '--format=csv']) == 0
    assert capsys.readouterr().out.count('METEOR') == 10
    assert reproduce.main(['clidsum', '--table=5,4,5', '--paper']) == 0
    assert re.findall('### Table (.):', capsys.readouterr().out) == ['5', '4']
    assert not list(tmp_path.iterdir())


# ----------------------------------------------------------------------------- from our own runs


def shown_of(name, number, made, folder):
    """The table that runs fill."""
    (table,) = (one for one in RECIPES[name].tables if one.name == f'table {number}')
    (filled,), _ = outcome.shown(RECIPES[name], table, made, folder)
    return filled


def write_run(path, scores, task, mixture=''):
    """A made-up workdir whose only result has these scores."""
    folder = workdir_files.write_workdir(
        path, lambda step, task: 20.0, tasks=[task], mixture=mixture or task, baselines=False
    )
    shutil.rmtree(folder / 'eval')
    workdir_files.write_result(
        folder / 'eval' / '10' / 'test', task, {**scores, 'loss': 2.0}, step=10, split='test'
    )
    return folder


def test_clidsums_table_4_is_one_table_of_two_runs(tmp_path, monkeypatch, capsys):
    """As the command prints it, in the form of --paper."""
    made = [
        write_run(tmp_path / lang, {'bleu': 25.04, 'ter': 70.0}, f'translation_wmt20_en_{lang}')
        for lang in ('de', 'zh')
    ]
    table = shown_of('clidsum', '4', {'Trans-WMT on WMT20': made}, tmp_path)
    assert cells_of(table) == [['25.0', '70.0'] * 2, ['-'] * 4, ['-'] * 4]
    monkeypatch.setattr(reproduce.running, 'run', lambda *rest: {})
    monkeypatch.setattr(reproduce.Outcome, 'folders', lambda *rest: {'Trans-WMT on WMT20': made})
    monkeypatch.chdir(tmp_path)
    command = ['clidsum', '--table=4', '--models=Trans-WMT', '--format=latex']
    assert reproduce.main(command) == 0
    ours = capsys.readouterr().out
    assert reproduce.main([*command, '--paper']) == 0
    theirs = capsys.readouterr().out

    def frame(text):
        return [re.sub(r'& [-0-9].*', '', line) for line in text.splitlines() if '&' in line]

    assert frame(ours) == frame(theirs) and r'    Trans-WMT & 25.0 & 70.0 &' in ours
    folder = tmp_path / 'RUNS' / 'clidsum-sample' / 'reproduce' / 'tables'
    assert (folder / 'clidsum-table-4.tex').read_text() == ours
    assert {path.suffix for path in folder.iterdir()} == {'.md', '.tex', '.csv'}


def test_scores_of_runs_stand_as_the_paper_prints_its_own(tmp_path):
    """On its scale, with its digits, and a tagged task under the name of the paper's."""
    scores = {'bleu': 9.876, 'rouge_l': 33.33, 'distinct_1': 95.55, 'meteor': 12.34}
    run = write_run(tmp_path / 'a', scores, 'mtg_qg_de_de', 'mtg_mono_qg_de')
    table = shown_of('mtg', '11', {'mT5-mono-qg-de': [run]}, tmp_path)
    filled = {row.labels: [*map(str, row.cells)] for row in table.rows}
    ours = filled.pop(('QG', 'mT5', 'de->de'))
    assert ours == ['9.88', '33.3', '0.123', '-', '-', '0.956', '-']
    assert {*itertools.chain(*filled.values())} == {'-'}
    assert [note for note in table.notes if note.startswith('No run')] == [
        'No run has bertscore, bleurt, ensemble.',
        'No run fills the rows SG, TG, M-BERT, XLM, mBART, en->en, fr->fr, es->es.',
    ]
    task, mixture = 'mrs_retrieval_de_de', 'mrs_mono_retrieval_de'
    run = write_run(tmp_path / 'b', {'mrs_rouge': 4.567}, task, mixture)
    table = shown_of('mrs', '3', {'mBERT-mono-de': [run]}, tmp_path)
    assert cells_of(table)[2][:2] == ['.0457', '-']
    assert 'No run fills the columns Zero-Shot, MT, Multilingual.' in table.notes
    task = 'clidsum_xmediasum40ksummarize_en_zh'
    run = write_run(tmp_path / 'c', {'rouge_1': 20.04, 'rouge_2': 5.0}, task)
    table = shown_of('clidsum', '7', {'mBART+AcI+MT': [run]}, tmp_path)
    none = '- / - / - / -'
    assert cells_of(table)[7] == [none, '20.0 / 5.0 / - / -']
    assert {*itertools.chain(*cells_of(table)[:7], *cells_of(table)[8:])} == {none}
    assert 'No run has rouge_l, bertscore.' in table.notes


def test_table_2_of_mrs_has_the_replies_of_both_models(tmp_path):
    made = {}
    kinds = ('retrieval', 'mBERT', ''), ('generation', 'Unicoder-xDAE', '<en> ')
    for kind, model, tag in kinds:
        task = f'mrs_{kind}_en_en'
        run = write_run(tmp_path / kind, {'mrs_rouge': 5.0}, task, f'mrs_mono_{kind}_en')
        lines = [
            {'id': str(n), 'input': f'{tag}message {n}', 'prediction': f'{kind} {{{n}}} {"x" * 40}'}
            for n in range(6)
        ]
        workdir_files.write_predictions(run, task, lines)
        made[f'{model}-mono-en'] = [run]
    table = shown_of('mrs', '2', made, tmp_path)
    labels = [row.labels for row in table.rows]
    assert labels == [('Message:',), ('Generation:',), ('Retrieval:',)] * 4
    texts = [text for (text,) in cells_of(table)]
    assert texts[3] == 'message 1' and texts[5].startswith('retrieval {1} x')
    assert r'p{0.8\linewidth}' in render.latex(table)


def test_report_knows_the_models_of_reproduce(tmp_path, capsys):
    """By the folders of a sample's runs, which begin from random parameters."""
    scores, task = {'rouge_l': 33.3}, 'mtg_qg_de_de'
    run = write_run(tmp_path / 'mT5-mono-qg-de', scores, task, 'mtg_mono_qg_de')
    assert report.main([str(run), '--table=11']) == 0
    assert 'qg mT5 de-de | - | -' in capsys.readouterr().out
    (tmp_path / 'reproduce').mkdir()
    assert report.main([str(run), '--table=11']) == 0
    assert 'qg mT5 de-de | - | 33.30' in capsys.readouterr().out


def test_sweeps_fill_the_papers_form(tmp_path):
    rows = [tiny_sweep.zero_shot('de', 45.0), *tiny_sweep.group('de', 1, [50.0, 60.0])]
    made = {'sweep-udpos': [tiny_sweep.write(tmp_path / 'sweep-udpos', rows)]}
    table = shown_of('fewshot', '12', made, tmp_path)
    (german,) = (row for row in table.rows if row.labels == ('DE',))
    assert [*map(str, german.cells)] == ['45.00', '55.00 ±7.07', '-', '-']
    others = 'EN, AF, AR, BG, EL, ES, ET, EU, FA, FI, FR, HE, HI, HU, ID, IT, JA, KO, MR, NL, PT, '
    gaps = (f'No run fills the rows {others}RU, TA, TE, TR, UR, VI, ZH.',
            'No run fills the columns K=2, K=4.')  # fmt: skip
    assert table.notes[:2] == gaps


def test_a_stand_in_has_rows_of_its_own_name():
    read = recipe_lib.read(BENCHMARKS['clidsum'], ('Google Trans.', 'OPUS-MT'), 'NLLB')
    (table,) = (one for one in read.tables if one.name == 'table 3')
    labels = [line.labels for line in table.rows]
    assert labels[:4] == [
        ('1', 'PEGASUS', 'Trans-WMT'), ('2', 'PEGASUS', 'NLLB'), ('4', 'T5', 'Trans-WMT'),
        ('5', 'T5', 'NLLB'),
    ]  # fmt: skip
    assert len(labels) == 18 and not any('Google' in label for row in labels for label in row)
