"""What the documentation says works: its commands and Python blocks, run by a newcomer.

The commands run as they are written, in a fresh clone and an empty folder beside it, with relative
paths. What takes minutes, or what the machine cannot have, is made small by flags behind the
command (`flags`), or by files of the right form that are there before (`prepare`). Whatever is not
run has its reason beside it (`skip`). A command without a line in PLAN fails the test, and so does
a page or heading with commands that is in none of GROUPS.
"""

import dataclasses
import gzip
import json
import pathlib
import re
import shutil
from collections.abc import Callable, Iterator, Sequence

import encoder_folders
import flax.linen as nn
import jax
import jax.numpy as jnp
import judging
import pages
import pytest
import tokenizer_files
from newcomer import Newcomer

from xlbench import models
from xlbench.data import tokenizers
from xlbench.huggingface import checkpoint
from xlbench.judgement import studies

pytestmark = pytest.mark.outside


@dataclasses.dataclass(frozen=True)
class Step:
    """How one command is run.

    Attributes:
      flags: what is added to it.
      prepare: what is done before.
      prints: a text that it prints.
      leaves: a file that is there afterwards.
      skip: why it is not run.
    """

    flags: str = ''
    prepare: Callable[[Newcomer], None] | None = None
    prints: str = ''
    leaves: str = ''
    skip: str = ''


# ---------------------------------------------------------------------------------------------
# What makes runs short.


def steps(*counts: int) -> str:
    """Flags for stages of so many steps."""
    return ' '.join(
        f'--config.stages.stage{i}.num_steps={count} '
        f'--config.stages.stage{i}.optimizer.warmup_steps=1'
        for i, count in enumerate(counts, 1)
    )


# A row of padding costs as much as an example.
_SCORE_FEW = ' '.join(
    f'--config.evals.{name}.{key}=8'
    for name in ('dev', 'test')
    for key in ('num_examples', 'batch_size')
)
# What is printed and left does not depend on the layers, and each takes seconds to compile.
_SHALLOW = '--config.model.num_encoder_layers=1 --config.model.num_decoder_layers=1'
_TINY = '--config.model.size=sample --config.model.vocab_size=0 --config.model.dtype=float32'
MTG_SHORT = f'{steps(3, 2)} {_SCORE_FEW} {_SHALLOW}'
MTG_TINY = f'{MTG_SHORT} {_TINY} --config.data.vocabulary=data/sample/sample.model'
_FEW_ROWS = '--config.batches.length_buckets=1 --config.batches.batch_size=4'
MTG_FRESH = f'{MTG_TINY} --config.init_from= {_FEW_ROWS}'
REPLIES_SHORT = f'{steps(3)} --config.model.num_layers=1'
REPLIES_TINY = (
    f'{steps(2)} {_TINY} --config.model.num_layers=1 --config.init_from= '
    '--config.data.vocabulary=data/sample/sample_mrs.model --config.batches.batch_size=16 '
    '--config.trainable="(\'.*\',)"'
)
CLIDSUM_SHORT = f'{steps(3)} {_SCORE_FEW} {_SHALLOW}'.replace('stage1', 'train')
SOURCE_SHORT = f'{steps(4)} --config.model.num_layers=1'.replace('stage1', 'source')
SWEEP_SHORT = (
    f'{SOURCE_SHORT.replace("config.", "config.source.")} --config.adapt.buckets=2 '
    "--config.adapt.epochs=1 --config.adapt.shots='(1, 4)' --config.adapt.learning_rates='(1e-3,)'"
)


# ---------------------------------------------------------------------------------------------
# Files that a newcomer would have.


def official_mtg(newcomer: Newcomer) -> None:
    """The official files of MTG in small: lines of the sample corpora, which have that form."""
    _heads(newcomer, 'mtg', ('*.src', '*.trg'), 40)


def official_mtg2(newcomer: Newcomer) -> None:
    """Summaries of version 2 in two languages, which are all that there is of it then."""
    for lang, text in (('en', 'a long text'), ('zh', '一篇长文')):
        for split in ('rough_train', 'train', 'validation', 'test'):
            for side in ('src', 'trg'):
                newcomer.write(f'data/mtg2/summ/{lang}/{split}.{side}', f'{text}\n' * 8)


def official_chats(newcomer: Newcomer) -> None:
    """The official chats of ClidSum in small."""
    for split in ('train', 'val', 'test'):
        path = f'clidsum/XSAMSum/{split}.json'
        chats = json.loads((newcomer.home / 'data/sample' / path).read_bytes())[:20]
        newcomer.write(f'data/{path}', json.dumps(chats))


def official_mrs(newcomer: Newcomer) -> None:
    """The official files of MRS in small."""
    _heads(newcomer, 'mrs', ('*.tsv*', '*.txt'), 60)


def _heads(newcomer: Newcomer, name: str, patterns: tuple[str, ...], count: int) -> None:
    source = newcomer.home / 'data' / 'sample'
    if not (source / name).exists():
        newcomer.run('python -m xlbench.prepare --sample')
    for pattern in patterns:
        for path in (source / name).rglob(pattern):
            lines = path.read_text(encoding='utf-8').splitlines(keepends=True)
            newcomer.write(f'data/{path.relative_to(source)}', ''.join(lines[:count]))


def interviews(newcomer: Newcomer) -> None:
    """The first interviews of the sample of MediaSum, and the ids of those in XMediaSum40k."""
    folder = newcomer.home / 'data/sample/clidsum/MediaSum424k'
    talks = json.loads((folder / 'news_dialogue.json').read_text())[:40]
    splits = json.loads((folder / 'train_val_test_split.40k.json').read_text())
    there = {talk['id'] for talk in talks}
    kept = {split: [name for name in ids if name in there] for split, ids in splits.items()}
    for name, content in (('news_dialogue', talks), ('train_val_test_split.40k', kept)):
        newcomer.write(f'{folder.relative_to(newcomer.home)}/{name}.json', json.dumps(content))


def apertium(newcomer: Newcomer) -> None:
    """Apertium, or what is called like it on a machine that has none."""
    if not shutil.which('apertium'):
        path = newcomer.clone.parent / 'bin' / 'apertium'
        pairs = 'echo eng-spa spa-eng'
        path.write_text(f'#!/bin/sh\ncase $1 in -l) {pairs};; -V) echo 3;; *) cat;; esac\n')
        path.chmod(0o755)


def replies_and_apertium(newcomer: Newcomer) -> None:
    """The official files of MRS in small, and Apertium."""
    official_mrs(newcomer)
    apertium(newcomer)


def xquad(newcomer: Newcomer) -> None:
    """Files of XQuAD's form: an article of one passage and two questions, twenty times."""
    words = {'en': 'The house of {} stands at a lake.', 'de': 'Das Haus von {} steht an einem See.'}
    words |= {'es': 'La casa de {} está junto a un lago.', 'zh': '{} 的房子在湖边。'}
    names = 'Ann Ben Carl Dora Emil Fay Gus Hana Ian Jo Kim Leo Mia Ned Ola Pia Rex Sam Tim Una'
    for lang, sentence in words.items():
        articles = []
        for i, name in enumerate(names.split()):
            context = sentence.format(name)
            answers = [{'text': name, 'answer_start': context.index(name)}]
            qas = [
                {'id': f'{i}-{j}', 'question': f'{question} {name}?', 'answers': answers}
                for j, question in enumerate(('Where', 'Who'))
            ]
            articles.append({'paragraphs': [{'context': context, 'qas': qas}]})
        newcomer.write(f'data/xquad/xquad.{lang}.json', json.dumps({'data': articles}))


def hub(name: str, family: str, tokenizer: str) -> Callable[[Newcomer], None]:
    """Puts a repository into the cache of the Hugging Face hub, as a download would leave it."""

    def fill(newcomer: Newcomer) -> None:
        folder = newcomer.home / 'hub' / 'hub' / f'models--{name.replace("/", "--")}'
        snapshot = folder / 'snapshots' / ('0' * 40)
        chosen = tokenizers.load(tokenizer_files.write(snapshot, tokenizer), '.')
        sizes = {'emb_dim': 32, 'num_heads': 4, 'head_dim': 8, 'mlp_dim': 48, 'dropout_rate': 0.0}
        sizes['vocab_size'] = chosen.vocab_size
        model = models.build(family, 'sample', **sizes)
        tokens = jnp.zeros((1, 4), jnp.int32)
        params = nn.unbox(model.init(jax.random.key(0), tokens, tokens))['params']
        ids = {'pad_id': chosen.pad_id, 'eos_id': chosen.eos_id, 'bos_id': chosen.pad_id}
        ids['decoder_start_id'] = chosen.pad_id
        checkpoint.save(folder / 'weights', family, model.config, params, ids, ())
        for path in (folder / 'weights').iterdir():
            shutil.copy(path, snapshot)
        (folder / 'refs').mkdir()
        (folder / 'refs' / 'main').write_text('0' * 40)
        newcomer.write('english.txt', 'The house stands at a lake.\n')

    return fill


def chats(newcomer: Newcomer) -> None:
    """DialoGPT in small, and two chats in the official form."""
    hub('microsoft/DialoGPT-large', 'gpt2', 'gpt2')(newcomer)
    chat = {'dialogue': 'Anna: Hi!\r\nBen: Hello, who is this?', 'summary': 'Anna greets Ben.'}
    newcomer.write('data/clidsum/XSAMSum/train.json', json.dumps([chat, chat]))


def texts(newcomer: Newcomer) -> None:
    """Articles, as lines and as JSON."""
    lines = ['Rome is an old city. <answer> Rome', 'The bridge is closed. <answer> bridge']
    newcomer.write('articles.txt', ''.join(f'{line}\n' for line in lines))
    newcomer.write('articles.jsonl', ''.join(json.dumps({'text': line}) + '\n' for line in lines))


def answers(newcomer: Newcomer) -> None:
    """What another system wrote for a test split, and two references of each."""
    count = len((newcomer.home / 'data/sample/mtg/qg/de/test.trg').read_text().splitlines())
    for name in ('answers', 'ref1', 'ref2'):
        newcomer.write(f'{name}.txt', ''.join(f'Wo ist Haus {i}?\n' for i in range(count)))


def judged(newcomer: Newcomer) -> None:
    """What two judges of the study saved, each with an opinion of their own."""
    study = studies.read(str(newcomer.home / 'study' / 'key.json'))
    for number, sheet in enumerate(study.sheets):
        file = judging.answers(
            study,
            sheet.judge,
            lambda system, aspect, item, n=number: 1 + (len(system + aspect) * (item + 3) + n) % 5,
        )
        newcomer.write(f'answers-{study.id}-{sheet.judge}.json', json.dumps(file))


def labellers(newcomer: Newcomer) -> None:
    """A classifier of pairs and a tagger, and what they shall answer."""
    for task, name in (('xnli', 'xnli'), ('udpos', 'ner')):
        newcomer.run(
            f'python -m xlbench.train --config=configs/fewshot_source.py:sample,task={task} '
            f'--workdir=RUNS/{name} {SOURCE_SHORT}'
        )
    pair = {'premise': 'Es regnet.', 'hypothesis': 'Es ist nass.'}
    newcomer.write('pairs.jsonl', json.dumps(pair) + '\n')
    newcomer.write('test.conll', 'Paul\t_\nlives\t_\n\nHere\t_\n')


def parallel_corpora(newcomer: Newcomer) -> None:
    """Corpora in the forms that WMT's are in, and the test sets."""
    pairs = [(f'The house of Ann has {i} doors.', f'Das Haus hat {i} Türen.') for i in range(60)]
    table = ''.join(f'{de}\t{en}\n' for en, de in pairs[:20])
    unit = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="de"><seg>{}</seg></tuv></tu>'
    memory = ''.join(unit.format(*pair) for pair in pairs[20:40])
    packed = {'europarl.tsv.gz': table, 'rapid.tmx.gz': f'<tmx><body>{memory}</body></tmx>'}
    for name, text in packed.items():
        (newcomer.home / name).write_bytes(gzip.compress(text.encode()))
    for side, lang in enumerate(('en', 'de')):
        newcomer.write(f'news.{lang}', ''.join(f'{pair[side]}\n' for pair in pairs[40:]))
    for split in ('validation', 'test'):
        lines = ''.join(f'{en}\t{de}\n' for en, de in pairs[:8])
        newcomer.write(f'data/translation/wmt20/en-de/{split}.tsv', lines)


def own_data(newcomer: Newcomer) -> None:
    """The files of a user's own that the task files of the pages read."""
    names = ['Anna', 'Bernd', 'Clara', 'Dirk', 'Emma', 'Frank', 'Greta', 'Hans']
    for i, split in enumerate(('train', 'dev', 'test')):
        rows = [
            {'text': f'{name} fährt {i} Tage.', 'headline': f'{name} fährt', 'lead': f'{name} {i}'}
            for name in names
        ]
        lines = ''.join(json.dumps(row) + '\n' for row in rows)
        newcomer.write(f'data/news/de.{split}.jsonl', lines)
        stars = ''.join(f'"{name}, {i}",{"good" if name < "D" else "bad"}\n' for name in names)
        newcomer.write(f'data/reviews/{split}.csv', f'review,stars\n{stars}')
        words = ''.join(f'{name} B-PER\ngoes{i} O\n\n' for name in names)
        newcomer.write(f'data/reviews/{split}.conll', words)
        turns = ''.join(f'Wo ist {name}? __eou__ Am See {i}.\n' for name in names)
        newcomer.write(f'data/chat/{split}.txt', turns)
        meetings = [
            {
                'dialogue': [{'speaker': name, 'text': f'Who drives on day {i}?'}, 'Ben: I do.'],
                'summary': f'Ben drives {name} on day {i}.',
                'summary_de': f'Ben fährt {name} am Tag {i}.',
            }
            for name in names
        ]
        lines = ''.join(json.dumps(meeting) + '\n' for meeting in meetings)
        newcomer.write(f'data/meetings/{split}.jsonl', lines)
    for lang, verb in (('en', 'walks'), ('de', 'geht')):
        lines = ''.join(f'{name} {verb}.\n' for name in names).encode()
        path = newcomer.home / f'data/subtitles/train.{lang}.gz'
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(lines))


def new_texts(newcomer: Newcomer) -> None:
    """Texts that the model of a task of one's own shall answer."""
    newcomer.write('new.txt', 'Anna fährt 3 Tage.\nBernd fährt 1 Tag.\n')


def own_encoder(newcomer: Newcomer) -> None:
    """A small encoder of random weights, as a user would have a public one."""
    (newcomer.home / 'models').mkdir(exist_ok=True)
    encoder_folders.write(newcomer.home / 'models' / 'my-encoder', max_positions=128)


def treebank(newcomer: Newcomer) -> None:
    """Published buckets, and a training set to draw others from."""
    sample = newcomer.home / 'data' / 'sample' / 'fewshot'
    shutil.copytree(sample / 'buckets', newcomer.home / 'data' / 'fewshot' / 'buckets')
    shutil.copy(sample / 'udpos' / 'train-de.tsv', newcomer.home)


# ---------------------------------------------------------------------------------------------
# The commands, by page.

_CI = 'what .ci/run does'
_PARSED = 'like those of your_own.md; tests/pages_test.py checks its flags'
_TRIMMED = 'tests/inference/trimming_test.py does so with a small encoder'
_EXHIBITS = 'tests/reporting/exhibits_test.py makes them; reports.md runs one such command'
_RANKED = 'tests/evaluators/evaluate_test.py runs such commands'
_PREFERRED = 'tests/judgement/judgement_test.py runs such commands'
_REDDIT = 'needs dumps of Reddit; tests/tasks/mrs_build_test.py has made-up ones'
_RENTED = 'needs machines that are rented'
_ELSEWHERE = 'needs PyTorch or faiss, in an environment of its own'
_VENV = '.venv/bin/python -m '
_MTG = 'python -m xlbench.train --config=configs/mtg_mt5.py'
_CLIDSUM = 'python -m xlbench.train --config=configs/clidsum_mbart.py'
_MDIALBART = 'python -m xlbench.train --config=configs/clidsum_mdialbart.py'
_TRANSLATION = 'python -m xlbench.train --config=configs/translation.py'
_MRS = 'python -m xlbench.train --config=configs/mrs_retriever.py'
_MRS_GENERATOR = 'python -m xlbench.train --config=configs/mrs_generator.py'
_RANKS = 'python -m xlbench.evaluate --workdir=RUNS/generator --num_beams=6'
_SWEEP = 'python -m xlbench.fewshot --config=configs/fewshot.py'
_FINETUNE = 'python -m xlbench.train --config=configs/finetune.py'
_PREDICT = 'python -m xlbench.predict RUNS'
_TRANS_SUM = (
    'python -m xlbench.translate --engine=RUNS/translator --source_lang=en --target_lang=de '
    '--input_task=clidsum_xsamsum_en_de'
)
_CHATS, _OF_DE = 'data/sample/clidsum/XSAMSum', '.translated.de.jsonl'
_MTG_BUILD = 'python -m xlbench.tasks.mtg_build'
PLAN: dict[str, dict[str, Step]] = {
    'README.md': {
        'make train': Step(skip=_CI),
        'make test': Step(skip=_CI),
    },
    'start.md': {
        'python3 -m venv .venv': Step(skip=_CI),
        f'{_VENV}pip install uv==0.13.8': Step(skip=_CI),
        f'{_VENV}uv pip install --require-hashes --requirement requirements.lock': Step(skip=_CI),
        f'{_VENV}uv pip install --no-deps --editable .': Step(skip=_CI),
        f'{_VENV}xlbench.train --config=configs/mtg_mt5.py': Step(
            skip='runs below, with --workdir=RUNS/mtg'
        ),
        f'{_VENV}ruff check . && .venv/bin/lint-imports': Step(skip=_CI),
        f'{_VENV}pytest -q --numprocesses=auto --maxprocesses=4 --dist=loadfile '
        '--no-loadscope-reorder -m "not outside"': Step(skip=_CI),
        f'{_MTG} --workdir=RUNS/mtg': Step(
            MTG_SHORT, prints='nearest_input', leaves='RUNS/mtg/DONE'
        ),
        'python -m xlbench.report RUNS/mtg --output=report': Step(leaves='report/report.html'),
        'python -m xlbench.evaluate --workdir=RUNS/mtg --tasks=mtg_qg_en_de': Step(
            prints='on 1 tasks'
        ),
    },
    'tracking.md': {
        f'{_MTG} --workdir=RUNS/tracked --config.trackers="(\'tensorboard\', \'wandb\')"': Step(
            skip='sends numbers to a server; tests/tracking/ does so offline'
        ),
        'export WANDB_MODE=offline': Step(skip='nothing follows that it changes'),
        'tensorboard --logdir=RUNS': Step(skip='a server, of a package that is not ours'),
        'mlflow ui --backend-store-uri=sqlite:///RUNS/tracked/mlflow.db': Step(
            skip='a server, of a package that is not ours'
        ),
        f'{_MTG} --config.trackers="(\'tensorboard\', \'tasks/csv_tracker.py:CsvTracker\')"': Step(
            '--dry_run',
            prints="config.trackers = ('tensorboard', 'tasks/csv_tracker.py:CsvTracker')",
        ),
    },
    'reports.md': {
        'python -m xlbench.report RUNS/mtg --output=report --plots': Step(
            leaves='report/mtg_test_scores.pdf'
        ),
        'python -m xlbench.score answers.txt --task=mtg_qg_de_de --like=RUNS/mtg '
        '--workdir=RUNS/other_system': Step(
            prepare=answers, leaves='RUNS/other_system/config.json'
        ),
        'python -m xlbench.score answers.txt --references=ref1.txt,ref2.txt --lang=de '
        '--metrics=sacrebleu,chrf': Step(prints='bleu'),
        'python -m xlbench.score answers.txt --references=ref1.txt --lang=de '
        '--metrics=ter,chrf++,meteor_exact_stem': Step(prints='meteor_exact_stem_no_tables'),
        'python -m xlbench.evaluate --workdir=RUNS/mtg --num_beams=4': Step(skip=_RANKED),
        'python -m xlbench.report RUNS/mtg --variants': Step(skip=_RANKED),
        'python -m xlbench.report RUNS/mtg RUNS/other_system --significance=bootstrap': Step(
            prints='Differences of rouge'
        ),
        'python -m xlbench.report RUNS/mtg --significance=t-test --against=stage1': Step(
            prints='mtg minus stage1'
        ),
        'python -m xlbench.report RUNS/mtg --table=7,14 --figure=3,5 --output=paper': Step(
            leaves='paper/figure5.png'
        ),
        'python -m xlbench.zoo RUNS/mtg RUNS/other_system --output=zoo.md': Step(
            leaves='zoo.md'
        ),
        'python -m xlbench.annotate make RUNS/mtg RUNS/other_system --tasks=mtg_qg_de_de '
        '--judges=anna,ben --output=study': Step(leaves='study/pages/ben.html'),
        'python -m xlbench.annotate score study/key.json answers-*.json '
        '--output=study/scores': Step(
            prepare=judged, prints='Krippendorff', leaves='study/scores/ratings.jsonl'
        ),
        'python -m xlbench.annotate fit study/scores/ratings.jsonl --output=rating.json': Step(
            prints='spearman', leaves='rating.json'
        ),
        'python -m xlbench.score answers.txt --references=ref1.txt --lang=de '
        '--fitted_rating=rating.json': Step(prints='fitted_on'),
    },
    'data.md': {
        'python -m xlbench.prepare --sample --mixture=mtg_qg_de_de --split=validation,test '
        '--card': Step(leaves='data/sample/prepared/sample/mtg_qg_de_de/README.md'),
        'python -m xlbench.data list': Step(prints='xquad'),
        'python -m xlbench.data list mrs': Step(prints='https://github.com/zhangmozhi/mrs'),
        'python -m xlbench.data get xquad --root=data': Step(
            skip='needs a connection; tests/data/corpora_test.py downloads from a local server'
        ),
        'python -m xlbench.data verify xquad --root=data': Step(
            skip='the published files are needed; tests/data/corpora_test.py verifies made-up ones'
        ),
    },
    'mtg.md': {
        f'{_MTG}:base': Step(f'{MTG_FRESH} --dry_run', official_mtg, prints='mtg_tg_fr_fr'),
        f'{_MTG}:base,scenario=mono,task=qg,source=de': Step(MTG_FRESH, prints='nearest_input'),
        f'{_MTG}:base,scenario=cross,task=qg,source=en': Step(
            f'{MTG_FRESH} --dry_run', prints='mtg_qg_en_de'
        ),
        f'{_MTG}:base,scenario=zero_shot,task=tg': Step(
            f'{MTG_FRESH} --dry_run', prints='mtg_tg_en_de'
        ),
        'python -m xlbench.evaluate --workdir=RUNS/mtg --num_beams=5': Step(
            prints='test-beam-num_beams5'
        ),
        'python -m xlbench.report RUNS/mtg --variants': Step(prints='beam-num_beams5'),
        'python -m xlbench.report RUNS/* --table=all --figure=all --output=paper': Step(
            skip=_EXHIBITS
        ),
        'python -m xlbench.report RUNS/* --table=3,5,8 --figure=2,7 '
        '--ratings=study/scores/ratings.jsonl --output=paper': Step(skip=_EXHIBITS),
        'python -m xlbench.report RUNS/* --table=6 --rough=built': Step(skip=_EXHIBITS),
        'python -m xlbench.report RUNS/mtg --format=mtg --output=submission': Step(
            skip='RUNS/mtg has scored 8 examples here; tests/reporting/leaderboard_test.py has all'
        ),
        f'{_MTG}:base,version=2,scenario=multi,task=summ': Step(
            f'{MTG_FRESH} --dry_run', official_mtg2, prints='mtg2_summ_zh_zh'
        ),
        'python -m xlbench.prepare --root=data --mixture=xquad_multi_qg --split=train '
        '--new_vocabulary=data/xquad/xquad.model --vocabulary_size=8000': Step(
            '--vocabulary_size=400', xquad, leaves='data/xquad/xquad.model'
        ),
        'python -m xlbench.train --config=configs/xquad_mt5.py:sample,scenario=multi': Step(
            f'{steps(4)} {_SHALLOW}', prints='nearest_input'
        ),
        f'{_MTG_BUILD} build --qg=data/xquad/xquad.en.json --engine=apertium --languages=es '
        '--sizes=60,30,60 --output=built': Step(
            # Forty made-up questions; the words of some are nobody's.
            '--sizes=6,4,6 --threshold=0.1',
            apertium,
            prints='| 0.5 |',
            leaves='built/mtg/qg/es/rough_train.trg',
        ),
        f'{_MTG_BUILD} correct corrected-*.json --output=built': Step(
            skip='people correct; tests/tasks/mtg_build_test.py does as they do'
        ),
        f'{_MTG_BUILD} correct --uncorrected --output=built': Step(
            leaves='built/mtg/qg/es/test.trg'
        ),
        f'{_MTG_BUILD} statistics --output=built': Step(prints='| qg es test | 6 |'),
        f'{_MTG}:base,scenario=cross,task=qg,source=en,target=es --config.data.root=built '
        '--workdir=RUNS/built': Step(MTG_FRESH, prints='nearest_input'),
        'python -m xlbench.convert models/my-encoder models/small --tokens_of=xquad_multi_qg '
        '--root=data': Step(skip=_TRIMMED),
        'python -m xlbench.train --config=configs/xquad_bert2bert.py:encoder,scenario=multi '
        '--config.model.from=models/small --config.evals.test.bertscore=models/my-encoder '
        '--workdir=RUNS/questions': Step(skip=_PARSED),
        'python -m xlbench.train --config=configs/masakhanews_bert2bert.py:encoder,task=tgdev '
        '--config.model.from=models/small --workdir=RUNS/headlines': Step(skip=_PARSED),
    },
    'mrs.md': {
        f'{_MRS} --workdir=RUNS/replies': Step(
            REPLIES_SHORT, prints='nearest_input', leaves='RUNS/replies/DONE'
        ),
        f'{_MRS_GENERATOR} --workdir=RUNS/generator': Step(skip=_PARSED),
        f'{_MRS_GENERATOR}:task=reverse --workdir=RUNS/reverse': Step(skip=_PARSED),
        f'{_RANKS} --rerank=RUNS/replies': Step(skip=_RANKED),
        f'{_RANKS} --mmi_model=RUNS/reverse': Step(skip=_RANKED),
        f'{_RANKS} --num_groups=3 --diversity_penalty=1 --num_return=3': Step(skip=_RANKED),
        'python -m xlbench.report RUNS/generator --variants': Step(skip=_RANKED),
        f'{_MRS_GENERATOR}:scenario=mono,source=de --config.init_from=RUNS/generator '
        '--config.lora.rank=8 --workdir=RUNS/adapter_de': Step(skip=_PARSED),
        'python -m xlbench.report RUNS/generator RUNS/adapter_* --variants': Step(skip=_RANKED),
        'python -m xlbench.annotate make RUNS/generator RUNS/replies --sets=3 --scale=replies '
        '--tasks=mrs_retrieval_en_en --output=replies_study': Step(skip=_PREFERRED),
        'python -m xlbench.report RUNS/generator RUNS/replies --figure=2 '
        '--ratings=replies_study/scores/ratings.jsonl': Step(skip=_PREFERRED),
        f'{_MRS}:mbert,scenario=mono,source=de --workdir=RUNS/mono_de': Step(
            REPLIES_TINY, official_mrs, leaves='RUNS/mono_de/DONE'
        ),
        f'{_MRS}:mbert,scenario=zero_shot --workdir=RUNS/zero_shot': Step(
            REPLIES_TINY, leaves='RUNS/zero_shot/DONE'
        ),
        'python -m xlbench.report RUNS/mono_* RUNS/zero_shot': Step(prints='Zero'),
        f'{_MRS}:scenario=mixed,source=de,dev=translated --workdir=RUNS/mixed_de': Step(
            skip=_PARSED
        ),
        f'{_MRS}:scenario=mixed,source=de,validation=code '
        '--config.stages.stage1.added.mt.rate=2.0 --workdir=RUNS/mixed_de_2': Step(skip=_PARSED),
        'python -m xlbench.train --config=configs/xdailydialog.py:encoder,scenario=zero_shot '
        '--config.model.from=models/my-encoder --workdir=RUNS/zero_shot_dialogues': Step(
            skip=_PARSED
        ),
        'python -m xlbench.train --config=configs/xpersona.py:encoder,scenario=zero_shot '
        '--config.model.from=models/my-encoder --workdir=RUNS/zero_shot_personas': Step(
            skip=_PARSED
        ),
        'python -m xlbench.tasks.mrs_build RC_2018-*.zst --output=data '
        '--engine=Helsinki-NLP/opus-mt-{source}-{target}': Step(skip=_REDDIT),
        'python -m xlbench.tasks.mrs_build RC_2018-*.zst --output=data_es '
        '--languages=en,es,pt --engine=apertium': Step(skip=_REDDIT),
        'python tests/speed/dual_encoder.py --torch_python=TORCH_ENV/bin/python': Step(
            skip=_ELSEWHERE
        ),
        'python tests/speed/search.py --faiss_python=FAISS_ENV/bin/python': Step(skip=_ELSEWHERE),
    },
    'fewshot.md': {
        f'{_SWEEP} --workdir=RUNS/fewshot': Step(SWEEP_SHORT, leaves='RUNS/fewshot/results.csv'),
        f'{_SWEEP}:mbert,task=panx --workdir=RUNS/panx': Step(
            skip='needs mBERT and the official files; its blocks are those of the sample'
        ),
        'python -m xlbench.fewshot.report RUNS/fewshot --output=RUNS/fewshot_report': Step(
            leaves='RUNS/fewshot_report/report.md'
        ),
        f'{_SWEEP}:encoder,languages=de+tr+ta+zh+mr,methods=full+fc '
        '--config.source.model.from=models/my-encoder --workdir=RUNS/pos '
        '--report=RUNS/pos_report': Step(
            f'{SWEEP_SHORT} --config.source.data.root=data/sample --config.source.data.sample=True '
            '--config.adapt.languages="(\'de\',)" --config.adapt.methods="(\'fc\',)"',
            prepare=own_encoder,
            leaves='RUNS/pos_report/report.md',
        ),
        'python -m xlbench.tasks.dev_split --root=data --task=xnli --output=data/dev_split': Step(
            '--root=data/sample', leaves='data/dev_split/fewshot/xnli/train-en.tsv'
        ),
        f'{_SWEEP}:encoder,task=xnli,languages=de+es+sw+zh,methods=full+fc+fc_pooler '
        '--config.source.model.from=models/my-encoder --config.source.data.root=data/dev_split '
        '--workdir=RUNS/xnli': Step(skip='as the sweep over parts of speech, in other languages'),
        'python -m xlbench.fewshot --config=configs/fewshot_any.py:mbert,task=mood,source=en,'
        'languages=de+fr --workdir=RUNS/mood': Step(
            skip='needs mBERT; tests/training/finetune_test.py sweeps over a task of its own'
        ),
        'python -m xlbench.buckets check data/fewshot/buckets': Step(
            prepare=treebank, prints='udpos'
        ),
        'python -m xlbench.buckets sample --task=udpos --lang=de --shots=1,2,4 '
        '--output=data/fewshot/buckets train-de.tsv': Step(
            skip='the folder of the line before holds them; tests/data/buckets_test.py draws them'
        ),
        'python tests/speed/fewshot.py --torch_python=TORCH_ENV/bin/python '
        '--method=fc_pooler': Step(skip=_ELSEWHERE),
    },
    'clidsum.md': {
        f'{_CLIDSUM} --workdir=RUNS/clidsum': Step(
            CLIDSUM_SHORT, prints='longest_utterance', leaves='RUNS/clidsum/DONE'
        ),
        f'{_CLIDSUM}:sample,corpus=xmediasum40ksummary,target=de --workdir=RUNS/en_de': Step(
            CLIDSUM_SHORT, leaves='RUNS/en_de/DONE'
        ),
        'python -m xlbench.translate --engine=RUNS/en_de --source_lang=en --target_lang=de '
        '--lower --input=data/sample/clidsum/MediaSum424k/news_dialogue.json --field=summary '
        '--keep=id --output=data/sample/clidsum/MediaSum424k/summaries.de.jsonl': Step(
            '--max_length=4', interviews, prints='40 texts: 0 known, 40 translated'
        ),
        f'{_CLIDSUM}:sample,scenario=semi,target=de --workdir=RUNS/semi': Step(
            CLIDSUM_SHORT,
            prints='clidsum_mediasum424kpseudo_en_de, then clidsum_xmediasum40k_en_de',
            leaves='RUNS/semi/DONE',
        ),
        f'{_MDIALBART} --workdir=RUNS/mdialbart': Step(
            skip='prepares noise for minutes; the next one has two of its tasks'
        ),
        f'{_MDIALBART}:pretraining=mds+mt,target=de --workdir=RUNS/mds_mt': Step(
            f'{steps(4, 4)} {_SCORE_FEW} {_SHALLOW}',
            prints='batches of 16 rows x (192 inputs + 192 targets)',
            leaves='RUNS/mds_mt/DONE',
        ),
        'python -m xlbench.triples data/clidsum/XSAMSum/train.json --tagger=RUNS/pos': Step(
            skip='needs a trained tagger; tests/inference/labeller_test.py runs it with one'
        ),
        'python -m xlbench.train --config=configs/clidsum_summariser.py:sample,model=mvbart '
        '--workdir=RUNS/mvbart': Step(CLIDSUM_SHORT, leaves='RUNS/mvbart/DONE'),
        'python -m xlbench.segment data/clidsum/XSAMSum/*.json': Step(
            prepare=official_chats, leaves='data/clidsum/XSAMSum/test.views.jsonl'
        ),
        'python -m xlbench.mark_dialogues --model=microsoft/DialoGPT-large '
        '--input=data/clidsum/XSAMSum/train.json --output=marked/clidsum/XSAMSum/train.json': Step(
            prepare=chats, leaves='marked/clidsum/XSAMSum/train.json'
        ),
        'python -m xlbench.data statistics clidsum_xsamsum_en_de clidsum_xsamsum_en_zh '
        '--root=data/sample': Step(prints='| clidsum_xsamsum_en_zh test |'),
        'python -m xlbench.data get convsumx --root=data': Step(skip='needs a connection'),
        'python -m xlbench.train --config=configs/convsumx.py --workdir=RUNS/convsumx': Step(
            skip='the published files are needed; tests/tasks/convsumx_test.py reads made-up ones'
        ),
    },
    'translation.md': {
        f'{_TRANSLATION} --workdir=RUNS/translation': Step(
            CLIDSUM_SHORT, prints='word_by_word', leaves='RUNS/translation/DONE'
        ),
        'python -m xlbench.data clean --source_lang=en --target_lang=de --workers=2 '
        '--output=data/translation/wmt20/en-de/train.tsv europarl.tsv.gz:2,1 rapid.tmx.gz '
        'news.en,news.de': Step(prepare=parallel_corpora, prints='60 pairs read, 60 kept'),
        f'{_TRANSLATION}:base,target=de': Step('--dry_run', prints='translation_wmt20_en_de'),
        'python -m xlbench.translate --engine=apertium --source_lang=en --target_lang=es '
        "--input='data/mrs/train/en/*.tsv*' --format=tsv --field=1,2 --failed=drop "
        '--output=data/mrs/mt_train/es/en.tsv': Step(
            prepare=replies_and_apertium, leaves='data/mrs/mt_train/es/en.about.json'
        ),
        f'{_MRS}:mbert,scenario=mt,source=es --workdir=RUNS/mt_es': Step(
            REPLIES_TINY, leaves='RUNS/mt_es/DONE'
        ),
        'python -m xlbench.translate --engine=apertium --source_lang=en --target_lang=es '
        '--input=RUNS/mtg --input_task=mtg_qg_en_en --output=questions.es.jsonl '
        '--task=mtg_qg_es_es --like=RUNS/mtg --workdir=RUNS/generated_then_translated': Step(
            '--num_examples=8', leaves='RUNS/generated_then_translated/config.json'
        ),
        'python -m xlbench.report RUNS/mtg RUNS/generated_then_translated': Step(
            prints='generated_then_translated'
        ),
        f'{_CLIDSUM}:sample,scenario=mono --workdir=RUNS/summariser': Step(
            CLIDSUM_SHORT, leaves='RUNS/summariser/DONE'
        ),
        f'{_CLIDSUM}:sample,corpus=xsamsumsummary,target=de --workdir=RUNS/translator': Step(
            CLIDSUM_SHORT, leaves='RUNS/translator/DONE'
        ),
        'python -m xlbench.chain RUNS/summariser translate:RUNS/translator '
        '--task=clidsum_xsamsum_en_de --workdir=RUNS/sum_trans': Step(
            '--num_examples=8', prints='rouge_1', leaves='RUNS/sum_trans/config.json'
        ),
        'python -m xlbench.report RUNS/clidsum RUNS/sum_trans': Step(
            prints='summariser + translator'
        ),
        f'{_TRANS_SUM} --split=train --like=RUNS/clidsum --output={_CHATS}/train{_OF_DE}': Step(
            '--num_examples=40', leaves=f'{_CHATS}/train.translated.de.about.json'
        ),
        f'{_TRANS_SUM} --split=validation --like=RUNS/clidsum --output={_CHATS}/val{_OF_DE}': Step(
            '--num_examples=8', leaves=f'{_CHATS}/val.translated.de.about.json'
        ),
        f'{_TRANS_SUM} --split=test --like=RUNS/clidsum --output={_CHATS}/test{_OF_DE}': Step(
            '--num_examples=8', leaves=f'{_CHATS}/test.translated.de.about.json'
        ),
        f'{_CLIDSUM}:sample,scenario=mono,corpus=xsamsumtranslated,source=de '
        '--workdir=RUNS/summariser_de': Step(CLIDSUM_SHORT, leaves='RUNS/summariser_de/DONE'),
        'python -m xlbench.chain translate:RUNS/translator RUNS/summariser_de '
        '--task=clidsum_xsamsum_en_de --root=data/sample --workdir=RUNS/trans_sum': Step(
            '--num_examples=8', leaves='RUNS/trans_sum/config.json'
        ),
    },
    'checkpoints.md': {
        f'{_MTG}:base --config.init_from=google/mt5-base@main': Step(
            f'{MTG_TINY} --dry_run',
            hub('google/mt5-base', 'mt5', 'mt5'),
            prints='google/mt5-base',
        ),
        f'{_MTG} --config.init_from=RUNS/mtg': Step(f'{MTG_SHORT} --dry_run', prints='RUNS/mtg'),
        'python -m xlbench.convert facebook/mbart-large-50 RUNS/mbart '
        "--extra_tokens='[summarize]'": Step(
            '',
            hub('facebook/mbart-large-50', 'mbart', 'mbart50'),
            leaves='RUNS/mbart/config.json',
        ),
        'python -m xlbench.convert RUNS/mtg exported/mtg --dtype=bfloat16': Step(
            leaves='exported/mtg/model.safetensors'
        ),
        'python -m xlbench.convert models/my-encoder models/small --tokens_of=xquad_multi_qg '
        '--root=data': Step(skip=_TRIMMED),
    },
    'inference.md': {
        f'{_PREDICT}/mtg --target_lang=de < articles.txt > titles.txt': Step(
            prepare=texts, leaves='titles.txt'
        ),
        f'{_PREDICT}/mtg --input=articles.jsonl --field=text --output=titles.jsonl '
        '--target_lang=de --num_beams=5 --num_return=3 --scores': Step(leaves='titles.jsonl'),
        'python -m xlbench.predict Helsinki-NLP/opus-mt-en-de < english.txt': Step(
            prepare=hub('Helsinki-NLP/opus-mt-en-de', 'marian', 'marian'), prints='1 texts'
        ),
        f'{_PREDICT}/xnli --input=pairs.jsonl --field=premise,hypothesis --scores': Step(
            prepare=labellers, prints='"score"'
        ),
        f'{_PREDICT}/ner --input=test.conll --output=tagged.conll': Step(leaves='tagged.conll'),
        'python tests/speed/beam_search.py --torch_python=TORCH_ENV/bin/python '
        '--vocab_size=250112': Step(skip=_ELSEWHERE),
    },
    'migration.md': {
        f'{_FINETUNE}:mt5_base,mixture=news_title_de,steps=3000,batch_size=32 '
        '--config.accumulate=2 --workdir=RUNS/news_mt5': Step(skip=_PARSED),
        f'{_FINETUNE}:mt5_base,mixture=news_title_de,steps=3000,batch_size=128,inputs=512 '
        '--config.model.dropout_rate=0.1 --workdir=RUNS/titles': Step(skip=_PARSED),
        f'{_FINETUNE}:encoder,objective=retrieval,mixture=chat_retrieval_de_de '
        '--config.model.from=models/my-encoder --config.objective.loss=softmax '
        '--workdir=RUNS/chat': Step(skip=_PARSED),
    },
    'your_own.md': {
        f'{_FINETUNE}:mt5_base,mixture=news_title_de': Step(
            f'{_TINY} --config.data.vocabulary=google/mt5-base --dry_run',
            hub('google/mt5-base', 'mt5', 'mt5'),
            prints='news_title_de',
        ),
        f'{_FINETUNE}:tiny,objective=generation,mixture=news_title_de --workdir=RUNS/news': Step(
            '--config.stages.train.num_steps=4', leaves='RUNS/news/DONE'
        ),
        'python -m xlbench.report RUNS/news --output=report': Step(leaves='report/report.html'),
        'python -m xlbench.predict RUNS/news --target_lang=de --input=new.txt '
        '--output=answers.txt': Step(prepare=new_texts, leaves='answers.txt'),
        f'{_FINETUNE}:gpt2,mixture=news_title_de': Step(
            f'{_TINY} --config.data.vocabulary=openai-community/gpt2 --dry_run',
            hub('openai-community/gpt2', 'gpt2', 'gpt2'),
            prints='news_title_de',
        ),
        f'{_FINETUNE}:encoder,objective=tagging,mixture=reviews_places_en '
        '--config.model.from=models/my-encoder --workdir=RUNS/places': Step(
            f'{steps(4)} --config.batches.batch_size=4'.replace('stage1', 'train'),
            prepare=own_encoder,
            prints='rows occur in the training data',
        ),
    },
    'reproduce.md': {
        'python -m xlbench.reproduce mrs --list': Step(prints='table 3   retrieval, mBERT: 21'),
        'python -m xlbench.reproduce mrs --table=3 --dry_run': Step(prints='of 20 commands done'),
        'python -m xlbench.reproduce mtg --table=14 --models=mT5 --workdir=RUNS/tables': Step(
            '--steps=0.005 --examples=4', leaves='RUNS/tables/reproduce/tables/mtg-table-14.md'
        ),
        'python -m xlbench.reproduce fewshot --table=12 --steps=0.1': Step(
            skip='a sweep takes minutes; tests/reproduce/ runs such a table with made-up results'
        ),
        'python -m xlbench.reproduce mtg --table=14 --models=mT5 --size=paper --topology=h100:8 '
        '--dry_run': Step(prints='hours on h100:8'),
        'python -m xlbench.reproduce mtg --figure=4 --size=paper --launch=slurm': Step(
            leaves='RUNS/mtg-paper/reproduce/launch/submit.sh'
        ),
        'RUNS/mtg-paper/reproduce/launch/submit.sh --gpus-per-node=8': Step(skip=_RENTED),
    },
    'devices.md': {
        f'{_MTG.replace("train", "plan")} --topology=cpu:8 --config.mesh.fsdp=2': Step(
            f'{_TINY}', prints='all-gather'
        ),
        'python -m xlbench.plan --config=configs/mtg_mbart.py:large_v5e_4x4 '
        '--topology=v5e:4x4': Step(skip="needs pip install -e '.[tpu]', and minutes"),
        'python -m xlbench.plan --config=configs/mtg_mt5.py:base --topology=h100:1': Step(
            prints='stage1: 11h'
        ),
        'launch/local.sh 2 --config=configs/mtg_mt5.py': Step(
            skip='needs .venv in the clone; tests/parallel/launch_test.py runs the script'
        ),
        'sbatch --nodes=2 --gpus-per-node=8 launch/slurm.sbatch --config=configs/mtg_mt5.py:base '
        '--workdir=RUNS/qg': Step(skip=_RENTED),
        'NAME=xl ZONE=... TYPE=... launch/tpu_vm.sh --config=configs/mtg_mt5.py:base': Step(
            skip=_RENTED
        ),
        'MODULE=xlbench.evaluate launch/local.sh 2 --workdir=RUNS/mtg': Step(
            skip='needs .venv in the clone; tests/parallel/launch_test.py runs the script'
        ),
        f"{_VENV}uv pip install --editable '.[beam]'": Step(skip='would change this environment'),
        'python -m xlbench.prepare --beam --mixture=mrs_multi --root=/mnt/data -- '
        '--runner=FlinkRunner --flink_master=HOST:8081': Step(skip=_RENTED),
    },
}


def _commands() -> Iterator[pages.Block]:
    """The blocks of commands that are not copied from a finished run, as those of the zoo are."""
    return (block for block in pages.blocks('sh') if block.page != 'zoo.md')


def test_every_command_has_a_plan():
    written = {page: [] for page in PLAN}
    for block in _commands():
        written.setdefault(block.page, []).extend(block.commands)
    for page, commands in written.items():
        assert len(commands) == len(set(commands)), page
        assert set(commands) == set(PLAN.get(page, {})), page
    assert all(s.skip or s.prints or s.leaves for plan in PLAN.values() for s in plan.values())


# One newcomer follows the places of a group, one after another.
GROUPS = (
    (
        'README.md',
        'start.md',
        'reports.md',
        'tracking.md',
        'mtg.md',
        'checkpoints.md',
        'inference.md',
        'translation.md#Machine translation',
        'devices.md',
        'reproduce.md',
    ),
    (
        'data.md',
        'clidsum.md',
        'translation.md#Translators from parallel texts',
        'mrs.md',
        'fewshot.md',
        'translation.md#Chains',
    ),
    ('migration.md', 'your_own.md'),
)


@pytest.mark.parametrize('places', GROUPS, ids=lambda places: places[-1])
def test_the_commands_work(places: Sequence[str], tmp_path, corpora):
    newcomer = Newcomer(tmp_path)
    if corpora.exists() and 'clidsum.md' in places:
        shutil.copytree(corpora, newcomer.home / 'data' / 'sample')
    programs = {place: [] for place in places}
    for block in pages.blocks('python'):
        if match := re.match(r'# (tasks/\w+\.py)\n', block.text):
            own_data(newcomer)
            before = newcomer.home / match[1]
            newcomer.write(match[1], (before.read_text() if before.exists() else '') + block.text)
        else:
            for place in filter(block.is_at, places):
                programs[place].append(block.text)
    for place in places:
        for block in filter(lambda block: block.is_at(place), pages.blocks('sh')):
            for command in block.commands:
                follow(newcomer, command, PLAN[block.page][command])
    for program in filter(None, programs.values()):  # The blocks of a place are one program.
        newcomer.write('block.py', '\n'.join(program))
        newcomer.run('python block.py')
    if 'your_own.md' in places:
        names = (
            'news_lead_de,reviews_stars_en:test,reviews_places_en:test,chat_retrieval_de_de:test,'
            'meetings_summary_en_de:test,meetings_translation_en_de:test,'
            'subtitles_translation_en_de'
        )
        newcomer.run(
            f'python -m xlbench.prepare --mixture={names} --split=train '
            '--vocabulary=data/news_title_de.model'
        )
    if not corpora.exists() and (newcomer.home / 'data' / 'sample').exists():
        shutil.copytree(
            newcomer.home / 'data' / 'sample', corpora, ignore=shutil.ignore_patterns('prepared')
        )


@pytest.fixture(scope='module')
def corpora(tmp_path_factory) -> pathlib.Path:
    """The sample corpora, as the first newcomer's first command has made them for the others."""
    return tmp_path_factory.mktemp('corpora') / 'sample'


def follow(newcomer: Newcomer, command: str, step: Step) -> None:
    """Runs a command as its step says."""
    if step.skip:
        return
    if step.prepare:
        step.prepare(newcomer)
    head, redirect, target = command.partition(' < ')
    printed = newcomer.run(
        f'{head} {step.flags}{redirect}{target}', HF_HOME=str(newcomer.home / 'hub')
    )
    assert step.prints in printed, f'{command} printed\n{printed}'
    assert not step.leaves or (newcomer.home / step.leaves).exists(), printed


def test_every_command_and_program_is_followed_once():
    places = [place for group in GROUPS for place in group]
    for block in (*_commands(), *pages.blocks('python')):
        assert sum(map(block.is_at, places)) == 1, (block.page, block.heading)
