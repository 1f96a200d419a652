"""Tests of tasks/clidsum.py and of the benchmark that it declares."""

import json
import pathlib

import mtg_files
import numpy as np
import pytest
import task_records
import tokenizer_files
from put_files import put

from xlbench import benchmarks, pipeline
from xlbench.benchmarks import CLIDSUM
from xlbench.data import __main__ as data_main, prepared, readers
from xlbench.prepare import examples, mixtures
from xlbench.system import errors

CHAT = {
    'dialogue': 'Anna: Hi!\r\nBen: Hello.', 'summary': 'Anna greets Ben.',
    'summary_de': 'Anna grüßt Ben.', 'summary_zh': '安娜向本问好。',
}  # fmt: skip
SIZES = {'train': 5, 'val': 3, 'test': 2}


def triple(subject, relation, target, sentence):
    """A line as CoreNLP's OpenIE prints it with -format reverb."""
    numbers = ['0', '1', '1', '2', '2', '3']
    phrases = [subject, relation, target]
    return '\t'.join(['a.txt', '0', *phrases, *numbers, '1.000', sentence, 'NN', *phrases]) + '\n'


TRIPLES = triple('Who', 'brings', 'old bridge', 'Who brings the old bridge 0 ?')
VIEWS = '{"topics": [1, 1], "stages": [0, 2]}\n'  # Of a dialogue of two utterances.


def chats(count):
    names = ('Tom', 'Eva', 'Ali', 'Mia', 'Kim')
    others = [
        {
            'dialogue': f'{name}: Who brings the old bridge {i}?\nBen: I do, {name}.',
            'summary': f'Ben brings {name} bridge {i}.',
            'summary_de': f'Ben bringt {name} Brücke {i}.',
            'summary_zh': f'本给{name}带第{i}座桥。',
        }
        for i, name in enumerate(names)
    ]
    return [CHAT, *others][:count]


def translated(lang, count):
    """Lines of xlbench.translate: dialogues in another language, the last of which it missed."""
    pairs = [
        {'id': str(i), 'inputs': f'{lang}: Hallo {i}', 'targets': chat[f'summary_{lang}'].lower()}
        for i, chat in enumerate(chats(count), 1)
    ]
    missed = {'id': '9', 'inputs': '', 'targets': 'x'}
    return ''.join(json.dumps(pair) + '\n' for pair in (*pairs, missed))


def interviews(count):
    """Objects of MediaSum: the dialogues of `chats`, with ids."""
    made = []
    for i, chat in enumerate(chats(count)):
        turns = (line.split(': ', 1) for line in chat['dialogue'].splitlines())
        speakers, said = map(list, zip(*turns, strict=True))
        about = {'id': f'NPR-{i}', 'program': 'A Day', 'summary': chat['summary']}
        made.append(about | {'utt': said, 'speaker': speakers})
    return made


def write_mediasum(root, count=6, others=('NPR-1',), translated=None):
    """MediaSum in `root`, of which XMediaSum40k has `others`, and its translated summaries."""
    folder = root / 'clidsum' / 'MediaSum424k'
    put(folder, 'news_dialogue.json', json.dumps(interviews(count), indent=1))
    put(folder, 'news_dialogue.triples.tsv', TRIPLES)
    splits = {'train': list(others[:1]), 'val': list(others[1:]), 'test': []}
    put(folder, 'train_val_test_split.40k.json', splits)
    for lang in ('de', 'zh'):
        pairs = ((f'NPR-{i}', c[f'summary_{lang}']) for i, c in enumerate(chats(count)))
        lines = translated or [{'id': name, 'summary': summary} for name, summary in pairs]
        put(folder, f'summaries.{lang}.jsonl', ''.join(json.dumps(line) + '\n' for line in lines))
    return folder


def write(root, folder, split, content):
    return pathlib.Path(put(root, f'clidsum/{folder}/{split}.json', content))


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp('clidsum')
    for corpus in ('XSAMSum', 'XMediaSum40k'):
        for split, size in SIZES.items():
            path = write(folder, corpus, split, chats(size))
            path.with_suffix('.triples.tsv').write_text(TRIPLES)
            path.with_suffix('.views.jsonl').write_text(VIEWS * size)
            for lang in ('de', 'zh'):
                path.with_suffix(f'.translated.{lang}.jsonl').write_text(translated(lang, size))
    write_mediasum(folder)
    mtg_files.write_vocabulary(folder)
    return folder


@pytest.mark.parametrize(
    ('name', 'inputs', 'targets'),
    [
        ('xsamsum_en_en', 'anna: hi!\r\nben: hello.', 'anna greets ben.'),
        ('xsamsum_en_de', 'anna: hi!\r\nben: hello.', 'anna grüßt ben.'),
        ('xmediasum40k_en_zh', 'anna: hi!\r\nben: hello.', '安娜向本问好。'),
        ('xsamsumdialogue_en_en', 'anna: hi!\r\nben: hello.', 'anna: hi!\r\nben: hello.'),
        ('xmediasum40ksummary_en_de', 'anna greets ben.', 'anna grüßt ben.'),
        ('xsamsumsummarize_en_de', '[summarize] anna: hi!\r\nben: hello.', 'anna grüßt ben.'),
        ('xsamsumtranslated_de_de', 'de: Hallo 1', 'anna grüßt ben.'),
        ('xmediasum40ktranslated_zh_zh', 'zh: Hallo 1', '安娜向本问好。'),
    ],
)
def test_what_is_read_and_written(root, name, inputs, targets):
    """The texts of the official code, for a model without its special token."""
    first, *others = task_records.read(f'clidsum_{name}')
    assert first == {'id': '1', 'inputs': inputs, 'targets': targets}
    if 'translated' in name:
        assert isinstance(others.pop(), readers.LeftOut)
    assert [record['id'] for record in others] == ['2', '3', '4', '5']
    example = next(iter(pipeline.get(f'clidsum_{name}').get_dataset(None, 'test', shuffle=False)))
    tag = f'<{name[-2:]}> '.encode()
    assert example['inputs_pretokenized'].numpy() == tag + inputs.encode()


def test_every_task_and_mixture(root):
    pipeline.get('clidsum_xsamsum_en_en')
    for name in CLIDSUM.task_names():
        source = pipeline.get(name).source
        sizes = [5] if 'mediasum424k' in name else [5, 3, 2]
        assert [source.num_input_examples(split) for split in source.splits] == sizes
        draws = 5 if 'infilling' in name or 'permutation' in name else 1
        assert [source.draws(split) for split in source.splits] == [draws, 1, 1][: len(sizes)]
    rouge, _ = pipeline.get('clidsum_xsamsum_en_de').metric_fns
    assert 'snowball' in rouge.signature and rouge(['zwei Häuser'], ['zwei Haus'])['rouge_1'] == 100


@pytest.mark.parametrize(
    ('name', 'inputs', 'targets'),
    [
        ('_en_en', 'anna: hi!\nben: hello.', 'anna greets ben.'),
        ('dialogue_en_en', 'anna: hi!\nben: hello.', 'anna: hi!\nben: hello.'),
        ('summarize_en_en', '[summarize] anna: hi!\nben: hello.', 'anna greets ben.'),
        ('permutation_en_en', 'ben: hello.\nanna: hi!', 'anna: hi!\nben: hello.'),
        ('infilling_en_en', 'anna: hi!\nben: hello.', 'anna: hi!\nben: hello.'),
        ('pseudo_en_de', 'anna: hi!\nben: hello.', 'anna grüßt ben.'),
        ('pseudosummarize_en_zh', '[summarize] anna: hi!\nben: hello.', '安娜向本问好。'),
    ],
)
def test_mediasum424k_is_what_the_list_of_ids_leaves(root, name, inputs, targets):
    """NPR-1, the second of six, is in XMediaSum40k; `id` is the place among all of them."""
    made_now = task_records.read(f'clidsum_mediasum424k{name}')
    pairs = [item for item in made_now if isinstance(item, dict)]
    assert pairs[0] == {'id': '1', 'inputs': inputs, 'targets': targets}
    assert [p['id'] for p in pairs if '.' not in p['id']] == ['1', '3', '4', '5', '6']
    left = [item.reason for item in made_now if isinstance(item, readers.LeftOut)]
    assert left == ['that another corpus has']


def test_pseudo_data_without_a_translation(root, tmp_path):
    """A file that is missing, a text that failed, lines that are no translations."""
    name = 'clidsum_mediasum424kpseudo_en_de'
    good = [{'id': 'NPR-0', 'summary': 'Gut.'}, {'id': 'NPR-1', 'summary': 'Fremd.'}]
    lines = [*good, {'id': 'NPR-2', 'summary': ''}]
    folder = write_mediasum(tmp_path, 4, ('NPR-1', 'NPR-3'), lines)
    with pipeline.bound(None, str(tmp_path)):
        made_now = task_records.read(name)
        assert pipeline.get(name).source.num_input_examples('train') == 1
        assert [item['targets'] for item in made_now if isinstance(item, dict)] == ['gut.']
        reasons = [item.reason for item in made_now if isinstance(item, readers.LeftOut)]
        assert reasons.count('whose summary is not translated') == 1
        path = folder / 'summaries.de.jsonl'
        path.write_text('{"id": "NPR-0"}\n{"id": 3, "summary": "x"}\n[]\n')
        bad = [item for item in task_records.read(name) if isinstance(item, readers.BadRecord)]
        assert [item.line for item in bad] == [1, 2, 3] and "no key 'summary'" in bad[0].reason
        path.unlink()
        made_by = (
            r'no file .*summaries\.de\.jsonl .*python -m xlbench\.translate --engine=ENGINE .*'
            rf'--target_lang=de --input={folder}/news_dialogue\.json .*--output={path}$'
        )
        with pytest.raises(errors.UserError, match=made_by) as caught:
            task_records.read(name)
        assert '\n' not in str(caught.value)


def test_views_are_two_inputs_of_one_example(root):
    task = pipeline.get('clidsum_xsamsumviews_en_en')
    first, *_ = task_records.read(task.name)
    views = ' | anna: hi! ben: hello.\t | anna: hi! | ben: hello.'
    assert first == {'id': '1', 'inputs': views, 'targets': 'anna greets ben.'}
    (example,) = task.get_dataset(None, 'test', shuffle=False).take(1)
    # Preparation, which tokenises in batches, has what SeqIO's own pipeline has.
    prepared_one = next(iter(next(examples.examples(task, 'test'))))
    ids, chosen = prepared_one['inputs'], pipeline.tokenizer()
    np.testing.assert_array_equal(ids, example['inputs'])
    np.testing.assert_array_equal(prepared_one['targets'], example['targets'])
    assert prepared_one['inputs_pretokenized'] == example['inputs_pretokenized'].numpy().decode()
    assert ids[-1] == chosen.eos_id and (ids == chosen.eos_id).sum() == 2
    before, after = np.split(ids, [int(np.argmax(ids == chosen.eos_id)) + 1])
    assert chosen.decode(before) == chosen.decode(chosen.encode('<en> ' + views.split('\t')[0]))
    assert chosen.decode(after) == chosen.decode(chosen.encode(views.split('\t')[1]))


def test_views_of_other_dialogues_are_named(root, tmp_path):
    path = write(tmp_path, 'XSAMSum', 'train', chats(3))
    with pipeline.bound(None, str(tmp_path)):
        with pytest.raises(errors.UserError, match=r'train\.views\.jsonl .*xlbench\.data segment'):
            task_records.read('clidsum_xsamsumviews_en_en')
        broken = '{"topics": [1, "x"], "stages": [0, 2]}\n{"topics": [1], "stages": [0]}\n'
        path.with_suffix('.views.jsonl').write_text(broken)
        bad = task_records.read('clidsum_xsamsumviews_en_en')
    assert 'no lists of numbers' in bad[0].reason
    assert [record.line for record in bad] == [1, 2, 3]
    assert 'not of object 2' in bad[1].reason and 'xlbench.data segment' in bad[2].reason


def test_noise_is_drawn_anew_and_alike_each_time(root):
    for kind, noisy in (('permutation', 'ben: hello.\r\nanna: hi!'), ('infilling', None)):
        name = f'clidsum_xsamsum{kind}_en_en'
        made_now = task_records.read(name)
        assert made_now == task_records.read(name) and len(made_now) == 5 * 5
        assert [r['id'] for r in made_now[:6]] == ['1', '1.1', '1.2', '1.3', '1.4', '2']
        assert {r['targets'] for r in made_now[:5]} == {'anna: hi!\r\nben: hello.'}
        assert {r['inputs'] for r in made_now[:5]} == {noisy or 'anna: hi!\r\nben: hello.'}
        assert [r['id'] for r in task_records.read(name, 'test')] == ['1', '2']
    # Six tokens have room for one of a mask; of an action of two words it takes one.
    words = ['who', 'brings', 'the', 'old', 'bridge']
    either = {f'tom: {" ".join([*words[:n], "<mask>", *words[n + 1 :]])} 0?' for n in range(5)}
    masked = {r['inputs'].split('\n')[0] for r in made_now[5:10]}
    assert masked <= either and len(masked) > 1


def test_triples_that_are_none_are_named(root, tmp_path):
    path = write(tmp_path, 'XSAMSum', 'train', chats(2))
    with pipeline.bound(None, str(tmp_path)):
        with pytest.raises(errors.UserError, match=r'train\.triples\.tsv .*-format reverb'):
            task_records.read('clidsum_xsamsuminfilling_en_en')
        broken = '1.0\tHe\tis\tgood\n' + TRIPLES.replace('\t0\t', '\tx\t', 1)
        path.with_suffix('.triples.tsv').write_text(broken + TRIPLES)
        bad = task_records.bad('clidsum_xsamsuminfilling_en_en')
    assert len(bad) == 2 and 'train.triples.tsv:1: 4 TAB-separated columns instead of 17' in bad[0]
    assert "train.triples.tsv:2: column 2 is 'x', not a whole number" in bad[1]


def test_preparing(made):
    names = 'clidsum_cross_xsamsum,clidsum_xsamsumpermutation_en_en'
    made_now = mixtures.prepare(names, 'train,validation', root=str(made), vocabulary='sample')
    assert [done.manifest['num_examples'] for done in made_now] == [5, 5, 3, 3, 25, 3]
    assert [done.manifest.get('draws') for done in made_now] == [None] * 4 + [5, None]
    assert '25 examples (5 in 5 draws of noise)' in str(made_now[4])
    noisy = prepared.open_task(str(made), 'sample', 'clidsum_xsamsumpermutation_en_en', 'train')
    assert (len(noisy), noisy.pass_size, noisy.draws) == (25, 5, 5)
    task = prepared.open_task(str(made), 'sample', 'clidsum_xsamsum_en_de', 'train')
    assert (task.manifest['source_lang'], task.manifest['target_lang']) == ('en', 'de')
    assert task[0]['targets_pretokenized'] == 'anna grüßt ben.' and task[0]['id'] == '1'


def test_what_lies_in_a_data_root_is_checked(made, capsys):
    with pipeline.bound(None, str(made)):
        assert errors.run_main(data_main.main, ['data', 'verify', 'clidsum', f'--root={made}']) == 1
    printed = capsys.readouterr().out
    assert 'clidsum_xsamsum_en_de:test: 2 records, published are 819' in printed
    assert printed.count('records, published are') == 2 * 3 * 3
    command = ['data', 'verify', 'mediasum424k', f'--root={made}']
    assert errors.run_main(data_main.main, command) == 1
    assert 'mediasum424k_en_en:train: 5 records, published are 423,596' in capsys.readouterr().out


@pytest.mark.parametrize(
    ('content', 'line', 'reason'),
    [
        ([CHAT, {**CHAT, 'summary_de': ' '}], 0, 'object 2: summary_de is empty'),
        ([CHAT, {'dialogue': 'x', 'summary': 'y'}], 0, "object 2: no key 'summary_de'"),
        ([{**CHAT, 'dialogue': 3}, CHAT], 0, 'object 1: dialogue is a number, not a text'),
        ([CHAT, 'x'], 0, 'object 2: a text, not an object'),
        ({'data': [CHAT]}, 1, 'the file is not a list of objects'),
        ('[\n{"dialogue": }]', 2, 'not JSON: Expecting value'),
    ],
)
def test_what_is_wrong_is_said_with_its_place(root, tmp_path, content, line, reason):
    write(tmp_path, 'XSAMSum', 'train', content)
    with pipeline.bound(None, str(tmp_path)):
        (bad,) = task_records.bad('clidsum_xsamsum_en_de')
    assert (f'train.json:{line}: ' if line else 'train.json: ') in bad and reason in bad


def test_scenarios():
    assert 'curriculum' not in CLIDSUM.scenario('cross', 'xsamsum').stage(1, {})
    semi = CLIDSUM.scenario('semi', 'xmediasum40k', target='de')
    assert semi.train == semi.curriculum == semi.stage(1, {})['curriculum']
    assert semi.select == semi.evaluate
    semi = CLIDSUM.scenario('semi', 'xmediasum40k')
    assert semi.curriculum == ('clidsum_cross_mediasum424kpseudo', 'clidsum_cross_xmediasum40k')
    assert len(semi.train) == 4 and semi.evaluate == semi.train[2:]
    for name in CLIDSUM.task_names():
        assert benchmarks.parse_mixture(name).train == (name,)


def test_the_paper():
    """Table 3 of arXiv:2202.05599: every supervised system on every pair."""
    names = ('rouge_1', 'rouge_2', 'rouge_l', 'bertscore')
    printed = {
        (model, task, target): scores
        for model in CLIDSUM.paper_models
        for task in ('xsamsum', 'xmediasum40k')
        for target in ('de', 'zh')
        if (scores := CLIDSUM.paper_scores(model, 'cross', task, 'en', target))
    }
    assert len(printed) == 22 * 4
    for scores in printed.values():
        assert tuple(scores) == names
        assert scores['rouge_2'] < scores['rouge_l'] < scores['rouge_1'] < scores['bertscore']
    assert list(printed['mBART', 'xmediasum40k', 'de'].values()) == [20.6, 7.7, 18.2, 60.4]
    best = max(printed, key=lambda key: printed[key]['rouge_1'])
    assert best == ('MV-BART + Google Trans.', 'xsamsum', 'de')


def test_the_golden_strings(golden, tmp_path):
    """Of fine-tuning, with the ids around them, and of two tasks of pre-training."""
    vocabulary = f'{tokenizer_files.write(tmp_path / "mbart", "mbart50")}+[summarize]'
    (fine,) = golden('clidsum/finetune_strings')
    (pre,) = golden('clidsum/pretraining_task_strings')
    given = pre['inputs']
    others = {'summary_de': given['translated_summary'], 'summary_zh': given['translated_summary']}
    records_of = [
        {key: fine['inputs'][key] for key in ('dialogue', 'summary_de', 'summary_zh')},
        {key: given[key] for key in ('dialogue', 'summary')} | others,
    ]
    write(tmp_path, 'XMediaSum40k', 'train', [{'summary': 'x'} | record for record in records_of])
    with pipeline.bound(vocabulary, str(tmp_path)):
        for lang in ('de', 'zh'):
            tuned, _ = task_records.read(f'clidsum_xmediasum40ksummarize_en_{lang}')
            assert tuned['inputs'] == fine['expected']['encoder_text']
            assert tuned['targets'] == fine['expected'][f'target_text_{lang}']
        plain, _ = task_records.read('clidsum_xmediasum40k_en_de')
        assert plain['inputs'] == fine['expected']['encoder_text_of_mbart50']
        expected = pre['expected']['monolingual_dialogue_summarisation']
        _, summarised = task_records.read('clidsum_xmediasum40ksummarize_en_en')
        mark, _, text = expected['input'].partition(' ')
        assert summarised['inputs'] == f'{mark} {text.lower()}'
        assert summarised['targets'] == expected['target'].lower()
        expected = pre['expected']['machine_translation']
        _, translated = task_records.read('clidsum_xmediasum40ksummary_en_zh')
        assert translated['inputs'] == expected['input'].lower()
        assert translated['targets'] == expected['target']
        task = pipeline.get('clidsum_xmediasum40ksummarize_en_de')
        example = next(iter(task.get_dataset(None, 'train', shuffle=False)))
        chosen = pipeline.tokenizer()
        inputs, targets = (example[name].numpy().tolist() for name in ('inputs', 'targets'))
        english, german = chosen.prefix_ids('en', 'de')
    assert (inputs[0], inputs[-1]) == (english[0], chosen.eos_id)
    assert (targets[0], targets[-1]) == (german[0], chosen.eos_id)
    assert inputs.count(chosen.num_pieces - 1) == 1  # [summarize]
    assert chosen.num_pieces - 1 in inputs[1:3]
