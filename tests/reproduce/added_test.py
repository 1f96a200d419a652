"""xlbench.reproduce --add, --bundle, --check and --board: new rows, and what others check."""

import functools
import itertools
import json
import pathlib
import re
import stat
import zipfile

import pytest

from xlbench import config as config_lib, metrics
from xlbench.benchmarks import MTG, RECIPES
from xlbench.reporting import scored
from xlbench.reproduce import (
    __main__ as reproduce,
    added,
    beside,
    bundles,
    checking,
    outcome,
    running,
)  # fmt: skip
from xlbench.reproduce.steps import Settings, config_of, steps
from xlbench.system.errors import UserError

TEXTS = [f'the old bridge over river number {number} is quiet at night' for number in range(8)]


def table_of(recipe, number):
    return next(table for table in recipe.tables if table.name == f'table {number}')


def with_added(benchmark, number, text, size='sample'):
    recipe, (system,) = RECIPES[benchmark], added.parse([text])
    made = added.experiments(recipe, table_of(recipe, number), system, size)
    return made, [name for name in made.experiments if name.startswith(added.PREFIX)]


# ------------------------------------------------------------------------------- what is run


@pytest.mark.parametrize('size', ['sample', 'paper'])
@pytest.mark.parametrize(
    ('benchmark', 'numbers', 'config', 'model', 'count', 'program'),
    [
        ('mtg', range(11, 20), 'mtg_mt5.py:base', '', 35, 'train'),
        ('mrs', [3], 'mrs_retriever.py', ':mbert', 21, 'train'),
        ('mrs', [4], 'mrs_generator.py', ':unicoder', 20, 'train'),
        ('clidsum', [3], 'clidsum_mbart.py', ':large', 1, 'train'),
        ('fewshot', [12], 'fewshot.py', ':mbert', 1, 'fewshot'),
    ],
)
def test_a_config_has_the_experiments_of_the_papers_models(
    benchmark, numbers, config, model, count, program, size
):
    config += model if size == 'paper' else ''
    names = set()
    for number in numbers:
        recipe, made = with_added(benchmark, number, f'Mine=configs/{config}', size)
        names |= set(made)
        every = steps(recipe, made, Settings('RUNS', size, seeds=(1,)))
        assert every[-1].command.program == program
        for step in every:
            assert step.folder.name.startswith('added-mine-')
            assert config_of(step.arguments)
        assert {recipe.experiments[name].key['model'] for name in made} == {'Mine'}
    assert len(names) == count


def test_a_sweep_adapts_a_source_model_of_its_own():
    recipe, made = with_added('fewshot', 12, 'Mine=configs/fewshot.py')
    source, sweep = steps(recipe, made, Settings('R', seeds=(1,)))
    assert source.arguments[0] == '--config=configs/fewshot_source.py:sample,task=udpos'
    assert config_of(sweep.arguments).source_workdir == 'R/added-mine-source-udpos'


def test_a_chain_runs_for_every_task_of_a_table(tmp_path):
    path = tmp_path / 'chain.py'
    path.write_text(
        'def get_stages(source_lang, target_lang):\n'
        "    return ['RUNS/bart', f'translate:file:{target_lang}.tsv']\n"
    )
    recipe, made = with_added('clidsum', 3, f'Mine={path}')
    every = steps(recipe, made, Settings('R', seeds=(1, 2)))
    assert len(every) == 8 and every[0].arguments[:5] == (
        'chain', 'RUNS/bart', 'translate:file:de.tsv', '--task=clidsum_xsamsum_en_de',
        '--system=Mine',
    )  # fmt: skip
    path.write_text('def get_stages(source_lang, target_lang):\n    return 1 / 0\n')
    with pytest.raises(UserError, match=r'chain.py: .*ZeroDivisionError'):
        with_added('clidsum', 3, f'Mine={path}')


def test_other_predictions_are_another_command(tmp_path):
    place = tmp_path / 'seed2' / 'mono'
    place.mkdir(parents=True)
    (place / 'mrs_retrieval_de_de.txt').write_text('ja\n')
    recipe, made = with_added('mrs', 3, f'Mine={tmp_path}')
    assert recipe.experiments[made[0]].key == {'model': 'Mine', 'scenario': 'mono'}
    (before,) = steps(recipe, made, Settings('R'))
    assert before.module == 'xlbench.score' and '--seed=2' in before.arguments
    assert f'--workdir={before.folder}' in before.arguments
    (place / 'mrs_retrieval_de_de.txt').write_text('nein\n')
    (after,) = steps(*with_added('mrs', 3, f'Mine={tmp_path}'), Settings('R'))
    assert after.name != before.name and after.folder == before.folder


# ----------------------------------------------------------------------------- what is shown


@functools.cache
def result(lang, changed):
    """The facts and lines of texts in which `changed` words of each are others."""
    specs = [metrics.to_spec(m) for m in (metrics.SacreBleu(), metrics.MultilingualRouge(lang))]
    suite = metrics.Suite('made up', specs)
    texts = [' '.join(['x'] * changed + text.split()[changed:]) for text in TEXTS]
    scores, rows = suite.score(TEXTS, [[text] for text in texts])
    lines = [
        {'id': str(i), 'prediction': texts[i], 'target': TEXTS[i], 'scores': row}
        for i, row in enumerate(rows)
    ]
    facts = {
        'scores': scores, 'signatures': suite.signatures(), 'metrics': suite.written,
        'num_examples': len(texts), 'data': 'sample', 'manifest': 'ab' * 32, 'headline': 'rouge_l',
    }  # fmt: skip
    return facts, lines


def write_results(folder, about, tasks, changed):
    """Results as an evaluation has them, see `result`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'config.json').write_text(json.dumps(about))
    for task in tasks:
        scored.write_result(folder, '5', task, 'test', *result(task.rpartition('_')[2], changed))


def pretended(step, log):
    """A training that ends with results: those of the new system are better."""
    log.write_text('all is well\n')
    config = config_of(step.arguments)
    about = {'config': config_lib.to_dict(config), 'data': 'sample', 'seed': config.get('seed', 0)}
    seed = config.get('seed', 0)
    tasks = [MTG.task_name(task, lang, lang) for task in MTG.tasks for lang in MTG.languages]
    changed = 1 + seed % 2 if 'added' in step.name else 5
    write_results(step.folder, about, tasks, changed)
    (step.folder / 'DONE').write_text('1\n')
    return 0


@pytest.fixture(scope='module')
def bundle(tmp_path_factory):
    """A table with a new system in its files, and its bundle."""
    folder = tmp_path_factory.mktemp('added')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, 'start', pretended)
        patch.setattr(outcome, 'fill', lambda *rest: [])
        flags = ['mtg', '--table=14', f'--workdir={folder}/R']
        assert reproduce.main([*flags, '--models=mT5', '--seeds=1,2']) == 0
        more = ['--add=Mine=configs/mtg_mt5.py', '--seeds=2', f'--bundle={folder}/mine.zip']
        assert reproduce.main([*flags, *more]) == 0
        with pytest.raises(UserError, match='exists already'):
            reproduce.main([*flags, *more])
    return folder / 'mine.zip'


def test_new_rows_stand_beside_the_papers_with_differences_and_costs(bundle):
    text = next(bundle.parent.glob('R/reproduce/added/*/table.md')).read_text()
    rows = [line for line in text.splitlines() if '->' in line]
    of_models = [line.split('|')[2].strip() for line in rows if line.split('|')[2].strip()]
    assert of_models == ['M-BERT', 'XLM', 'mBART', 'mT5', 'Mine'] * 3
    place = next(i for i, row in enumerate(rows) if '| Mine |' in row)
    assert rows[place - 4].split('|')[4].strip() == '3.09'  # The paper's mT5 stays as printed.
    assert re.fullmatch(r'\d+\.\d+ ±\d+\.\d+', rows[place].split('|')[4].strip())
    assert 'Differences of rouge_l to runs of our own' in text
    assert '| Mine minus mT5 |' in text and '| +' in text
    assert "The paper's best row by bleu is mBART" in text and '- Cost: commands ' in text


def test_a_bundle_agrees_in_another_folder(bundle, tmp_path, capsys, monkeypatch):
    moved = tmp_path / 'moved.zip'
    moved.write_bytes(bundle.read_bytes())
    monkeypatch.chdir(tmp_path)
    assert reproduce.main(['--check', 'moved.zip']) == 0
    said = capsys.readouterr().out
    assert 'DIFFERS' not in said and 'agrees: mtg, table 14: ' in said
    assert said.count('rouge_l') == 2 * 12 and 'agrees: code ' in said
    with zipfile.ZipFile(moved) as archive:
        names = archive.namelist()
        about = json.loads(archive.read(next(n for n in names if n.endswith('config.json'))))
    assert 'cwd' not in about and 'argv' not in about
    assert all(name.endswith(('.json', '.jsonl', '.md', '.csv')) for name in names)


def altered(source, target, ending, change, rehash=False):
    """A copy of a bundle with one member changed, and perhaps its hash, as a liar does it."""
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(target, 'w') as after:
        contents = {name: before.read(name) for name in before.namelist()}
        name = next(name for name in contents if name.endswith(ending))
        if (changed := change(contents.pop(name).decode())) is not None:
            contents[name] = changed.encode()
        if rehash:
            about = json.loads(contents[bundles.NAME])
            about['hashes'][name] = bundles.sha(contents[name])
            contents[bundles.NAME] = json.dumps(about).encode()
        for name, data in contents.items():
            after.writestr(name, data)
    return [str(line) for line in checking.check(str(target)).lines if line.agrees is False]


RESULT = 'seed1/eval/5/test/mtg_qg_de_de'


def of_json(change):
    def changed(text):
        value = json.loads(text)
        change(value)
        return json.dumps(value)

    return changed


def other_prediction(text):
    lines = text.splitlines()
    lines[3] = json.dumps(json.loads(lines[3]) | {'prediction': 'something else'})
    return '\n'.join(lines) + '\n'


other_bleu = of_json(lambda value: value['scores'].update(bleu=99.0))
other_model = of_json(lambda value: value['config']['model'].update(family='mine'))


@pytest.mark.parametrize('rehash', [False, True])
@pytest.mark.parametrize(
    ('file', 'change', 'named'),
    [
        (f'{RESULT}/predictions.jsonl', other_prediction,
         ['mtg_qg_de_de, test: rouge_l ', r"of the prediction of example '3'$"]),
        (f'{RESULT}/metrics.json', other_bleu,
         ['mtg_qg_de_de, test: bleu 99.0000; here ', r'table.csv, line .*de->de']),
        ('seed1/config.json', other_model, []),  # Its row is no mean of two seeds any more.
    ],
)  # fmt: skip
def test_what_was_changed_is_named(bundle, tmp_path, file, change, named, rehash):
    said = altered(bundle, tmp_path / 'b.zip', file, change, rehash)
    assert all(any(re.search(words, line) for line in said) for words in named)
    assert sum(f'{file}: not what its hash is of' in line for line in said) == (not rehash)
    assert sum('hash' in line for line in said) == (not rehash)


def test_a_member_that_went_is_named(bundle, tmp_path):
    file = f'{RESULT}/predictions.jsonl'
    said = altered(bundle, tmp_path / 'b.zip', file, lambda text: None)
    assert any(line.endswith(f'{file} is missing') for line in said)


def link():
    info = zipfile.ZipInfo('runs/link.json')
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.parametrize(
    ('member', 'said'),
    [
        *itertools.product(
            ['../escaped.json', '/tmp/escaped.json', 'runs/../../escaped.json',
             'runs\\escaped.json', 'runs/.hidden.json', 'tasks/mine.py', 'a/b/c/d/e/f/g/h/i.json',
             link()],
            ['is not allowed'],
        ),
        ('TABLE.md', 'is there twice'),
        ('zeros.json', 'expands too far'),
    ],
)  # fmt: skip
def test_a_strangers_file_writes_nothing_elsewhere(bundle, tmp_path, member, said):
    path = tmp_path / 'inner' / 'b.zip'
    path.parent.mkdir()
    path.write_bytes(bundle.read_bytes())
    with zipfile.ZipFile(path, 'a', zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, bytes(60_000_000 if member == 'zeros.json' else 1))
    checked = checking.check(str(path))
    assert checked.manifest is None and said in str(checked.lines[0])
    assert [one.name for one in tmp_path.rglob('*')] == ['inner', 'b.zip']


def test_what_is_no_bundle_is_one_line(bundle, tmp_path):
    path = tmp_path / 'b.zip'
    path.write_bytes(bundle.read_bytes()[:-500])
    assert 'cannot be read as a bundle' in str(checking.check(str(path)).lines[0])
    with zipfile.ZipFile(path, 'w') as archive:
        archive.writestr('table.md', 'x')
    assert 'has no bundle.json' in str(checking.check(str(path)).lines[0])


@pytest.mark.parametrize(
    ('metric', 'kwargs'),
    [
        ('os:system', {'command': 'x'}),
        ('xlbench.metrics.fitted_rating:FittedRating', {'path': 'secret.json', 'lang': 'de'}),
        ('xlbench.metrics.learned.bertscore:BertScore', {'lang': 'de', 'model': '/home/secret'}),
    ],
)
def test_neither_code_nor_a_file_that_a_stranger_names_is_used(bundle, tmp_path, metric, kwargs):
    change = of_json(lambda value: value['metrics'].append({'metric': metric, 'kwargs': kwargs}))
    altered(bundle, tmp_path / 'b.zip', f'{RESULT}/metrics.json', change, rehash=True)
    said = [str(line) for line in checking.check(str(tmp_path / 'b.zip')).lines]
    assert [one[:13] for one in said if f"'{metric}', not here" in one] == ['not checked: ']


def test_a_leaderboard_has_a_row_for_each_bundle(bundle, tmp_path, capsys):
    other = tmp_path / 'other.zip'
    altered(bundle, other, f'{RESULT}/metrics.json', other_bleu)
    broken, page = tmp_path / 'broken.zip', tmp_path / 'board.html'
    broken.write_text('no')
    paths = list(map(str, (bundle, other, broken)))
    assert reproduce.main([f'--board={page}', *paths]) == 1
    text = page.read_text()
    assert 'mtg, table 14, size sample' in text and 'Not read' in text
    rows = re.findall(r'<tr[^>]*data-name="([^"]*)".*?</tr>', text, re.DOTALL)
    assert sorted(rows) == ['Mine (mine.zip)', 'Mine (other.zip)', 'broken.zip']
    assert 'aria-sort' in text and 'http://' not in text.replace('http://www.w3.org', '')
    assert reproduce.main([f'--board={page}', str(bundle)]) == 0  # A page of ours is replaced.
    page.write_text('mine')
    with pytest.raises(UserError, match='is not a leaderboard'):
        reproduce.main([f'--board={page}', str(bundle)])


def test_released_outputs_are_what_is_compared_with(tmp_path, monkeypatch):
    """A folder with the name of the paper's best row: its texts are scored, and no row is new."""
    recipe = RECIPES['mtg']
    table = table_of(recipe, '14')
    tasks = [MTG.task_name('qg', lang, lang) for lang in MTG.languages]
    made = {}
    for name, changed in {'mBART': 3, 'Mine': 1}.items():
        place = tmp_path / name
        (place / 'out').mkdir(parents=True)
        (place / 'out' / f'{tasks[0]}.txt').write_text('x\n')
        (system,) = added.parse([f'{name}={place / "out"}'])
        recipe = added.experiments(recipe, table, system, 'sample')
        scored.claim(place, name, 0)
        write_results(place, json.loads((place / 'config.json').read_text()), tasks, changed)
        made[f'{added.PREFIX}{name.lower()}'] = [place]
    shown = beside.shown(recipe, table, ['mBART', 'Mine'], made, {})
    (differences,) = shown.differences
    assert "to the paper's best row, by its released outputs" in differences.title
    assert [row.name for row in differences.rows[::2]] == ['Mine minus mBART']
    (filled,) = shown.tables
    assert sum(row.labels[1] == 'Mine' for row in filled.rows) == 12
    assert not any('best row by' in note for note in filled.notes)


@pytest.mark.parametrize('named', ['/etc', '../../elsewhere', 'RUNS/source-udpos', ''])
def test_a_sweep_in_a_bundle_finds_its_source_model_there_alone(tmp_path, named):
    folder = tmp_path / 'runs' / 'sweep'
    folder.mkdir(parents=True)
    (folder / 'config.json').write_text(json.dumps({'config': {'source_workdir': named}}))
    checking._keep_inside(folder)
    about = json.loads((folder / 'config.json').read_text())
    assert pathlib.Path(about['config']['source_workdir']).parent == tmp_path / 'runs'
