"""Every program that writes, with a small command: what is killed, and whose files fail.

`SILENT` has the others, and why; a test compares the two with the list of programs.
"""

import dataclasses
import importlib.util
import json
import os
import pathlib
import runpy
import shutil
import sys
import warnings
from collections.abc import Callable

TESTS = pathlib.Path(__file__).resolve().parents[2] / 'tests'
sys.path[:0] = [str(TESTS / folder) for folder in ('', 'support', 'fewshot', 'judgement', 'tasks')]

import quick_compilation

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
os.environ['XLA_FLAGS'] = quick_compilation.xla_flags()
os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0.05')
os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES', '-1')

SILENT = {
    'doctor': 'prints alone',
    'list': 'prints alone',
    'data xtreme': 'TFDS writes, into a folder of its own that appears when it is whole',
}
_SERVED: list = []
_TASK = """
from xlbench import pipeline

pipeline.register_text_task(
    'news_title_de',
    files={'train': 'news.train.jsonl', 'validation': 'news.dev.jsonl'},
    fields={'inputs': 'text', 'targets': 'headline'},
    lang='de',
)
"""


@dataclasses.dataclass(frozen=True)
class Command:
    """A command that writes."""

    program: str  # As `xlbench PROGRAM` names it.
    argv: str  # What stands behind it, with {0} for the scratch folder.
    start: Callable[[pathlib.Path], None] = lambda scratch: None  # Makes what it starts from ...
    after: str = ''  # ... beside the outcome of this command.
    kills: int = 15  # Of 600.
    once: bool = False  # It refuses what is there already.
    # Puts something small in the place of what is not here, and returns more arguments.
    stand_in: Callable[[pathlib.Path], list[str]] = lambda scratch: []

    @property
    def module(self) -> str:
        """What is imported before the program starts."""
        name = f'xlbench.{self.program}'
        is_package = importlib.util.find_spec(name).submodule_search_locations is not None
        return f'{name}.__main__' if is_package else name

    def prepare(self, scratch: pathlib.Path) -> None:
        """Makes what it starts from."""
        if self.after:
            before = COMMANDS[self.after]
            before.prepare(scratch)
            assert before.run(scratch) == 0, self.after
        self.start(scratch)

    def run(self, scratch: pathlib.Path) -> int:
        """Runs the program in this process, as `python -m` does; returns its exit code."""
        before, sys.argv = sys.argv, [self.program, *self.argv.format(scratch).split()]
        sys.argv += self.stand_in(scratch)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter('ignore', RuntimeWarning)  # It was imported before.
                runpy.run_module(f'xlbench.{self.program}', run_name='__main__', alter_sys=True)
        except SystemExit as error:
            return error.code if isinstance(error.code, int) else bool(error.code)
        finally:
            sys.argv = before
        return 0


# --------------------------------------------------------------------- what commands start from


def tiny_root(scratch: pathlib.Path) -> None:
    """Prepared questions, and a config of four steps with two evaluations."""
    import tiny

    (scratch / 'root').mkdir()
    tiny.write_root(scratch / 'root')
    config = tiny.brief_config(scratch / 'root', checkpoints__every=1)
    config.stages.stage1.num_steps = 4
    config.evals.dev.update(every=2, tasks=tiny.QUESTIONS[:1], num_examples=5)
    config.evals.test.update(tasks=tiny.QUESTIONS[:1], num_examples=5)
    tiny.write_config(scratch / 'tiny_config.py', config)


def _lines(scratch: pathlib.Path) -> None:
    (scratch / 'texts.txt').write_text('das Haus ist neu\nein See\n' * 4, encoding='utf-8')


def _chained(scratch: pathlib.Path) -> None:
    import tiny

    shutil.rmtree(scratch / 'root')
    (scratch / 'root').mkdir()
    tiny.write_root(scratch / 'root', ['mtg_qg_en_de'])


def _system(scratch: pathlib.Path) -> None:
    import tiny

    lines = [target for _, target in tiny.examples(tiny.QUESTIONS[0], 'test')]
    for name in ('answers', 'references'):
        (scratch / f'{name}.txt').write_text('\n'.join(lines) + '\n', encoding='utf-8')


def _files(scratch: pathlib.Path) -> None:
    import tiny

    tiny_root(scratch)
    shutil.rmtree(scratch / 'root' / 'prepared')
    for split, name in (('train', 'train'), ('validation', 'dev')):
        rows = [dict(text=a, headline=b) for a, b in tiny.examples(tiny.TITLES[1], split)]
        text = ''.join(json.dumps(row) + '\n' for row in rows)
        (scratch / 'root' / f'news.{name}.jsonl').write_text(text, encoding='utf-8')
    (scratch / 'tasks').mkdir()
    (scratch / 'tasks' / 'news.py').write_text(_TASK, encoding='utf-8')


def _sweep(scratch: pathlib.Path, **more) -> None:
    import fewshot_test
    import tiny
    import tiny_labels

    (scratch / 'root').mkdir()
    tiny_labels.write_root(scratch / 'root')
    config = fewshot_test.tiny_sweep(
        scratch / 'root', 'classification',
        adapt__buckets=(0, 3), adapt__languages=('de',), adapt__epochs=2,
        **{'adapt__methods': ('fc',), 'adapt__learning_rates': (0.003,), **more},
    )  # fmt: skip
    config.source.evals.test.tasks = config.source.evals.test.tasks[:1]
    tiny.write_config(scratch / 'tiny_config.py', config)


def _finished_sweep(scratch: pathlib.Path) -> None:
    from xlbench.fewshot import __main__ as fewshot

    # So high a rate that the adapted model is wrong where the other one is right.
    rates = (0.5,)
    _sweep(scratch, adapt__keep_params=1, adapt__methods=('full',), adapt__learning_rates=rates)
    fewshot.main(['fewshot', f'--config={scratch}/tiny_config.py', f'--workdir={scratch}/sweep'])


def _systems(scratch: pathlib.Path) -> None:
    for name, ending in (('a', '?'), ('b', ' denn?')):
        rows = (
            dict(id=str(i), input=f'{i} ist da.', target=f'Wo ist {i}?', prediction=f'{i}{ending}')
            for i in range(60)
        )
        text = ''.join(json.dumps(row) + '\n' for row in rows)
        (scratch / f'{name}.jsonl').write_text(text, encoding='utf-8')


def _answers(scratch: pathlib.Path) -> None:
    import judging

    from xlbench.judgement import studies

    study = studies.read(f'{scratch}/study/key.json')
    for sheet in study.sheets:
        file = judging.answers(study, sheet.judge, lambda system, _, i: 1 + (i + ord(system)) % 5)
        (scratch / f'answers-{sheet.judge}.json').write_text(json.dumps(file), encoding='utf-8')


def _mirrored(scratch: pathlib.Path) -> list[str]:
    """Serves a made-up corpus from this process, and its memory."""
    import hashlib

    import partners

    from xlbench.data import corpora

    contents = {name: json.dumps([name] * 5000).encode() for name in ('one', 'two', 'three')}

    corpus = corpora.Corpus('made_up', 'xquad', 'a corpus of a test', 'https://here', 'none')
    corpus.__dict__['files'] = [
        corpora.File(
            f'made_up/{name}.json', hashlib.sha256(data).hexdigest(), len(data),
            f'https://corpora.example/{name}',
        )
        for name, data in contents.items()
    ]  # fmt: skip
    corpora.CORPORA['made_up'] = corpus
    served = partners.serving(lambda request: request.send(contents[request.path.split('/')[-1]]))
    _SERVED.append(served)  # Until this process ends.
    return [f'--mirror_url={served.__enter__()}']


def _dumps(scratch: pathlib.Path) -> None:
    import mrs_build_test

    mrs_build_test.write_dumps(scratch / 'dumps')


def _stories(scratch: pathlib.Path) -> None:
    import mtg_build_test

    mtg_build_test.write_stories(scratch / 'roc.csv', 20)


def _treebank(scratch: pathlib.Path) -> None:
    words = ('Anna/PROPN schläft/VERB ./PUNCT', 'Der/DET Hund/NOUN bellt/VERB', 'Wo/ADV ?/PUNCT')
    blocks = [
        ''.join(word.replace('/', '\t') + '\n' for word in words[i % 3].split()) for i in range(60)
    ]
    (scratch / 'train-de.tsv').write_text('\n'.join(blocks) + '\n', encoding='utf-8')


def _dialogues(scratch: pathlib.Path) -> None:
    import dialogues_test
    import numpy as np

    for name, count in (('train', 12), ('val', 5)):
        rows = dialogues_test.corpus(np.random.default_rng(count), count)
        (scratch / f'{name}.json').write_text(json.dumps(rows), encoding='utf-8')


def _a_tagger(scratch: pathlib.Path) -> list[str]:
    """A tagger that needs no training."""
    import dialogues_test

    from xlbench import config as config_lib
    from xlbench.inference import loading

    loading.load = lambda spec, **options: dialogues_test.Words()
    config_lib.check_source = lambda spec, kind: None
    return []


def _language_model(scratch: pathlib.Path) -> None:
    import readme_files

    _dialogues(scratch)
    readme_files.small_model(scratch / 'model', 'gpt2', 'gpt2')


def _pretended(scratch: pathlib.Path) -> list[str]:
    """Trainings that leave made-up scores."""
    import workdir_files

    from xlbench import config as config_lib
    from xlbench.benchmarks import MTG
    from xlbench.reproduce import running
    from xlbench.reproduce.steps import config_of

    def start(step, log: pathlib.Path) -> int:
        log.write_text('all is well\n')
        shutil.rmtree(step.folder, ignore_errors=True)
        tasks = [name for name in MTG.task_names() if name.count('_') == 3]
        about = {'config': config_lib.to_dict(config_of(step.arguments))}
        workdir_files.write_workdir(
            step.folder, lambda *_: 40.0, tasks=tasks, baselines=False, info=about.items()
        )
        (step.folder / 'DONE').write_text('1\n')
        return 0

    running.start = start
    return []


def _dev_sets(scratch: pathlib.Path) -> None:
    from xlbench.data import labelled

    folder = scratch / 'data' / 'fewshot' / 'xnli'
    folder.mkdir(parents=True)
    for lang in ('en', 'de'):
        labels = labelled.LABELS['xnli'] * 4
        rows = (f'{lang} {i // 3}\t{lang} then {i}\t{label}\n' for i, label in enumerate(labels))
        (folder / f'dev-{lang}.tsv').write_text(''.join(rows))


COMMANDS = {
    'train': Command(
        'train', '--config={0}/tiny_config.py --workdir={0}/run', tiny_root, kills=60
    ),
    'evaluate': Command(
        'evaluate', '--workdir={0}/run --split=validation', after='train', kills=30
    ),
    'fewshot': Command(
        'fewshot', '--config={0}/tiny_config.py --workdir={0}/sweep', _sweep, kills=30
    ),
    'reproduce': Command(
        'reproduce', 'mtg --table=14 --models=mT5 --steps=0.1 --workdir={0}/tables',
        stand_in=_pretended,
    ),
    'plan': Command(
        'plan', '--config={0}/tiny_config.py --topology=cpu:1 --no_decode --tries=0 '
        '--output={0}/plan.json', tiny_root, kills=10,
    ),
    'predict': Command(
        'predict', '{0}/run --input={0}/texts.txt --output={0}/answers.txt --target_lang=en',
        _lines, after='train', once=True,
    ),
    'convert': Command('convert', '{0}/run {0}/exported', after='train', kills=30, once=True),
    'convert back': Command('convert', '{0}/exported {0}/imported', after='convert', once=True),
    'translate': Command(
        'translate', '--engine=command:cat --source_lang=de --target_lang=en '
        '--input={0}/texts.txt --output={0}/english.txt --cache={0}/cache', _lines,
        kills=25, once=True,
    ),
    'translate chain': Command(
        'translate', 'chain {0}/run translate:{0}/run --task=mtg_qg_en_de --root={0}/root '
        '--cache={0}/cache --workdir={0}/system', _chained, after='train', kills=25,
    ),
    'prompt': Command(
        'prompt', '{0}/run --task=mtg_qg_en_de --shots=0 --num_examples=2 --like={0}/run '
        '--cache={0}/cache --workdir={0}/prompted', _chained, after='train', kills=25,
    ),
    'report': Command('report', '{0}/run --output={0}/report', after='train', kills=30),
    'score': Command(
        'score', '{0}/answers.txt --references={0}/references.txt --lang=en '
        '--metrics=sacrebleu --workdir={0}/system', _system, kills=30,
    ),
    'annotate make': Command(
        'annotate', 'make {0}/a.jsonl {0}/b.jsonl --judges=anna,ben --items=60 '
        '--output={0}/study --seed=1', _systems, once=True,
    ),
    'annotate score': Command(
        'annotate', 'score {0}/study/key.json {0}/answers-anna.json {0}/answers-ben.json '
        '--output={0}/scores', _answers, after='annotate make',
    ),
    'annotate fit': Command(
        'annotate', 'fit {0}/scores/ratings.jsonl --lang=de --output={0}/rating.json',
        after='annotate score',
    ),
    'zoo': Command('zoo', '{0}/run --output={0}/zoo.md', after='train'),
    'fewshot report': Command(
        'fewshot', 'report {0}/sweep --output={0}/report', _finished_sweep
    ),
    'fewshot attention': Command(
        'fewshot', 'attention {0}/sweep --lang=de --shots=1 --bucket=0', _finished_sweep
    ),
    'data get': Command('data', 'get made_up --root={0}/data', stand_in=_mirrored),
    'prepare': Command(
        'prepare', '--mixture=news_title_de --split=train --root={0}/root '
        '--vocabulary={0}/root/sample.model', _files, kills=30,
    ),
    'data buckets': Command(
        'data', 'buckets sample --task=udpos --lang=de --shots=1,2 --output={0}/buckets '
        '{0}/train-de.tsv', _treebank, once=True,
    ),
    'data segment': Command('data', 'segment {0}/train.json {0}/val.json', _dialogues),
    'data mark': Command(
        'data', 'mark --model={0}/model --input={0}/val.json --output={0}/marked.json '
        '--batch_size=8', _language_model, once=True,
    ),
    'data triples': Command(
        'data', 'triples {0}/train.json --tagger=pos', _dialogues, stand_in=_a_tagger
    ),
    'data mrs_build': Command(
        'data', 'mrs_build {0}/dumps/RC_2018-01.zst {0}/dumps/RC_2018-02.bz2 --output={0}/mrs '
        '--language_model=reddit_files:identify --languages=en,de --min_count=2 --partitions=2 '
        '--max_bad=0.5 --workers=1 --engine=command:cat', _dumps,
        once=True,
    ),
    'data mtg_build build': Command(
        'data', 'mtg_build build --sg={0}/roc.csv --engine=command:cat --languages=de '
        '--sizes=4,2,3 --per_sheet=4 --output={0}/mtg', _stories,
    ),
    'data mtg_build correct': Command(
        'data', 'mtg_build correct --uncorrected --output={0}/mtg',
        after='data mtg_build build',
    ),
    'data dev_split': Command(
        'data', 'dev_split --root={0}/data --task=xnli --output={0}/out', _dev_sets
    ),
}  # fmt: skip
