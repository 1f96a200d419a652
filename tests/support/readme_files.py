"""Files that a newcomer would have before a command of the documentation."""

import contextlib
import gzip
import json
import pathlib
import shutil
from collections.abc import Sequence
from unittest import mock

import encoder_folders
import judging
import model_folders
from newcomer import Newcomer

from xlbench.benchmarks import XQUAD
from xlbench.judgement import studies
from xlbench.prepare import __main__ as command
from xlbench.tasks.samples import clidsum, labels, mrs, mtg, translation

# Texts of the sample corpora, in place of thousands: most of a short run would be spent on them.
_FEW = (
    (mtg, {'SPLITS': {'rough_train': 400, 'train': 400, 'validation': 40, 'test': 40}}),
    (mrs, {'SPLITS': {'train': 600, 'valid': 40, 'test': 40}, 'MT_PAIRS': 200}),
    (
        labels,
        {
            'SPLITS': {
                'udpos': {'train': 400, 'dev': 40, 'test': 40},
                'xnli': {'train': 400, 'dev': 200, 'test': 40},
            },
            'BUCKETS': {'udpos': ('train', 4), 'xnli': ('dev', 4)},
        },
    ),
    (clidsum, {'SPLITS': {'train': 400, 'val': 40, 'test': 40}, 'INTERVIEWS': 400}),
    (translation, {'SPLITS': {'train': 400, 'validation': 40, 'test': 40}}),
)


def small_corpora(root: pathlib.Path, names: Sequence[str] = command.SAMPLES) -> None:
    """Writes the sample corpora with few texts; commands take them as they are."""
    with contextlib.ExitStack() as stack:
        for module, sizes in _FEW:
            stack.enter_context(mock.patch.multiple(module, **sizes))
        command.make_sample(str(root), names)


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
    for lang in XQUAD.languages:
        articles = []
        for i, name in enumerate(names.split()):
            context = words.get(lang, words['en']).format(name)
            answers = [{'text': name, 'answer_start': context.index(name)}]
            qas = [
                {'id': f'{i}-{j}', 'question': f'{question} {name}?', 'answers': answers}
                for j, question in enumerate(('Where', 'Who'))
            ]
            articles.append({'paragraphs': [{'context': context, 'qas': qas}]})
        newcomer.write(f'data/xquad/xquad.{lang}.json', json.dumps({'data': articles}))


def small_model(folder: pathlib.Path, family: str, tokenizer: str) -> None:
    """Writes a model of random weights in the form of Hugging Face, with its tokenizer."""
    sizes = {'emb_dim': 32, 'num_heads': 4, 'head_dim': 8, 'mlp_dim': 48, 'dropout_rate': 0.0}
    model_folders.write(folder, family, tokenizer, **sizes)


def hub(newcomer: Newcomer, name: str, family: str, tokenizer: str) -> None:
    """Puts a repository into the cache of the Hugging Face hub, as a download would leave it."""
    folder = newcomer.home / 'hub' / 'hub' / f'models--{name.replace("/", "--")}'
    small_model(folder / 'snapshots' / ('0' * 40), family, tokenizer)
    (folder / 'refs').mkdir()
    (folder / 'refs' / 'main').write_text('0' * 40)
    newcomer.write('english.txt', 'The house stands at a lake.\n')


def chats(newcomer: Newcomer) -> None:
    """DialoGPT in small, and two chats in the official form."""
    hub(newcomer, 'microsoft/DialoGPT-large', 'gpt2', 'gpt2')
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
    short = '--config.stages.source.num_steps=4 --config.stages.source.optimizer.warmup_steps=1'
    for task, name in (('xnli', 'xnli'), ('udpos', 'ner')):
        newcomer.run(
            f'python -m xlbench.train --config=configs/fewshot_source.py:sample,task={task} '
            f'--workdir=RUNS/{name} {short} --config.model.num_layers=1'
        )
    pair = {'premise': 'Es regnet.', 'hypothesis': 'Es ist nass.'}
    newcomer.write('pairs.jsonl', json.dumps(pair) + '\n')
    newcomer.write('pairs.csv', 'id,premise,hypothesis\n7,Es regnet.,"Es ist nass, sehr."\n')
    newcomer.write('test.conll', 'Paul\t_\nlives\t_\n\nHere\t_\n')


def published_outputs(newcomer: Newcomer) -> None:
    """Summaries that others have made, and those of people."""
    (newcomer.home / 'mdialbart_de.txt.gz').write_bytes(gzip.compress(b'anna kauft ein haus\n'))
    newcomer.write('gold.de.txt', 'Anna kauft ein Haus.\n')


def mozilla(newcomer: Newcomer) -> None:
    """A translator in Marian's own form, and lines to translate."""
    model_folders.write_marian(newcomer.home / 'firefox-en-pt')
    newcomer.write('english.txt', 'das Haus ist neu\nalt\n')


def two_translators(newcomer: Newcomer) -> None:
    """A translator in either direction, and texts for them: talk, questions and dialogues."""
    for name in ('firefox-en-pt', 'firefox-pt-en'):
        model_folders.write_marian(newcomer.home / name)
    for part in ('train', 'dev', 'test'):
        newcomer.write(f'data/talk/{part}.en.txt', f'das Haus ist neu\nalt im {part}\n')
        rows = ({'text': f'das Haus {i} im {part}', 'question': f'alt {i} ?'} for i in range(8))
        lines = ''.join(json.dumps(row) + '\n' for row in rows)
        newcomer.write(f'data/quiz/{part}.en.jsonl', lines)
        summaries = [f'summary{i}' for i in (1, 2, 3)] if part == 'test' else ['summary']
        chats = (
            {'fname': f'{part}_{i}', 'dialogue': f'#Person1#: das Haus {i}\n#Person2#: alt'}
            | {name: f'das Haus {i} ist {name}' for name in summaries}
            for i in range(8)
        )
        lines = ''.join(json.dumps(chat) + '\n' for chat in chats)
        newcomer.write(f'data/dialogsum/dialogsum.{part}.jsonl', lines)


def talk_pairs(newcomer: Newcomer) -> None:
    """An encoder, and dialogues of which pairs are made; `two_translators` came before."""
    own_encoder(newcomer)
    shutil.rmtree(newcomer.home / 'data/mrs/rsp_map')  # Of the replies before.
    for name in ('1k_part_data/dialogues_text_En', 'en_dev_human', 'en_test_human'):
        lines = (f'das Haus {i} im {name} . __eou__ ist {i} alt .\n' for i in range(8))
        newcomer.write(f'data/xdailydialog/{name}.txt', ''.join(lines))


def parallel_corpora(newcomer: Newcomer) -> None:
    """Clean training pairs, as OpusFilter leaves them, and the test sets."""
    lines = [f'The house of Ann has {i} doors.\tDas Haus hat {i} Türen.\n' for i in range(60)]
    for split, count in (('train', 60), ('validation', 8), ('test', 8)):
        path = f'data/translation/wmt20/en-de/{split}.tsv'
        newcomer.write(path, ''.join(lines[:count]))


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
            {'dialogue': [{'speaker': name, 'text': f'Who drives on day {i}?'}, 'Ben: I do.'],
             'summary': f'Ben drives {name} on day {i}.',
             'summary_de': f'Ben fährt {name} am Tag {i}.'}
            for name in names
        ]  # fmt: skip
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
    """A small encoder of random weights, as a user would have a public one, made once."""
    if not (folder := newcomer.home / 'models' / 'my-encoder').exists():
        encoder_folders.write(folder, max_positions=128)


def treebank(newcomer: Newcomer) -> None:
    """A training set to draw buckets from."""
    sample = newcomer.home / 'data' / 'sample' / 'fewshot'
    shutil.copy(sample / 'udpos' / 'train-de.tsv', newcomer.home)
