"""python -m xlbench.reproduce: what the papers' tables need, in which order, resumed, and shown."""

import dataclasses
import itertools
import json
import pathlib
import re
import shlex
import subprocess
from unittest import mock

import mtg_runs
import pytest
import tiny_sweep
import workdir_files
import yaml

from xlbench import benchmarks, config as config_lib
from xlbench.__main__ import PROGRAMS
from xlbench.benchmarks import MTG as MTG_BENCHMARK, RECIPES, recipe as recipe_lib
from xlbench.reproduce import __main__ as reproduce, launching, outcome, running
from xlbench.reproduce.running import State
from xlbench.reproduce.steps import CONFIGURED, Settings, chosen, config_of, step_names, steps
from xlbench.system.errors import UserError

MTG, MRS, CLIDSUM, FEWSHOT = (RECIPES[name] for name in ('mtg', 'mrs', 'clidsum', 'fewshot'))


def table_of(recipe, name):
    return next(table for table in recipe.tables if table.name == name)


def write(path, tasks, value=20.0, **more):
    """A workdir of a run without baselines; the value may be a function of the step and task."""
    more = {'mixture': tasks[0], 'baselines': False} | more
    return workdir_files.write_workdir(path, value, tasks=tasks, **more)


def steps_of(recipe, name, settings, models=()):
    return steps(recipe, chosen(recipe, [table_of(recipe, name)], models), settings)


# ------------------------------------------------------------------------------------ the recipes


def test_the_papers_count_as_many_experiments():
    """35 of each model of MTG (tables 11 to 19), 21 of MRS, six sweeps, 25 systems of ClidSum."""
    whole = [table_of(MTG, f'table {number}') for number in range(11, 20)]
    settings = Settings('RUNS', 'paper')
    for model in ('M-BERT', 'XLM', 'mBART', 'mT5'):
        named = chosen(MTG, whole, [model])
        assert len(named) == 35
        # Zero-shot transfer is scored by the runs that are trained on the same English pairs.
        assert len(steps(MTG, named, settings)) == 32
    for number in (3, 5):
        table = table_of(MRS, f'table {number}')
        assert len(table.experiments) == 21
        assert len(steps(MRS, table.experiments, settings)) == 20
    sweeps = steps(FEWSHOT, table_of(FEWSHOT, 'table 1').experiments, settings)
    assert [step.command.program for step in sweeps] == ['train', 'fewshot'] * 6
    assert len(table_of(CLIDSUM, 'table 3').experiments) == 25
    assert len(table_of(CLIDSUM, 'table 7').experiments) == 16


@pytest.mark.parametrize(('name', 'size'), itertools.product(RECIPES, ('sample', 'paper')))
def test_every_config_resolves_and_what_is_needed_comes_before(name, size):
    recipe = RECIPES[name]
    settings = Settings('RUNS', size, root='' if size == 'sample' else 'elsewhere')
    every = steps(recipe, recipe.experiments, settings)
    seen, workdirs = set(), {}
    for step in every:
        assert set(step.needs) <= seen
        seen.add(step.name)
        assert not re.search(r'[{}]', ' '.join(step.arguments))
        assert step.command.program.split()[0] in PROGRAMS
        if step.command.program in CONFIGURED and not step.missing:
            config = config_of(step.arguments)
            assert config_lib.is_sweep(config) == (step.command.program == 'fewshot')
            assert workdirs.setdefault(step.folder, step.name) == step.name
    assert '$' not in repr(recipe)  # All words of its file are known.
    # All that is listed is needed by a table, and all that a table has is listed.
    shown = {name for table in recipe.tables for name in table.experiments}
    assert shown == set(recipe.experiments)
    made = {step.command.name for step in every}
    assert made == {c.name for c in recipe.commands.values() if size in c.sizes}


def test_every_sweep_of_the_sample_can_be_run_and_that_of_table_5_keeps_its_model():
    settings = Settings('RUNS')
    assert not any(step.missing for step in steps(FEWSHOT, FEWSHOT.experiments, settings))
    for size in ('sample', 'paper'):
        source, sweep = steps_of(FEWSHOT, 'table 5', Settings('RUNS', size))
        assert source.name == 'source-marc'
        adapt = config_of(sweep.arguments).adapt
        of_bucket = (*adapt.buckets, *adapt.languages, *adapt.shots)
        assert (adapt.keep_params, *of_bucket) == (1, 1, 'de', 1)
    untrained = steps_of(FEWSHOT, 'table 11', settings)[-1]
    assert tuple(config_of(untrained.arguments).adapt.languages) == ('de', 'fr', 'es')


def test_steps_shorten_sweeps_in_epochs_buckets_and_shots():
    def adapt(share, name='table 13'):
        sweep = steps_of(FEWSHOT, name, Settings('RUNS', steps=share))[-1]
        return config_of(sweep.arguments).adapt

    whole, half, few = map(adapt, (1.0, 0.5, 0.01))
    assert (whole.epochs, tuple(whole.buckets), tuple(whole.shots)) == (15, (0, 6), (1, 2, 4))
    assert (half.epochs, tuple(half.buckets), tuple(half.shots)) == (8, (0, 3), (1, 2))
    assert (few.epochs, tuple(few.buckets), tuple(few.shots)) == (1, (0, 2), (1,))
    assert tuple(adapt(0.01, 'figure 1').buckets) == (1,)  # Of one bucket and 40 seeds.


def test_runs_are_shown_in_scenarios_that_train_on_what_they_train_on():
    settings = Settings('RUNS', 'paper')
    for recipe in (MTG, MRS):
        for experiment in recipe.experiments.values():
            if not experiment.mixture:
                continue
            (step,) = [
                one for one in steps(recipe, [experiment.name], settings)
                if one.name in experiment.commands
            ]  # fmt: skip
            config = config_of(step.arguments)
            scenario = benchmarks.parse_mixture(experiment.mixture)
            for stage in config.stages.values():
                assert benchmarks.parse_mixture(stage.mixture).train == scenario.train
            assert set(scenario.evaluate) <= set(config.evals.test.tasks)


def test_settings_become_flags():
    settings = Settings(
        'RUNS', seeds=(1, 2), root='data', steps=0.01, examples=8,
        engines={'OPUS-MT': 'file:opus.{lang}.tsv'}, overrides=('--config.mesh.data=1',),
    )  # fmt: skip
    row = {step.name: step for step in steps(CLIDSUM, ['BART + OPUS-MT'], settings)}
    train = row['bart-xsamsum-seed2']
    config = config_of(train.arguments)
    assert (config.seed, config.data.root, config.mesh.data) == (2, 'data', 1)
    assert (config.stages.train.num_steps, config.evals.test.num_examples) == (12, 8)
    assert train.folder == pathlib.Path('RUNS/bart-xsamsum-seed2')
    chain = row['bart-opus_mt-xsamsum-de-seed2']
    assert chain.needs == ('bart-xsamsum-seed2',)
    assert chain.arguments == (
        'chain', 'RUNS/bart-xsamsum-seed2', 'translate:file:opus.de.tsv',
        '--task=clidsum_xsamsum_en_de', '--system=BART + OPUS-MT', '--root=data',
        '--seed=2', '--num_examples=8', '--workdir=RUNS/bart-opus_mt-seed2',
    )  # fmt: skip
    assert step_names(CLIDSUM, 'bart-opus_mt-xsamsum-de', settings)[0].endswith('-seed1')
    # A translator is a tool: one for all seeds. A sweep has its own.
    assert step_names(CLIDSUM, 'trans_wmt-de', settings) == ['trans_wmt-de']
    sweep = steps(FEWSHOT, ['sweep-xnli'], settings)[-1]
    assert config_of(sweep.arguments).adapt.seeds == (1, 2)
    assert config_of(sweep.arguments).source_workdir == 'RUNS/source-xnli'
    spaced = steps(CLIDSUM, ['BART + Trans-WMT'], Settings('my runs'))[-1]
    assert spaced.arguments[:3] == (
        'chain', "'my runs/bart-xmediasum40k'", "translate:'my runs/trans_wmt-zh'",
    )  # fmt: skip
    # A system that translates first: its summariser reads what its translator has written.
    row = {step.name: step for step in steps(CLIDSUM, ['OPUS-MT + mBART'], settings)}
    dialogues = row['opus_mt-dialogues-xsamsum-de-validation']
    root = 'RUNS/opus_mt-dialogues'
    assert dialogues.output == pathlib.Path(f'{root}/clidsum/XSAMSum/val.translated.de.jsonl')
    assert '--num_examples=8' in dialogues.arguments
    assert '--vocabulary=sample_clidsum' in dialogues.arguments
    summariser = row['opus_mt-dialogues-mbart-xsamsum-de-seed2']
    config = config_of(summariser.arguments)
    assert (config.data.root, config.data.sample) == (root, False)
    assert config.data.vocabulary == 'data/sample_clidsum.model'
    assert list(config.evals.test.tasks) == ['clidsum_xsamsumtranslated_de_de']
    assert {step.needs for step in row.values() if step.command.program == 'translate chain'} == {
        (f'opus_mt-dialogues-mbart-{corpus}-{lang}-seed{seed}',)
        for corpus in ('xsamsum', 'xmediasum40k') for lang in ('de', 'zh') for seed in (1, 2)
    }  # fmt: skip
    # What nobody has named cannot be run, and neither can what needs it.
    lost = steps(CLIDSUM, ['BART + Google Trans.'], settings)
    assert "--engine='Google Trans.=ENGINE'" in lost[-1].missing


@pytest.mark.parametrize(('size', 'lacking'), [('sample', 14), ('paper', 7)])
def test_one_engine_fills_every_row_without_one_under_its_own_name(size, lacking, capsys, tmp_path):
    flags = ['clidsum', '--table=3', f'--size={size}', f'--workdir={tmp_path}', '--dry_run']
    reproduce.main([*flags, '--engine=NLLB=file:nllb.{lang}.tsv'])
    filled = capsys.readouterr().out
    assert 'has no engine' not in filled and 'google' not in filled.lower()
    assert ('opus_mt' in filled) == (size == 'paper')
    assert 'bart-nllb-xsamsum-de ' in filled and 'nllb-mbart-xmediasum40k-zh ' in filled
    reproduce.main(flags)
    assert 'nllb' not in capsys.readouterr().out
    replaced = ['OPUS-MT', 'Google Trans.'][-lacking // 7 :]
    recipe = recipe_lib.read(benchmarks.CLIDSUM, replaced, 'NLLB')
    rows = table_of(recipe, 'table 3').experiments
    assert len(rows) == 25 - lacking + 7 and 'BART + NLLB' in rows and 'NLLB + mBART' in rows
    settings = Settings('R', size, engines={'NLLB': 'file:nllb.{lang}.tsv'})
    chain = steps(recipe, ['BART + NLLB'], settings)[-1]
    assert '--system=BART + NLLB' in chain.arguments
    assert 'translate:file:nllb.zh.tsv' in chain.arguments


def test_a_table_says_once_why_rows_are_missing_and_which_are_stand_ins(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(running, 'start', Pretended())
    monkeypatch.setattr(outcome, 'shown', lambda *rest: ([], []))
    flags = ['clidsum', '--table=4', f'--workdir={tmp_path}']
    assert reproduce.main(flags) == 1
    text = capsys.readouterr().out
    assert text.count('OPUS-MT has no engine') == text.count('Google Trans. has no engine') == 1
    assert reproduce.main([*flags, '--engine=NLLB=file:nllb.{lang}.tsv']) == 0
    text = capsys.readouterr().out
    line = "Stand-in: NLLB translates in place of the paper's OPUS-MT, Google Trans."
    assert text.count(line) == 1 and 'Missing' not in text
    flags = ['mtg', '--figure=6', f'--workdir={tmp_path}', '--models=mT5']
    assert reproduce.main([*flags, '--engine=copy=command:cat']) == 0
    assert "Stand-in: copy translates in place of the paper's Google Trans." in (
        capsys.readouterr().out
    )


def test_ratings_set_the_tables_of_human_judgement(tmp_path, capsys, monkeypatch):
    def rated(task, system, ratings):
        about = {'task': task, 'id': '1', 'prediction': 'x', 'references': ['y'], 'lang': 'zh'}
        return json.dumps(about | {'system': system, 'ratings': ratings}) + '\n'

    task = 'clidsum_xmediasum40k_en_zh'
    lines = [rated(task, 'mDialBART', {'Gram.': one, 'Info.': 0.5}) for one in (1.0, 0.5)]
    lines.append(rated(task, 'end_to_end-xmediasum40k-zh', {'Gram.': -1.0, 'Info.': 0.0}))
    (tmp_path / 'ratings.jsonl').write_text(''.join(lines))
    folders = [
        write(tmp_path / name, [task]) for name in ('end_to_end-xmediasum40k-zh', 'other')
    ]
    args = ['clidsum', '--table=6', '--models=mBART,mDialBART', f'--workdir={tmp_path / "R"}']
    monkeypatch.setattr(running, 'start', Pretended())
    made = {'mBART': folders[:1], 'mDialBART': folders[1:]}
    monkeypatch.setattr(reproduce.Outcome, 'folders', lambda *rest: made)
    assert reproduce.main([*args, f'--ratings={tmp_path}']) == 0
    text = capsys.readouterr().out
    assert '| Model | Gram. | Info. | Conci. |' in text
    assert '| mBART | -1.000 | 0.000 | - |' in text
    assert '| mDialBART | 0.750 | 0.500 | - |' in text
    assert reproduce.main(args) == 0
    assert 'with --ratings=FILE sets the table' in capsys.readouterr().out
    with pytest.raises(UserError, match='there is no nowhere'):
        reproduce.main([*args, '--ratings=nowhere'])


@pytest.mark.parametrize('number', [5, 7])
def test_action_infilling_waits_for_the_triples_of_a_tagger(number, tmp_path):
    """Of the one that is trained, or of the user's; a file that is there stays as it is."""
    table = f'table {number}'
    row = {step.name: step for step in steps_of(CLIDSUM, table, Settings('R', seeds=(1, 2)))}
    assert row['triples'].needs == ('tagger', 'actions')
    assert row['triples'].module == 'xlbench.data' and row['triples'].arguments == (
        'triples', '--tagger=R/tagger', 'R/actions/clidsum/MediaSum424k/news_dialogue.json',
    )  # fmt: skip
    assert all('udpos' in task for task in config_of(row['tagger'].arguments).evals.test.tasks)
    for name, step in row.items():
        if name.startswith('pretraining-'):
            has_actions = 'aci' in name.split('-')[1].split('+')
            assert step.needs == ('triples',) * has_actions
            root = config_of(step.arguments).data.root
            assert root == ('R/actions' if has_actions else 'data/sample')
    named = Settings('R', tagger='my/tagger', root=str(tmp_path), size='paper')
    row = {step.name: step for step in steps_of(CLIDSUM, table, named)}
    path = tmp_path / 'clidsum' / 'MediaSum424k' / 'news_dialogue.triples.tsv'
    assert 'tagger' not in row and row['triples'].needs == ()
    assert row['triples'].arguments == (
        'triples', '--tagger=my/tagger', str(path).replace('.triples.tsv', '.json'),
        f'--output={path}',
    )  # fmt: skip
    assert config_of(row['pretraining-aci'].arguments).data.root == str(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text('of OpenIE\n')
    every = steps_of(CLIDSUM, table, dataclasses.replace(named, tagger=''))
    row = {step.name: step for step in every}
    assert 'tagger' not in row and State('R', every).is_done(row['triples'])


# ------------------------------------------------------------------------------------ the running


class Pretended:
    """Commands that end as `codes` says, 0 by default; a training leaves what it says of itself."""

    def __init__(self, codes=()):
        self.codes, self.started = dict(codes), []

    def __call__(self, step, log):
        self.started.append(step.name)
        code = self.codes.get(step.name, 0)
        if isinstance(code, list):
            code = code.pop(0)
        if isinstance(code, UserError):
            raise code
        log.write_text(f'training\nerror: {step.name} went wrong\n' if code else 'all is well\n')
        if step.command.program in CONFIGURED:
            step.folder.mkdir(parents=True, exist_ok=True)
            about = {'config': config_lib.to_dict(config_of(step.arguments))}
            (step.folder / 'config.json').write_text(json.dumps(about))
            if not code:
                (step.folder / 'DONE').write_text('1\n')
        return code


def run(every, workdir, pretended):
    said = []
    with mock.patch.object(running, 'start', pretended):
        return running.run(every, State(str(workdir), every), said.append), said


def test_what_fails_stops_only_what_needs_it_and_is_tried_again(tmp_path):
    every = steps(CLIDSUM, ['BART + Trans-WMT', 'mBART'], Settings(str(tmp_path), 'paper'))
    pretended = Pretended({'bart-xsamsum': 1})
    gaps, said = run(every, tmp_path, pretended)
    wrong = 'bart-xsamsum went wrong'
    assert gaps == {
        'bart-xsamsum': wrong,
        'bart-trans_wmt-xsamsum-de': f'it needs bart-xsamsum: {wrong}',
        'bart-trans_wmt-xsamsum-zh': f'it needs bart-xsamsum: {wrong}',
    }
    assert len(pretended.started) == len(every) - 2
    assert f'1/{len(every)} bart-xsamsum: failed: {wrong}' in said
    state = State(str(tmp_path), every)
    (line,) = [x for x in reproduce.list_steps(every, state, '') if 'bart-xsamsum ' in x]
    assert f'failed: {wrong}' in line
    again = Pretended()
    assert run(every, tmp_path, again)[0] == {}
    assert again.started == [
        'bart-xsamsum', 'bart-trans_wmt-xsamsum-de', 'bart-trans_wmt-xsamsum-zh',
    ]  # fmt: skip
    assert run(every, tmp_path, last := Pretended())[0] == {} and not last.started


def test_a_chain_is_made_again_where_its_models_are_others(tmp_path):
    every = steps(CLIDSUM, ['BART + Trans-WMT'], Settings(str(tmp_path), 'paper'))
    run(every, tmp_path, Pretended())
    for path in (tmp_path / 'reproduce' / 'commands').glob('*trans_wmt-x*.json'):
        record = json.loads(path.read_text())
        assert record['command'][:2] == ['xlbench.translate', 'chain']
        record['command'][:2] = ['xlbench.chain']  # As version 0.1 called it: the same.
        path.write_text(json.dumps(record))
    run(every, tmp_path, again := Pretended())
    assert not again.started
    (tmp_path / 'trans_wmt-de' / 'DONE').write_text('2\n')
    run(every, tmp_path, again := Pretended())
    assert again.started == ['bart-trans_wmt-xsamsum-de', 'bart-trans_wmt-xmediasum40k-de']


def test_told_to_end_twice_it_ends_with_the_same_and_runs_nothing_twice(tmp_path):
    every = steps_of(MRS, 'table 3', Settings(str(tmp_path)))[:6]
    told = running.Interrupted('SIGTERM')
    started = []
    for stopped in (every[1].name, every[4].name, ''):
        pretended = Pretended({stopped: told, every[2].name: [75, 75, 0]})
        if stopped:
            with pytest.raises(running.Interrupted):
                run(every, tmp_path, pretended)
        else:
            assert run(every, tmp_path, pretended)[0] == {}
        started += pretended.started
    a, b, c, d, e, f = (step.name for step in every)
    # Code 75 asks to be started again.
    assert started == [a, b, b, c, c, c, d, e, e, f]


def test_a_run_of_another_config_is_refused_and_the_others_go_on(tmp_path):
    models = ['mT5']
    before = steps_of(MTG, 'table 12', Settings(str(tmp_path)), models)
    run(before, tmp_path, Pretended())
    (before[1].folder / 'config.json').unlink()
    (before[1].folder / 'DONE').unlink()
    now = steps_of(MTG, 'table 12', Settings(str(tmp_path), steps=0.5), models)
    gaps, _ = run(now, tmp_path, pretended := Pretended())
    assert pretended.started == ['mT5-multi-qg']
    assert set(gaps) == {'mT5-multi-sg', 'mT5-multi-tg'}
    assert 'stages.stage1.num_steps was 900, now 450' in gaps['mT5-multi-sg']


def test_a_command_that_is_killed_is_a_gap(tmp_path):
    (step,) = every = steps_of(MTG, 'table 14', Settings(str(tmp_path)), ['mT5'])
    gaps, _ = run(every, tmp_path, Pretended({step.name: -9}))
    assert gaps[step.name].startswith('it was ended by SIGKILL')


def test_a_child_ends_with_its_line(tmp_path):
    (step,) = steps_of(MTG, 'table 14', Settings(str(tmp_path)), ['mT5'])
    wrong = dataclasses.replace(step, arguments=('--config=nowhere.py',))
    log = tmp_path / 'log'
    assert running.start(wrong, log) == 2
    assert log.read_text().startswith('$ python -m xlbench.train --config=nowhere.py\n')
    assert running.last_line(log).startswith("unknown config file 'nowhere.py'")


# ------------------------------------------------------------------------------------- a cluster


@pytest.fixture
def shell(tmp_path):
    """Runs a script, or a file, in bash; its sbatch numbers the jobs and keeps what it got."""
    sbatch = tmp_path / 'bin' / 'sbatch'
    sbatch.parent.mkdir()
    sbatch.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/out\nwc -l < {tmp_path}/out\n')
    sbatch.chmod(0o755)

    def run(*words, **options):
        options['env'] = {'PATH': f'{sbatch.parent}:/usr/bin:/bin'} | options.get('env', {})
        done = subprocess.run(
            ['bash', *words], **options, text=True, capture_output=True, check=True
        )
        return done.stdout.splitlines()

    return run


def of_task(sbatch, number, shell):
    """The arguments of the command that a task of an array runs."""
    job = sbatch.replace(re.search(r'^source .*$', sbatch, re.M)[0], 'printf "%s\\n" "$@"')
    return shell(input=job, env={'SLURM_ARRAY_TASK_ID': str(number)})


def test_slurm_gets_an_array_for_each_level(tmp_path, shell):
    settings = Settings('RUNS/my runs', 'paper')
    every = [s for s in steps(CLIDSUM, ['BART + Trans-WMT'], settings) if not s.missing]
    paths = launching.write('slurm', every, tmp_path, 'clidsum 3', 'python -m again')
    assert [path.name for path in paths] == ['level-1.sbatch', 'level-2.sbatch', 'submit.sh']
    first, second, submit = (path.read_text() for path in paths)
    assert re.findall(r'^#SBATCH --array=(.*)$', first + second, re.M) == ['0-3', '0-3']
    for text in (first, second):
        assert '#SBATCH --signal=B:TERM@90\n' in text and 'launch/slurm.sbatch' in text
        shell('-n', input=text)
    # sbatch says the number of the job; the second array waits for the first.
    shell('-c', f'{paths[-1]} --gpus-per-node=8')  # It can be executed.
    assert (tmp_path / 'out').read_text().splitlines() == [
        f'--parsable --gpus-per-node=8 {paths[0]}',
        f'--parsable --dependency=afterany:1 --gpus-per-node=8 {paths[1]}',
    ]
    assert 'python -m again' in submit
    assert of_task(second, 1, shell) == list(launching.levels(every)[1][1].arguments)


def test_no_text_of_the_user_is_run_by_the_shell_that_submits_or_runs_a_job(
    tmp_path, monkeypatch, shell
):
    monkeypatch.chdir(tmp_path)
    hostile = 'r"$(touch ran)`touch ran`\'; touch ran; # $IMAGE $(NODES)'
    flags = ['mtg', '--table=14', '--models=mT5', f'--workdir={hostile}', f'--root={hostile}']
    assert reproduce.main([*flags, '--launch', 'slurm']) == 0
    folder = pathlib.Path(hostile) / 'reproduce' / 'launch'
    again = shell(folder / 'submit.sh')[-1].partition('python -m xlbench.reproduce ')[2]
    assert shlex.split(again) == flags  # It can be pasted into a shell.
    job = (folder / 'level-1.sbatch').read_text()
    assert of_task(job, 0, shell)[-1] == f'--workdir={hostile}/mT5-multi_multitask'
    # In a JobSet neither envsubst nor Kubernetes finds a variable in it.
    assert reproduce.main([*flags, '--launch=jobset']) == 0
    (job,) = yaml.safe_load_all((folder / 'level-1.yaml').read_text())
    line = next(x for x in command_of(job).splitlines() if '-m xlbench.train' in x)
    assert '$IMAGE' not in line and '$(NODES)' not in line
    told = line.replace('exec python', "printf '%s\\n'").rstrip('\\')
    assert f'--workdir={hostile}/mT5-multi_multitask' in shell(input=told)
    assert not list(tmp_path.rglob('ran'))
    with pytest.raises(UserError, match='remove line breaks'):
        reproduce.main(['mtg', '--table=14', '--workdir=a\nb', '--launch=slurm'])


def command_of(job):
    """The command of the one container of a JobSet, whose image is a variable."""
    (replicated,) = job['spec']['replicatedJobs']
    (container,) = replicated['template']['spec']['template']['spec']['containers']
    assert container['image'] == '${IMAGE}'
    return container['command'][-1]


def test_kubernetes_gets_a_jobset_for_each_command(tmp_path):
    every = steps(CLIDSUM, ['BART + Trans-WMT'], Settings('/runs/x', 'paper'))
    paths = launching.write('jobset', every, tmp_path, 'clidsum 3', 'python -m again')
    assert [path.name for path in paths] == ['level-1.yaml', 'level-2.yaml']
    sets = [one for path in paths for one in yaml.safe_load_all(path.read_text())]
    named = [one['metadata']['name'] for one in sets]
    assert len(set(named)) == len(every) == 8
    assert all(re.fullmatch('[a-z0-9-]{1,25}', name) for name in named)
    line, chain = command_of(sets[-1]), 'chain /runs/x/bart-xmediasum40k translate:/runs/x/trans'
    assert f'python -m xlbench.translate {chain}' in line
    assert "'--system=BART + Trans-WMT'" in line


# -------------------------------------------------------------------------------------- the table


def test_a_run_of_two_scenarios_is_in_both_tables(tmp_path):
    tasks = [f'mtg_qg_en_{lang}' for lang in ('en', 'de', 'fr', 'es')]
    stages = {'stage1': {'mixture': 'mtg_zero_shot_qg', 'num_steps': 10}}
    folder = write(tmp_path / 'mT5-zero_shot-qg', tasks, lambda step, task: 30.0 + len(task),
                   info={'config': {'seed': 0, 'stages': stages}})  # fmt: skip
    other = write(tmp_path / 'mT5-mono-qg-de', ['mtg_qg_de_de'], mixture='mtg_mono_qg_de')

    def rows(number, made):
        (table,), _ = outcome.shown(MTG, table_of(MTG, f'table {number}'), made, tmp_path)
        place = [column.label for column in table.columns].index('ROUGE-L')
        return {row.labels: str(row.cells[place]) for row in table.rows if not row.is_missing}

    made = {'M-BERT-mono-qg-en': [folder], 'M-BERT-mono-qg-de': [other]}
    assert rows(11, made) == {
        ('QG', 'M-BERT', 'en->en'): '42.0', ('QG', 'M-BERT', 'de->de'): '20.0',
    }  # fmt: skip
    assert rows(19, {'M-BERT-zero_shot-qg': [folder]}) == {
        ('QG', 'M-BERT', f'en->{lang}'): '42.0' for lang in ('de', 'fr', 'es')
    }
    _, drawn = outcome.shown(MTG, table_of(MTG, 'figure 4'), made, tmp_path / 'not' / 'there')
    assert {path.name for path in drawn} == {f'figure4.{kind}' for kind in ('svg', 'png', 'pdf')}
    assert all(path.stat().st_size > 1000 for path in drawn)


def test_a_table_is_of_the_tasks_that_the_paper_shows(tmp_path):
    """Multitask runs have other tasks, too."""
    made = {}
    for task, name in (('qg', 'mBART-multi-qg'), ('sg', 'mBART-multi_multitask')):
        path = tmp_path / name
        mtg_runs.write_run(path, 'mBART', MTG_BENCHMARK.scenario('multi', task))
        made[name] = [path]
    tables, _ = outcome.shown(MTG, table_of(MTG, 'table 7'), made, tmp_path / 'figures')
    rows = {row.name for table in tables for row in table.rows}
    assert rows == {f'qg mBART {row}' for row in ('stage1', 'stage2', 'p-value')}


def test_what_section_6_of_mrs_proposes_stands_beside_the_multilingual_run(tmp_path):
    table = table_of(MRS, 'table section6-generation')
    settings = Settings(str(tmp_path), seeds=(1, 2))
    row = {step.name: step for step in steps(MRS, table.experiments, settings)}
    ranked = row['Unicoder-xDAE-rerank-seed2']
    assert ranked.module == 'xlbench.evaluate' and ranked.arguments == (
        f'--workdir={tmp_path}/Unicoder-xDAE-multi-seed2', '--num_beams=6',
        f'--rerank={tmp_path}/mBERT-multi-seed2',
    )  # fmt: skip
    adapters = config_of(row['Unicoder-xDAE-adapters-seed1'].arguments)
    assert adapters.init_from == f'{tmp_path}/Unicoder-xDAE-multi-seed1'
    assert adapters.lora.languages == benchmarks.get('mrs').languages and adapters.lora.rank == 8
    # Evaluations of one workdir wait for each other, on a cluster as well.
    named = ('rerank', 'mmi', 'diverse')
    every = [row[f'Unicoder-xDAE-{name}-seed1'] for name in named]
    assert [len(level) for level in launching.levels(every)] == [1, 1, 1]
    folders = []
    for seed in (1, 2):
        folders.append(
            write(tmp_path / f'Unicoder-xDAE-multi-seed{seed}', ['mrs_generation_de_de'],
                  seed=seed, mixture='mrs_multi_generation')
        )  # fmt: skip
        split = f'test-num_beams6-rerank-mBERT_multi_seed{seed}'
        workdir_files.write_result(
            folders[-1] / 'eval' / '10' / split, 'mrs_generation_de_de',
            {'mrs_rouge': 30.0 + seed, 'loss': 2.0}, step=10, split=split,
        )  # fmt: skip
    made = {'Unicoder-xDAE-rerank': folders}
    (shown,), _ = outcome.shown(MRS, table, made, tmp_path)
    ours = [column.group for column in shown.columns if column.label == 'mrs_rouge']
    assert ours == ['Multilingual, num_beams6-rerank-mBERT_multi']
    (german,) = [one for one in shown.rows if one.name == 'de']
    assert str(german.cells[0]) == '31.50 ±0.71'


def test_runs_of_a_system_are_one_row_of_the_papers_groups(tmp_path):
    folders = [write(tmp_path / lang, [f'clidsum_xsamsum_en_{lang}']) for lang in ('de', 'zh')]
    (table,), _ = outcome.shown(CLIDSUM, table_of(CLIDSUM, 'table 3'), {'mBART': folders}, tmp_path)
    (row,) = (row for row in table.rows if row.labels[1:] == ('mBART', ''))
    assert (row.labels[0], row.section) == ('22', 'End-to-end Methods')
    assert [*map(str, row.cells[:2])] == ['- / - / 20.0 / -'] * 2


def test_sweeps_have_their_table_and_their_figure(tmp_path):
    scores = tiny_sweep.group('de', 1, [50.0, 60.0]) + tiny_sweep.group('fr', 1, [70.0, 72.0])
    rows = [tiny_sweep.zero_shot('de', 45.0), tiny_sweep.zero_shot('fr', 60.0), *scores]
    made = {'sweep-udpos': [tiny_sweep.write(tmp_path / 'sweep-udpos', rows)]}
    output = tmp_path / 'figures'
    (table,), _ = outcome.shown(FEWSHOT, table_of(FEWSHOT, 'table 4'), made, output)
    assert 'Without source training' in table.title and table.missing
    tables, drawn = outcome.shown(FEWSHOT, table_of(FEWSHOT, 'figure 2'), made, output)
    assert {path.suffix for path in drawn} >= {'.svg', '.png'} and not tables
    # Without what it takes, such as curves of a classifier, a figure says so.
    (lost,), drawn = outcome.shown(FEWSHOT, table_of(FEWSHOT, 'figure 5'), made, output)
    assert not drawn and 'not sufficient' in lost.missing


def test_the_command_writes_the_table_and_names_its_gaps(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(running, 'start', Pretended({'mT5-multi_multitask': 1}))
    flags = ['mtg', '--table=14', f'--workdir={tmp_path}', '--models=mT5', '--steps=0.1']
    assert reproduce.main(flags) == 1
    text = capsys.readouterr().out
    written = (tmp_path / 'reproduce/tables/mtg-table-14.md').read_text()
    assert written + '\n' == text
    assert '- mT5-multi_multitask: mT5-multi_multitask went wrong' in text
    assert 'Trained for 0.1 of the steps: the scores are meaningless.' in text
    left = tmp_path / 'reproduce/tables/.mtg-table-1.md.machine-1.tmp'  # Of a killed one.
    left.write_text('half')
    assert reproduce.main(['mtg', '--table=1', f'--workdir={tmp_path}']) == 0
    assert not left.exists()
    assert 'Not made here: it describes the corpora.' in capsys.readouterr().out
    assert reproduce.main(['mtg', '--figure=2', f'--workdir={tmp_path}', '--dry_run']) == 0
    assert 'figure 2 is not made here: it needs rated texts' in capsys.readouterr().out


@pytest.mark.parametrize(
    ('flags', 'line'),
    [
        (['mtq', '--list'], "unknown benchmark 'mtq'; nearest: mtg"),
        (['mtg'], 'give --table=N or --figure=N'),
        (['mtg', '--table=20'], 'table 20 of mtg is not in its paper; allowed: 1, 2, 3'),
        (['mtg', '--table=4', '--models=mT6'], "unknown model in --models 'mT6'; nearest: mT5"),
        (['mrs', '--table=3', '--size=large'], "unknown size 'large'"),
        (['mrs', '--table=3', '--launch=pbs'], "unknown launch 'pbs'"),
        (['mrs', '--table=3', '--steps=2'], '--steps=2.0 is not a fraction above 0, up to 1'),
        (['mrs', '--table=3', '--size=paper', '--steps=0.5'], '--steps and --examples are for'),
        (['mrs', '--table=3', '--seeds=1,x'], '--seeds=1,x are not whole numbers with commas'),
        (['mrs', '--table=3', '--topology=h100:8'], '--topology is for --size=paper'),
        (['clidsum', '--table=3', '--engine=x'], '--engine=x is not NAME=ENGINE'),
        (['clidsum', '--table=3', '--engine=BART=x'], '--engine=BART has the name of another'),
        (['clidsum', '--table=3', '--engine=A=x', '--engine=B=y'], 'A, B cannot all stand in'),
        (['mrs', '--table=3', '--engine=NLLB=x'], 'mrs has no translator without an engine'),
        (['mrs', '--table=3', '--sed=1'], "unknown argument '--sed=1'"),
        (['mrs', '--table=5', '--dry_run', '--config.model.layers=1'], 'layers'),
        (['mrs', '--table=2', '--paper'], 'table 2 of mrs has no printed numbers; '),
        (['mrs', '--figure=2', '--paper'], '--paper prints tables'),
        (['mrs', '--table=3', '--paper', '--format=word'], "unknown format 'word'"),
        (['mtg', '--table=14', '--add=Mine'], 'is not NAME=CONFIG'),
        (['mtg', '--table=14', '--add=Mine={empty}'], 'has no predictions of table 14'),
        (['mtg', '--table=14', '--add=Mine={file}'], 'defines neither get_config'),
        (['mtg', '--table=14', '--add=A={empty}', '--add=a={empty}'], 'names a twice'),
        (['mtg', '--table=all', '--add=A=configs/mtg_mt5.py'], 'is for one table'),
        (['mtg', '--table=1', '--add=A=configs/mtg_mt5.py'], 'no rows of scores'),
        (['fewshot', '--table=12', '--add=A={empty}'], 'is trained'),
        (['mtg', '--table=14', '--bundle=b.zip'], 'is of systems that --add names'),
        (['mtg', 'a.zip', '--table=14'], 'unknown argument'),
        (['--check'], 'name bundles'),
    ],
)
def test_a_slip_is_one_line(flags, line, tmp_path):
    places = {'empty': tmp_path / 'empty', 'file': tmp_path / 'file.py'}
    places['empty'].mkdir()
    places['file'].write_text('x = 1\n')
    with pytest.raises(UserError) as error:
        reproduce.main([*(flag.format(**places) for flag in flags), f'--workdir={tmp_path}/R'])
    assert line in str(error.value) and '\n' not in str(error.value)


def test_each_table_of_each_paper_is_listed(capsys):
    for name, recipe in RECIPES.items():
        reproduce.main([name, '--list', '--size=paper'])
        lines = capsys.readouterr().out.splitlines()
        for table in recipe.tables:
            assert any(line.startswith(f'{table.name:<9} {table.title}: ') for line in lines)
    assert reproduce.main(['mrs', '--table=4', '--dry_run', '--size=paper']) == 0
    lines = capsys.readouterr().out.splitlines()
    assert '40,000 steps' in next(line for line in lines if line.startswith('Unicoder-xDAE-multi'))
    assert lines[-1] == '0 of 20 commands done'
