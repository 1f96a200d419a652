"""The sample corpora of labels: tags, hypotheses, buckets, vocabulary."""

import collections
import pathlib
import random
import re

import pytest
import sample_files

from xlbench import pipeline
from xlbench.benchmarks import FEWSHOT
from xlbench.data import buckets, conllu, labelled, tokenizers
from xlbench.tasks.samples import labels, lexicon

SPLITS = labels.SPLITS
DEVELOPMENT = {'train': 'trn', 'dev': 'val', 'test': 'tst'}


@pytest.fixture
def root(written) -> pathlib.Path:
    return written(labels)


def test_the_bytes_of_seed_0_stay(root):
    sample_files.check_seed_0(root, labels.SAMPLE)


def sentences(root, split, lang):
    return list(conllu.read_tagged(str(root / 'fewshot' / 'udpos' / f'{split}-{lang}.tsv')))


def pairs(root, split, lang):
    path = root / 'fewshot' / 'xnli' / f'{split}-{lang}.tsv'
    return list(labelled.read_xnli(str(path), lang, DEVELOPMENT[split]))


@pytest.mark.parametrize('task', FEWSHOT.tasks)
def test_every_task_has_its_official_files_labels_and_buckets(root, task):
    with pipeline.bound('sample_fewshot', str(root)):
        for lang in lexicon.LANGUAGES:
            source = pipeline.get(FEWSHOT.task_name(task, lang)).source
            for split, name in {'train': 'train', 'validation': 'dev', 'test': 'test'}.items():
                if split not in source.splits:
                    continue
                found = list(source.read(split, *source.paths(split)))
                assert [type(r) for r in found] == [dict] * SPLITS[task][name]
                if task not in FEWSHOT.tagging:
                    counts = collections.Counter(record['label'] for record in found)
                    assert {*counts} == {*labelled.LABELS[task]}
                    assert min(counts.values()) > 0.5 * len(found) / len(counts)
            shots = f'shots_{FEWSHOT.shots(task)[-1]}'
            if lang != 'en':
                few = list(source.read(shots, *source.paths(shots)))
                assert len({record['bucket'] for record in few}) == labels.BUCKETS[task][1]


def test_what_is_no_paraphrase_has_two_roles_changed():
    rng = random.Random(2)
    seen = set()
    for first, second, same in (labels.paraphrase(rng)['en'] for _ in range(100)):
        assert {*first.lower().split()} - {*second.lower().split()} != {*first.lower().split()}
        targets = [re.search(r' from (\w+)', text) for text in (first, second)]
        if targets[0]:
            assert (targets[0][1] == targets[1][1]) == (same == '1')
        else:
            sellers = [re.search(r'(\w+) sold', text)[1] for text in (first, second)]
            assert (sellers[0] == sellers[1]) == (same == '1')
        seen.add((same, bool(targets[0])))
    assert len(seen) == 4


def test_entities_are_named_whole():
    rng = random.Random(3)
    made = (labels.TASKS['panx'](rng)['fr'] for _ in range(100))
    found = {tag for _, tags in made for tag in tags.split()}
    assert found == {'O', 'B-PER', 'B-LOC', 'B-ORG', 'I-ORG'}


def test_tags_are_the_same_set_in_every_language_up_to_particles(root):
    for lang in lexicon.LANGUAGES:
        for split in SPLITS['udpos']:
            tags = {tag for r in sentences(root, split, lang) for tag in r['tags'].split()}
            assert {
                'ADJ', 'ADP', 'ADV', 'AUX', 'CCONJ', 'DET', 'INTJ', 'NOUN', 'NUM', 'PRON', 'PROPN',
                'PUNCT', 'SCONJ', 'SYM', 'VERB',
            } == tags - {'PART'}  # fmt: skip


@pytest.mark.parametrize(
    'lang, slot, text, tags',
    [
        ('en', 'the_object', 'the old clock', 'DET ADJ NOUN'),
        ('de', 'a_object', 'einen schwarzen Hut', 'DET ADJ NOUN'),
        ('fr', 'the_object', "l'écharpe chaude", 'DET NOUN ADJ'),
        ('fr', 'a_object', 'une vieille horloge', 'DET ADJ NOUN'),
        ('fr', 'a_object', 'une flûte en bois', 'DET NOUN ADP NOUN'),
        ('fr', 'a_object', 'un appareil photo neuf', 'DET NOUN NOUN ADJ'),
        ('es', 'the_object', 'el anillo de oro', 'DET NOUN ADP NOUN'),
        ('es', 'time', 'el lunes', 'DET NOUN'),
        ('es', 'time', 'en Navidad', 'ADP PROPN'),
        ('en', 'time', 'on Monday', 'ADP PROPN'),
        ('de', 'time', 'am Montag', 'ADP NOUN'),
        ('fr', 'time', 'lundi', 'NOUN'),
        ('es', 'things', 'libros', 'NOUN'),
        ('fr', 'number', 'dix-sept', 'NUM'),
    ],
)
def test_phrases_are_tagged(lang, slot, text, tags):
    said = (lexicon.phrases(lang, lexicon.sample(random.Random(n)))[slot] for n in range(1000))
    (phrase,) = {one for one in said if lexicon.plain(one) == text}
    assert re.findall('/([A-Z]+)', phrase) == tags.split()


def test_a_hypothesis_says_of_the_premise_what_its_label_says():
    rng = random.Random(1)
    for _ in range(200):
        premise, hypothesis, label = labels.entailment(rng)['en']
        assert ('never' in hypothesis or ' not ' in hypothesis) == (label == 'contradiction')
        known = {*premise.casefold().strip('.').replace(',', '').split()}
        new = {*hypothesis.casefold().strip('.').replace(',', '').split()} - known
        if label == 'entailment':
            assert new <= {'this', 'happened'}
        elif label == 'neutral':
            assert new & {'laughed', 'lives'}


def test_buckets_are_whole_and_leave_half_of_the_dev_set(root):
    folder = str(root / 'fewshot' / 'buckets')
    found = [bucket for file in buckets.find(folder) for bucket in buckets.read(file)]
    places = {(b.task, b.shots, b.lang) for b in found}
    assert places == {
        (task, shots, lang)
        for task in FEWSHOT.tasks
        for shots in FEWSHOT.shots(task)
        for lang in ('de', 'es', 'fr')
    }
    for lang in ('de', 'es', 'fr'):
        words = {(r['words'], r['tags']) for r in sentences(root, 'train', lang)}
        dev = {record['uid']: record for record in pairs(root, 'dev', lang)}
        for shots in (1, 2, 4, 8):
            own = [b for b in found if (b.task, b.shots, b.lang) == ('xnli', shots, lang)]
            assert len(own) == 16
            assert all(dev[e['uid']] == e for bucket in own for e in bucket.examples)
            taken = {e['uid'] for bucket in own for e in bucket.examples}
            assert len(taken) == 16 * 3 * shots <= len(dev) / 2
            tagged = [b for b in found if (b.task, b.shots, b.lang) == ('udpos', shots, lang)]
            assert len(tagged) == (0 if shots == 8 else 40)
            assert {(e['words'], e['tags']) for b in tagged for e in b.examples} <= words


def test_vocabulary_spells_every_text(root):
    tokenizer = tokenizers.load('sample_fewshot', str(root))
    for lang in lexicon.LANGUAGES:
        texts = [r['words'] for r in sentences(root, 'test', lang)]
        assert tokenizer.decode_batch(tokenizer.encode_batch(texts)) == texts
        lengths = [len(ids) for text in texts for ids in tokenizer.encode_batch(text.split())]
        assert sum(lengths) < 1.5 * len(lengths)
