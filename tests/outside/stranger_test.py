"""A stranger's own data and metrics, from files to an exported model, each trained with one line.

Everything runs in an empty folder beside a fresh clone, with relative paths and nothing that the
project's authors set: JSONL texts with a metric that is a plain function, a CSV of labels with the
quotes that pandas writes, CoNLL tags, topics in three languages with other labels in each, a table
that an encoder labels, a file of dialogues, and the registry file that a user of T5 has already.
The models train for a few steps: what they answer is nonsense, and the same nonsense everywhere.
"""

import csv
import json
import random
import re
import textwrap

import encoder_folders
import pytest
from newcomer import Newcomer
from pyarrow import parquet

TASKS = {
    'news': """
        import functools

        from xlbench import metrics, pipeline


        def length(targets, predictions, unit='words'):
            parts = [text.split() if unit == 'words' else text for text in predictions]
            return {'length': sum(map(len, parts)) / len(parts)}


        pipeline.register_text_task(
            'news_title_de',
            files={split: f'news/{split}.jsonl' for split in ('train', 'validation', 'test')},
            format='jsonl',
            fields={'inputs': 'text', 'targets': 'headline'},
            lang='de',
            metrics=[metrics.MultilingualRouge('de'), length],
        )
        """,
    'reviews': """
        from xlbench import pipeline

        pipeline.register_classification_task(
            'reviews_stars_en',
            files={'train': 'reviews/train.csv', 'test': 'reviews/test.csv'},
            text='review',
            label='stars',
            lang='en',
        )
        pipeline.register_tagging_task(
            'reviews_places_en',
            files={'train': 'reviews/train.conll', 'test': 'reviews/test.conll'},
            lang='en',
        )
        """,
    'topics': """
        from xlbench import pipeline


        def rare_recall(targets, predictions):
            rare = min(sorted(set(targets)), key=targets.count)
            hits = [p == rare for t, p in zip(targets, predictions, strict=True) if t == rare]
            return {'rare_recall': 100 * sum(hits) / len(hits)}


        for lang in ('en', 'fr', 'ha'):
            pipeline.register_classification_task(
                f'topics_topic_{lang}',
                files={split: f'topics/{lang}.{split}.jsonl' for split in ('train', 'test')},
                text='text',
                label='topic',
                lang=lang,
                headline='macro_f1',
                metrics=[rare_recall],
            )
        pipeline.add_mixture('topics_all', [f'topics_topic_{lang}' for lang in ('en', 'fr', 'ha')])
        """,
    'chat': """
        from xlbench import pipeline

        pipeline.register_dialogue_tasks(
            'chat', 'de', files={'train': 'chat/train.txt', 'test': 'chat/test.txt'}
        )
        """,
    # As it stands in many a repository; nothing of ours is in it.
    't5user': """
        import functools

        import seqio

        VOCABULARY = seqio.SentencePieceVocabulary('t5user/pieces.model')


        def split_line(dataset):
            def parts(line):
                import tensorflow as tf

                fields = tf.strings.split(line, '\\t')
                return {'inputs': fields[0], 'targets': fields[1]}

            return dataset.map(parts)


        def first_word(text, example=None, is_target=False):
            return text.split(' ')[0]


        def accuracy(targets, predictions):
            hits = sum(t == p for t, p in zip(targets, predictions))
            return {'accuracy': 100 * hits / len(targets)}


        seqio.TaskRegistry.add(
            't5user_first',
            source=seqio.TextLineDataSource(
                {'train': 't5user/train.tsv', 'test': 't5user/test.tsv'}
            ),
            preprocessors=[
                split_line,
                seqio.preprocessors.tokenize,
                seqio.CacheDatasetPlaceholder(),
                seqio.preprocessors.append_eos_after_trim,
            ],
            postprocess_fn=first_word,
            metric_fns=[accuracy],
            output_features={
                'inputs': seqio.Feature(VOCABULARY, add_eos=True, required=False),
                'targets': seqio.Feature(VOCABULARY, add_eos=True),
            },
        )
        """,
}
NAMES = (
    'Anna', 'Bernd', 'Clara', 'Dirk', 'Emma', 'Frank', 'Greta', 'Hans', 'Ida', 'Jan', 'Karla',
    'Lars',
)  # fmt: skip
PLACES = ['Rom', 'Paris', 'Wien', 'Bonn', 'Kiel', 'Jena']
# The labels of three languages: no language has all of them.
TOPICS = {'en': ['sport', 'health'], 'fr': ['sport', 'religion'], 'ha': ['health', 'politics']}
VERBS = ['reist', 'wandert', 'fährt', 'zieht', 'rennt', 'fliegt']


def sentences(split: str, count: int) -> list[tuple[str, str, str]]:
    """Made-up (name, verb, place); no split has those of another."""
    every = [(n, v, p) for n in NAMES for v in VERBS for p in PLACES]
    random.Random(0).shuffle(every)
    start = {'train': 0, 'validation': 200, 'test': 300}[split]
    return every[start : start + count]


def write_data(stranger: Newcomer) -> None:
    """The files as strangers have them."""
    for name, text in TASKS.items():
        stranger.write(f'tasks/{name}.py', textwrap.dedent(text))
    for split, count in (('train', 160), ('validation', 20), ('test', 20)):
        rows = sentences(split, count)
        lines = [
            {'text': f'{n} {v} heute nach {p} am See.', 'headline': f'{n} in {p}'}
            for n, v, p in rows
        ]
        stranger.write(
            f'data/news/{split}.jsonl', ''.join(json.dumps(line) + '\n' for line in lines)
        )
        path = stranger.write(f'data/reviews/{split}.csv', '')
        with open(path, 'w', encoding='utf-8', newline='') as file:
            writer = csv.writer(file)
            writer.writerow(['id', 'review', 'stars'])
            for i, (n, v, p) in enumerate(rows):  # With commas, quotes and a line end inside.
                writer.writerow([i, f'{n}, "who {v}",\nlikes {p}.', 'good' if p < 'M' else 'bad'])
        words = ''.join(f'{n} B-PER\n{v} O\nnach O\n{p} B-LOC\n\n' for n, v, p in rows)
        stranger.write(f'data/reviews/{split}.conll', words)
        for lang, topics in TOPICS.items():
            lines = [{'text': f'{n} {v} {p}', 'topic': topics[p < 'M']} for n, v, p in rows]
            text = ''.join(json.dumps(line) + '\n' for line in lines)
            stranger.write(f'data/topics/{lang}.{split}.jsonl', text)
        turns = [
            f'Wohin {v} {n}? __eou__ Nach {p}. __eou__ Und {n}? __eou__ Bleibt in {p}.'
            for n, v, p in rows
        ]
        stranger.write(f'data/chat/{split}.txt', '\n'.join(turns) + '\n')
        pairs = ''.join(f'{n} {v} nach {p}\t{p} ist das Ziel\n' for n, v, p in rows)
        stranger.write(f't5user/{split}.tsv', pairs)


@pytest.fixture(scope='module')
def stranger(tmp_path_factory) -> Newcomer:
    stranger = Newcomer(tmp_path_factory.mktemp('stranger'))
    write_data(stranger)
    return stranger


def train(
    stranger: Newcomer, mixture: str, objective: str, workdir: str, flags: str = '', code: int = 0
) -> str:
    config = f'finetune:tiny,objective={objective},mixture={mixture},steps=4,batch_size=4'
    command = f'python -m xlbench.train --config={config} --workdir={workdir} {flags}'
    return stranger.run(command, code=code)


@pytest.mark.nightly
def test_texts_and_a_metric_that_is_a_function(stranger):
    printed = train(stranger, 'news_title_de', 'generation', 'RUNS/news')
    assert 'length' in printed and 'rouge_l' in printed
    stranger.run('python -m xlbench.report RUNS/news --output=report')
    assert 'length' in (stranger.home / 'report' / 'report.md').read_text(encoding='utf-8')
    texts = [row[0] + ' wandert nach Rom.' for row in sentences('test', 8)]
    stranger.write('new.txt', ''.join(f'{text}\n' for text in texts))
    flags = '--target_lang=de --max_length=8 < new.txt'
    ours = stranger.answers(f'python -m xlbench.predict RUNS/news {flags}')
    assert ours.count('\n') == len(texts)
    stranger.run('python -m xlbench.convert RUNS/news exported/news')
    exported = stranger.answers(f'python -m xlbench.predict exported/news {flags}')
    assert exported == ours
    printed = stranger.answers(f'python {stranger.write("transform.py", TRANSFORM)}')
    theirs = json.loads(printed)
    assert theirs['ids'] == theirs['our_ids']
    if theirs['texts'] is None:
        pytest.skip('texts of the exported model need PyTorch; the ids of its tokens are the same')
    assert theirs['texts'] == ours.splitlines()


# The folder opened by the other library. The tag says in which language the model writes.
TRANSFORM = """
import importlib.util
import json

from transformers import AutoTokenizer

from xlbench.data import tokenizers

texts = [f'<de> {line}' for line in open('new.txt', encoding='utf-8').read().splitlines()]
tokenizer = AutoTokenizer.from_pretrained('exported/news')
ids = [tokenizer(text)['input_ids'] for text in texts]
ours = tokenizers.load('exported/news', '.')
answer = {'ids': ids, 'our_ids': [[*map(int, ours.encode(t)), ours.eos_id] for t in texts]}
answer['texts'] = None
if importlib.util.find_spec('torch'):
    from transformers import AutoModelForSeq2SeqLM

    model = AutoModelForSeq2SeqLM.from_pretrained('exported/news')
    outputs = [
        model.generate(**tokenizer(t, return_tensors='pt'), max_new_tokens=8) for t in texts
    ]
    answer['texts'] = [tokenizer.decode(o[0], skip_special_tokens=True) for o in outputs]
print(json.dumps(answer))
"""


@pytest.mark.nightly
def test_labels_and_tags(stranger):
    printed = train(stranger, 'reviews_stars_en', 'classification', 'RUNS/stars')
    assert 'labels:bad,good' in printed  # Those of the training data.
    train(stranger, 'reviews_places_en', 'tagging', 'RUNS/places')
    stranger.run('python -m xlbench.report RUNS/stars RUNS/places --output=report_labels')
    stranger.write('new.txt', 'Anna likes Rom.\nBernd likes Wien.\n')
    flags = '< new.txt'
    labels = stranger.answers(f'python -m xlbench.predict RUNS/stars {flags}')
    assert set(labels.split()) <= {'good', 'bad'} and labels.count('\n') == 2
    tags = stranger.answers(f'python -m xlbench.predict RUNS/places {flags}')
    assert set(tags.split()) <= {'O', 'B-PER', 'B-LOC'} and len(tags.split()) == 6
    for name, expected in (('stars', labels), ('places', tags)):
        stranger.run(f'python -m xlbench.convert RUNS/{name} exported/{name}')
        assert stranger.answers(f'python -m xlbench.predict exported/{name} {flags}') == expected


@pytest.mark.nightly
def test_three_languages_with_other_labels_and_a_metric(stranger):
    labels = 'labels in all tasks together: health, sport, religion, politics'
    task = 'topics_all', 'classification'
    printed = train(stranger, *task, 'RUNS/topics', '--dry_run')
    assert f'4 {labels}' in printed and 'of them trained' in printed
    printed = train(stranger, *task, 'RUNS/topics')
    assert 'topics_topic_fr has no examples of the labels health, politics' in printed
    assert re.search(r'macro_f1 +\| +topics_topic *\n +\| +en +fr +ha +avg', printed)
    assert 'rare_recall: tasks/topics.py:rare_recall' in printed
    stranger.run('python -m xlbench.report RUNS/topics --output=report_topics')
    text = (stranger.home / 'report_topics' / 'report.csv').read_text(encoding='utf-8')
    assert {'accuracy', 'macro_f1', 'rare_recall'} <= set(re.split(r'[,\n]', text))


@pytest.mark.nightly
def test_a_table_in_and_out_with_an_encoder(stranger):
    encoder_folders.write(stranger.home / 'models' / 'encoder')
    config = 'finetune:encoder,objective=classification,mixture=reviews_stars_en,steps=4'
    flags = '--config.model.from=models/encoder --workdir=RUNS/encoder'
    printed = stranger.run(f'python -m xlbench.train --config={config} {flags}')
    assert 'init_from models/encoder: ' in printed and 'of them trained' in printed
    stranger.write('new.csv', 'ticket,text,when\n007,"Anna, likes Rom.",Monday\n008,Wien,\n')
    predict = 'python -m xlbench.predict RUNS/encoder --input=new.csv --field=text --scores'
    stranger.run(f'{predict} --output=labelled.csv && {predict} --output=labelled.parquet')
    with open(stranger.home / 'labelled.csv', encoding='utf-8', newline='') as file:
        rows = [*csv.DictReader(file)]
    assert [(row['ticket'], row['when']) for row in rows] == [('007', 'Monday'), ('008', '')]
    assert rows[0]['text'] == 'Anna, likes Rom.'
    assert [*rows[0]] == ['ticket', 'text', 'when', 'prediction', 'score']
    assert {row['prediction'] for row in rows} <= {'good', 'bad'}
    table = parquet.read_table(stranger.home / 'labelled.parquet').to_pylist()
    assert [{**row, 'score': str(row['score'])} for row in table] == rows


@pytest.mark.nightly
def test_dialogues(stranger):
    printed = train(stranger, 'chat_retrieval_de_de', 'retrieval', 'RUNS/chat')
    assert 'mrs_rouge' in printed
    flags = '--target_lang=de --scores'
    command = f"echo 'Wohin reist Anna?' | python -m xlbench.predict {{}} {flags}"
    suggestions = stranger.answers(command.format('RUNS/chat'))
    assert suggestions.count('\n') == 3


@pytest.mark.nightly
def test_a_registry_file_that_was_written_for_t5(stranger):
    text = ''.join(f'{" ".join(row)}\n{row[2]} ist das Ziel\n' for row in sentences('train', 160))
    stranger.write('text.txt', text)
    trainer = (
        'import sentencepiece; sentencepiece.SentencePieceTrainer.train('
        "input='text.txt', model_prefix='t5user/pieces', vocab_size=90, hard_vocab_limit=False, "
        'pad_id=0, eos_id=1, unk_id=2, bos_id=-1, character_coverage=1.0)'
    )
    stranger.run(f'python -c "{trainer}"')
    task = 't5user_first', 'generation'
    printed = train(stranger, *task, 'RUNS/t5user', code=2)
    assert re.search('brings its own vocabulary.*--vocabulary=t5user/pieces.model', printed)
    flags = '--config.data.vocabulary=t5user/pieces.model'
    printed = train(stranger, *task, 'RUNS/t5user', flags)
    assert 'accuracy' in printed
    # The source changes: what was prepared is stale.
    path = stranger.home / 't5user' / 'test.tsv'
    path.write_text(path.read_text(encoding='utf-8') + 'Anna rennt nach Rom\tRom ist das Ziel\n')
    printed = train(stranger, *task, 'RUNS/again', flags)
    metrics = next((stranger.home / 'RUNS' / 'again').rglob('test/*/metrics.json'))
    assert json.loads(metrics.read_text(encoding='utf-8'))['num_examples'] == 21
