"""Tests of tasks/mtg.py."""

import mtg_files
import pytest
import seqio
from nightly import nightly
from put_files import put
from task_records import examples

from xlbench import pipeline
from xlbench.benchmarks import MTG, MTG2, RATES, mtg as versions
from xlbench.system import errors
from xlbench.tasks.mtg_build import correcting, originals, publishing

LENGTHS = {'inputs': 48, 'targets': 16}


@pytest.fixture(scope='module', autouse=True)
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp('root')
    mtg_files.write_mtg(folder, {'rough_train': 4, 'train': 3, 'validation': 2, 'test': 2})
    mtg_files.write_vocabulary(folder)
    pipeline.use_vocabulary('sample', str(folder))
    yield folder
    pipeline.use_root(None)


def lines(root, task, lang, split, side):
    return (root / 'mtg' / task / lang / f'{split}.{side}').read_text().splitlines()


def test_question_generation_across_languages(root):
    example = examples('mtg_qg_en_de', 'train')[0]
    passage, answer = lines(root, 'qg', 'en', 'train', 'src')[0].split('\t')
    question = lines(root, 'qg', 'de', 'train', 'trg')[0]
    tokenizer = pipeline.tokenizer()
    text = f'<de> {passage} <answer> {answer}'
    assert example['inputs_pretokenized'].decode() == text
    assert example['targets_pretokenized'].decode() == question
    assert example['inputs'].tolist() == [*tokenizer.encode(text), 1]
    assert example['targets'].tolist() == [*tokenizer.encode(question), 1]


def test_what_a_build_writes_is_what_tasks_read(root, tmp_path):
    from xlbench.tasks import mtg

    for split in ('rough_train', 'test'):
        publishing.write_split(str(tmp_path / 'mtg/qg'), ('en', 'de'), split, [])
        for name in mtg.files('mtg', 'qg', 'en', 'de', split):
            assert (tmp_path / name).is_file()
    for task in originals.KINDS:
        assert mtg.SOURCES.get(task, (('text',),))[0] == originals.fields(task)[:-1]
    assert set(mtg.SPLITS) == {publishing.ROUGH, *correcting.SPLITS}


@pytest.mark.parametrize('task', ['sg', 'tg'])
def test_other_tasks(root, task):
    example = examples(f'mtg_{task}_fr_fr', 'rough_train')[0]
    text = lines(root, task, 'fr', 'rough_train', 'src')[0]
    assert example['inputs_pretokenized'].decode() == f'<fr> {text}'
    target = example['targets_pretokenized'].decode()
    assert target == lines(root, task, 'fr', 'rough_train', 'trg')[0]


def test_tasks_work_with_seqio():
    converter = seqio.EncDecFeatureConverter(pack=False)
    for name in MTG.task_names()[::13]:  # Every task, source and target is among them.
        dataset = seqio.get_dataset(name, LENGTHS, converter, 'validation')
        batch = next(iter(dataset.batch(2).as_numpy_iterator()))
        assert batch['encoder_input_tokens'].shape == (2, 48)
        assert batch['decoder_target_tokens'].shape == (2, 16)


def test_mixtures_of_files_of_one_length_have_one_rate():
    for scenario in MTG.scenarios():
        for rate in RATES:
            mixture = pipeline.get(scenario.with_rate(rate).mixture)
            assert len(set(pipeline.mixture_rates(mixture, 'train').values())) == 1
    assert len(pipeline.get('mtg_cross_qg').tasks) == 12
    assert len(pipeline.get('mtg_multi_multitask').tasks) == 12
    assert [t.name for t in pipeline.get('mtg_zero_shot_qg').tasks] == ['mtg_qg_en_en']


@pytest.mark.parametrize(
    'name',
    [
        'mtg_mono_multitask_fr.equal', 'mtg_zero_shot_sg.capped',
        *nightly('mtg_mono_qg_de', 'mtg_cross_tg_en'),
    ],
)
def test_mixtures_work_with_seqio(name):
    converter = seqio.EncDecFeatureConverter(pack=True)
    dataset = seqio.get_dataset(pipeline.get(name), LENGTHS, converter, 'train', num_epochs=None)
    batch = next(iter(dataset.batch(2).as_numpy_iterator()))
    assert batch['encoder_input_tokens'].shape == (2, 48)


def test_another_layout(root, tmp_path, monkeypatch):
    for side in ('src', 'trg'):
        text = (root / 'mtg' / 'sg' / 'es' / f'test.{side}').read_text()
        (tmp_path / f'test-es-sg.{side}').write_text(text)
    monkeypatch.setenv('XLBENCH_MTG_FILES', str(tmp_path / '{split}-{lang}-{task}.{side}'))
    found = examples('mtg_sg_es_es', 'test')[0]['targets_pretokenized'].decode()
    assert found == lines(root, 'sg', 'es', 'test', 'trg')[0]
    monkeypatch.setenv('XLBENCH_MTG_FILES', '{language}/x')
    with pytest.raises(errors.UserError, match='is not a pattern of'):
        examples('mtg_sg_es_es', 'test')[0]


def test_version_2_adds_chinese_and_summaries(root):
    for lang, text in (('en', 'a long text'), ('zh', '长 文 本')):
        put(root, f'mtg2/summ/{lang}/test.src', f'{text}\n')
        put(root, f'mtg2/summ/{lang}/test.trg', f'{text.split()[-1]}\n')
    example = examples('mtg2_summ_en_zh', 'test')[0]
    texts = [example[f'{side}_pretokenized'].decode() for side in ('inputs', 'targets')]
    assert texts == ['<zh> a long text', '本']
    assert len(pipeline.get('mtg2_cross_summ').tasks) == 20 and len(MTG2.task_names()) == 100
    # What a name of version 1 means does not depend on it.
    assert len(pipeline.get('mtg_multi_multitask').tasks) == 12


def test_tasks_and_languages_of_version_2_are_those_of_the_folder(tmp_path, monkeypatch):
    def there(*places):
        for place in places:
            put(tmp_path, f'{place}/test.src', '')
        benchmark = versions.version_2(str(tmp_path))
        return benchmark.tasks, benchmark.languages

    published = ('sg', 'qg', 'tg', 'summ'), ('en', 'de', 'fr', 'es', 'zh')
    assert there() == (MTG2.tasks, MTG2.languages) == published
    more = there('mtg2/summ/zh', 'mtg2/summ/en', 'mtg2/summ/no_language')
    assert more == (('summ',), ('en', 'zh'))
    # Languages are those that all tasks have.
    assert there('mtg2/tg/zh', 'mtg2/tg/de', 'mtg2/qg/zh') == (('qg', 'tg', 'summ'), ('zh',))
    assert versions.version_2(str(tmp_path)).scenario('multi', 'tg').train == ('mtg2_tg_zh_zh',)
    monkeypatch.setenv('XLBENCH_MTG2_FILES', 'x/{lang}/{task}.{lang}.{split}.{side}')
    put(tmp_path, 'x/ja/qg.ja.test.src', '')
    assert there() == (('qg',), ('ja',))
    monkeypatch.setenv('XLBENCH_MTG2_FILES', '{task')
    assert there() == published
    with pytest.raises(errors.UserError, match=r'XLBENCH_MTG2_FILES=.* is not a pattern of'):
        examples('mtg2_sg_es_es', 'test')[0]
