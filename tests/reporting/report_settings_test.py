"""Reports of benchmarks whose tables have a row a language and a column a setting."""

import json
import shutil

from report_sections import lines_of, named_cells, section_of, sections_of
from workdir_files import change, write_result

from xlbench.benchmarks import MRS
from xlbench.reporting import documents, layout, notes

MBERT, XLMR = 'google-bert/bert-base-multilingual-cased', 'FacebookAI/xlm-roberta-base@main'


def _replies(
    path, setting, lang=None, *, task='retrieval', rouge=2.0, data='files', seed=0, rate=1e-6,
    init_from=MBERT, share=1.0, tasks=None, result=(),
):  # fmt: skip
    """A workdir of MRS; `share` of the official sizes; baselines at 0.5 and 1."""
    scenario = MRS.scenario(setting, task, lang)
    tasks = tasks or scenario.evaluate
    path.mkdir(parents=True)
    stage = {'mixture': scenario.mixture, 'split': scenario.split, 'learning_rate': rate}
    config = {'seed': seed, 'stages': {'one': stage}, 'evals': {'test': {'tasks': list(tasks)}}}
    config |= {'init_from': init_from, 'model': {'family': 'dual_encoder', 'size': 'mbert'}}
    sizes = {
        f'{name}/{split}': round(share * MRS.official_size(task, split, name[-2:]))
        for name, split in (
            *((name, scenario.split) for name in scenario.train),
            *((name, split) for name in tasks for split in ('train', 'test', 'responses')),
        )
    }
    facts = {'config': config, 'data': data, 'seed': seed, 'examples': sizes}
    (path / 'config.json').write_text(json.dumps(facts))
    for name in tasks:
        same = {'data': data, 'num_examples': sizes[f'{name}/test']}
        same['signatures'] = {'MrsRouge': f'lang:{name[-2:]}', 'SacreBleu': 'nrefs:1'}
        scores = {'mrs_rouge': rouge, 'dist_1': 1.25, 'dist_2': 3.5, 'bleu': 0.5, 'loss': 5.0}
        if task == 'retrieval':
            scores |= {'recall_10': 40.0, 'mrr': 12.5, 'set_mrr': 3.25, 'mrr_code': 25.0}
        facts = {'candidates': 500} | same | dict(result)
        write_result(path / 'eval' / '10' / 'test', name, scores, **facts)
        for baseline, value in (('most_frequent', 0.5), ('nearest_input', 1.0)):
            folder = path / 'eval' / 'baselines' / baseline / 'test'
            write_result(folder, name, {'mrs_rouge': value, 'dist_1': 0.5, 'dist_2': 0.25}, **same)
    return path


def _adapt(path, **lora):
    change(path / 'config.json', lambda was: {'config': was['config'] | {'lora': lora}})


def _by_language(*paths):
    """{language: {'Monolingual mrs_rouge': '2.00', ...}} of the first table, and the section."""
    section = section_of(*paths)
    return named_cells(layout.tables(section)[0]), section


def test_adapters_and_other_decoding_stand_beside_their_run(tmp_path):
    """With --variants alone; adapters of several languages are one column."""
    base = _replies(tmp_path / 'all', 'multi', rouge=1.5, data='sample')
    folders = [base]
    for lang in ('de', 'ja'):
        begun = dict(rouge=3.0, data='sample', init_from='RUNS/all@10')
        folders.append(_replies(tmp_path / f'adapter_{lang}', 'mono', lang, **begun))
        _adapt(folders[-1], rank=8)
    again = shutil.copytree(base / 'eval' / '10' / 'test', base / 'eval' / '10' / 'test-rerank-x')
    better = {'mrs_rouge': 2.0}
    change(again, lambda was: {'split': 'test-rerank-x', 'scores': was['scores'] | better})
    assert len(sections_of(*folders)) == 2
    section = section_of(*folders, variants=True)
    systems = {system.name: system for system in section.systems if system.kind == 'run'}
    assert list(systems) == [
        'Monolingual, adapters', 'Multilingual', 'Multilingual, rerank-x',
    ]  # fmt: skip
    german = [MRS.task_name('retrieval', 'de')]
    values = [system.cell('mrs_rouge', german).value for system in systems.values()]
    assert values == [3.0, 1.5, 2.0]
    assert systems['Monolingual, adapters'].cell('mrs_rouge', ['mrs_retrieval_ja_ja']).value == 3.0
    # As in one run of both languages, which has the mixture of the first.
    _adapt(folders[1], rank=8, languages=['de', 'ja'])
    for path in (folders[2] / 'eval' / '10' / 'test').iterdir():
        shutil.copytree(path, folders[1] / 'eval' / '10' / 'test' / path.name)
    (adapters,) = [
        system for system in section_of(*folders[:2], variants=True).systems
        if system.name.startswith('Monolingual')
    ]  # fmt: skip
    assert adapters.name == 'Monolingual, adapters' and len(adapters.tasks) == 2


def test_settings_are_columns_and_languages_rows(tmp_path):
    folders = [
        _replies(tmp_path / 'all', 'multi', rouge=1.5, data='sample'),
        _replies(tmp_path / 'zero', 'zero_shot', rouge=1.0, data='sample'),
        _replies(tmp_path / 'mt', 'mt', 'ja', rouge=1.75, data='sample'),
        *(
            _replies(tmp_path / f'mono_{lang}', 'mono', lang, rouge=2 + i / 8, data='sample')
            for i, lang in enumerate(reversed(MRS.languages))
        ),
    ]
    rows, section = _by_language(*folders)
    assert list(rows) == [*MRS.languages, 'avg']
    settings = ('Monolingual', 'Zero-Shot', 'MT', 'Multilingual', 'most_frequent', 'nearest_input')
    assert list(rows['de']) == [
        *(f'{s} {score}' for s in settings for score in MRS.tables[0]), 'examples n'
    ]  # fmt: skip
    assert rows['ru']['Monolingual mrs_rouge'] == '2.00'
    assert rows['en']['Monolingual mrs_rouge'] == '3.12'  # 3.125, to even.
    assert rows['avg']['Monolingual mrs_rouge'] == '2.56'
    assert (rows['en']['Zero-Shot mrs_rouge'], rows['de']['Zero-Shot dist_1']) == ('-', '1.25')
    assert (rows['en']['MT dist_2'], rows['ja']['MT mrs_rouge']) == ('-', '1.75')
    assert rows['sv']['Multilingual dist_2'] == '3.50'
    # Not every language has a score, so that a mean would not compare.
    assert rows['avg']['Zero-Shot mrs_rouge'] == rows['avg']['MT mrs_rouge'] == '-'
    assert rows['it']['nearest_input mrs_rouge'] == '1.00'
    assert section.title.endswith('reply from a response set, bert-base-multilingual-cased')
    ranking = layout.tables(section)[1]
    assert ranking.title == 'recall_10, mrr, set_mrr, mrr_code'
    assert [column.group for column in ranking.columns[::4]] == [*settings[:4], 'examples']
    assert not any('error' in name for g in layout.tables(section) for name, *_ in g.rows)
    assert any('among 500 replies' in note for note in section.notes)
    assert notes.signatures(section.picks, ranking.title.split(', '), shared=True) == []


def test_every_format_shows_a_row_a_language(tmp_path):
    folders = [_replies(tmp_path / lang, 'mono', lang, data='sample') for lang in ('de', 'ja')]
    section = section_of(*folders)
    text = documents.markdown([section])
    assert '| language | Monolingual mrs_rouge | Monolingual dist_1 |' in text
    size = MRS.official_size('retrieval', 'test', 'de')
    baselines = '0.50 | 0.50 | 0.25 | 1.00 | 0.50 | 0.25'
    assert f'| de | **2.00** | **1.25** | **3.50** | {baselines} | {size} |' in text
    assert text.count('SAMPLE DATA') == 3
    tex = documents.latex([section])
    assert tex.count(r'\begin{tabular}{lrrrrrrrrrr}') == 1
    assert r'\multicolumn{3}{c}{Monolingual}' in tex and 'Language & mrs' in tex
    for body in tex.split(r'\toprule')[1:]:
        lines = [line for line in body.splitlines() if line.endswith(r'\\') and ' & ' in line]
        assert len({line.count(' & ') for line in lines if 'multicolumn' not in line}) == 1
    shown = documents.html([section])
    assert '<th scope="col">language</th>' in shown
    assert '<th scope="row">ja</th><td class="best" data-value="2.0">2.00</td>' in shown
    assert 'nats per example' in shown or 'Training loss' not in shown
    rows = lines_of(section)
    row = next(r for r in rows if r['source'] == 'ja' and r['score'] == 'mrs_rouge')
    assert row['system'] == 'Monolingual, bert-base-multilingual-cased'
    assert (row['runs'], row['workdirs']) == ('1', str(folders[1]))
    assert {r['score'] for r in rows} > {'bleu', 'loss'}
    for path in folders:
        plain = layout.screen(path)
        assert max(map(len, plain.splitlines())) <= 120
        assert plain.count('\nlanguage | Monolingual') == 2
        assert max(map(len, layout.screen(path, max_width=60).splitlines())) <= 60


def test_views_and_models_are_tables_of_their_own(tmp_path):
    runs = [
        _replies(tmp_path / 'a', 'mono', 'de'),
        _replies(tmp_path / 'b', 'mono', 'de', init_from=XLMR),
        _replies(tmp_path / 'c', 'mono', 'de', task='generation', init_from=''),
    ]
    sections = sections_of(*runs)
    assert [s.model for s in sections] == [
        'bert-base-multilingual-cased', 'xlm-roberta-base', 'dual_encoder mbert',
    ]  # fmt: skip
    papers = [[s.name for s in section.systems if s.kind == 'paper'] for section in sections]
    models = ('mBERT', 'XLM-R', 'Unicoder-xDAE')
    assert papers == [[f'Monolingual ({model}, paper)'] for model in models]
    assert sections[2].loss_unit == 'nats per token' and len(layout.tables(sections[2])) == 1
    assert [s.cell('mrs_rouge', c.tasks).value for s, c in (
        (section.systems[-1], section.columns[0]) for section in sections
    )] == [2.15, 1.79, 4.69]  # fmt: skip


def test_settings_of_the_paper_stand_beside_official_data(tmp_path):
    def papers(name, setting='multi', **kwargs):
        rows, section = _by_language(_replies(tmp_path / name, setting, **kwargs))
        return rows, section, [s for s in section.systems if s.kind == 'paper']

    rows, section, found = papers('official')
    assert [s.name for s in found] == ['Multilingual (mBERT, paper)']
    assert section.data == 'official' and 'up to 1 %' in section.notes[0]
    assert rows['ru']['Multilingual (mBERT, paper) mrs_rouge'] == '2.46'
    # Printed in an order that can hardly be meant.
    assert rows['ja']['Multilingual (mBERT, paper) dist_1'] == '6.77'
    assert rows['ja']['Multilingual (mBERT, paper) mrs_rouge'] == '1.44'
    assert any('swapped' in note for note in section.notes)
    rows, section, found = papers('zero', 'zero_shot')
    assert rows['de']['Zero-Shot (mBERT, paper) dist_2'] == '2.40'
    assert papers('near', share=1.009)[2] and papers('filtered', share=0.999)[2]
    # Two thirds of the test split are there; the others were left out as the official code does.
    part = {'num_examples': 124_313, 'dropped': 62_156}
    assert papers('dropped', 'mono', lang='de', result=part)[2]
    _, section, found = papers('part', 'mono', lang='de', result={'num_examples': 124_313})
    assert not found and 'has 124313 examples (official: 186469)' in section.notes[0]
    for name, kwargs in (('few', {'share': 0.98}), ('sample', {'data': 'sample'})):
        _, section, found = papers(name, **kwargs)
        assert not found and section.data != 'official'


def test_runs_of_one_language_and_setting_are_apart_unless_they_are_seeds(tmp_path):
    folders = [
        _replies(tmp_path / 'de_1', 'mono', 'de', rouge=2.0),
        _replies(tmp_path / 'de_x', 'mono', 'de', rouge=4.0, rate=1e-5),
        _replies(tmp_path / 'ja_x', 'mono', 'ja', rouge=3.0, rate=1e-5),
        _replies(tmp_path / 'de_2', 'mono', 'de', rouge=2.5, seed=1),
        _replies(tmp_path / 'ja_1', 'mono', 'ja', rouge=1.0),
    ]
    rows, section = _by_language(*folders)
    assert rows['de']['Monolingual (de_1) mrs_rouge'] == '2.25 ±0.35'
    assert rows['de']['Monolingual (de_x) mrs_rouge'] == '4.00'
    # Each ja run went to the column of its own learning rate.
    assert rows['ja']['Monolingual (de_1) mrs_rouge'] == '1.00'
    assert rows['ja']['Monolingual (de_x) mrs_rouge'] == '3.00'
    # Of two seeds, the language that has one: the mean over languages is of the first.
    assert rows['avg']['Monolingual (de_1) mrs_rouge'] == '1.50'
    assert not any('differ in' in note for note in section.notes)
    _, section = _by_language(folders[0], folders[2])
    assert any('differ in stages.one.learning_rate.' in note for note in section.notes)


def test_keys_of_no_hash_in_which_runs_of_a_column_differ_are_named(tmp_path):
    """Who tracks a run is no part of its hash."""
    folders = []
    for lang, trackers in (('de', []), ('ja', ['wandb'])):
        task = MRS.task_name('retrieval', lang)
        folders.append(_replies(tmp_path / lang, 'multi', tasks=(task,)))
        more = {'evals': {}, 'trackers': trackers}
        change(folders[-1] / 'config.json', lambda was, more=more: {'config': was['config'] | more})
    rows, section = _by_language(*folders)
    assert [rows[lang]['Multilingual mrs_rouge'] for lang in ('de', 'ja')] == ['2.00', '2.00']
    said = 'The configs of the runs of Multilingual differ in trackers.'
    assert said in section.notes


def test_other_languages_of_a_monolingual_run_are_a_column_of_their_own(tmp_path):
    both = tuple(MRS.task_name('retrieval', lang) for lang in ('de', 'ja'))
    own = _replies(tmp_path / 'ja', 'mono', 'ja', rouge=3.0)
    rows, section = _by_language(_replies(tmp_path / 'run', 'mono', 'de', tasks=both), own)
    for column, values in (('Monolingual', ['2.00', '3.00']), ('Monolingual de', ['-', '2.00'])):
        assert [rows[lang][f'{column} mrs_rouge'] for lang in ('de', 'ja')] == values
    documents.html([section])
    english = tuple(MRS.task_name('retrieval', lang) for lang in ('en', 'ja'))
    rows, _ = _by_language(_replies(tmp_path / 'zero', 'zero_shot', tasks=english))
    assert rows['en']['Zero-Shot mrs_rouge'] == '2.00'


def test_a_retriever_without_a_response_set_shows_its_ranking_or_loss(tmp_path):
    path = _replies(tmp_path / 'run', 'mono', 'de')
    shutil.rmtree(path / 'eval' / 'baselines')
    change(path, {'scores': {'loss': 5.0, 'mrr': 12.5}})
    assert [table.title for table in layout.tables(section_of(path))] == ['mrr']
    change(path, {'scores': {'loss': 5.0}})
    assert [table.title for table in layout.tables(section_of(path))] == ['loss']
