"""Every family of tasks reads a data root that is named relative to a folder that is no clone."""

import dialogue_files
import mtg_files
import own_task_file
import pytest
import reply_files
import xtreme_files

from tasks import xtreme
from tasks.samples import labels
from xlbench import pipeline
from xlbench.data import prepared
from xlbench.prepare import mixtures

ROOT = 'data/of mine'
# Task, split -> records. Those of panx are read as TensorFlow Datasets hosts them.
JOBS = {
    ('mtg_qg_en_de', 'train'): 7, ('xquad_qg_de_zh', 'validation'): 8,
    ('mrs_retrieval_de_de', 'train'): 7, ('mrs_generation_de_de', 'responses'): 5,
    ('xdailydialog_retrieval_de_de', 'test'): 6, ('xpersona_generation_fr_fr', 'validation'): 2,
    ('fewshot_xnli_de_de', 'test'): 1, ('fewshot_xnli_de_de', 'shots_1'): 4,
    ('fewshot_udpos_de_de', 'test'): 1, ('fewshot_udpos_de_de', 'shots_1'): 4,
    ('fewshot_panx_de_de', 'test'): 23, ('beside_lines', 'train'): 2,
    ('talk_retrieval_de_de', 'train'): 3,
}  # fmt: skip
OWN = {
    'beside': """
from xlbench import pipeline

pipeline.register_text_task('beside_lines', files={'train': 'lines.jsonl'}, format='jsonl',
                            fields={'inputs': 'a', 'targets': 'b'})
""",
    'talk': """
from xlbench import pipeline

pipeline.register_dialogue_tasks('talk', 'de', files={'train': 'talk.txt'})
""",
}


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    """A folder with data and tasks in it, in every layout."""
    folder = tmp_path_factory.mktemp('elsewhere')
    root = folder / ROOT
    mtg_files.write_mtg(root)
    mtg_files.write_xquad(root)
    reply_files.write_mrs(root, langs=('de',))
    dialogue_files.write_xdailydialog(root)
    dialogue_files.write_xpersona(root)
    mtg_files.write_vocabulary(root)
    (root / 'lines.jsonl').write_text('{"a": "the river", "b": "old"}\n' * 2)
    (root / 'talk.txt').write_text('Hallo __eou__ Ja __eou__ Nein __eou__ Gut\n')
    with pytest.MonkeyPatch.context() as patch:
        sizes = {'train': 6, 'dev': 6, 'test': 1}
        patch.setattr(labels, 'SPLITS', {'udpos': sizes, 'xnli': sizes})
        patch.setattr(labels, 'BUCKETS', {'udpos': ('train', 2), 'xnli': ('dev', 2)})
        labels.write(str(root))
    wikiann = folder / 'wikiann'
    for split in ('train', 'dev', 'test'):
        lines = (f'de:Frau\tO\nde:{split}:{i}\tB-PER\n' for i in range(23))
        xtreme_files.write(wikiann / 'de' / split, '\n'.join(lines))
    xtreme_files.built('wikiann/de', root / 'tfds', wikiann)
    for name, text in OWN.items():
        xtreme_files.write(folder / 'tasks' / f'{name}.py', text)
    return folder


@pytest.fixture
def elsewhere(made, monkeypatch):
    """The current folder is not the clone's."""
    monkeypatch.chdir(made)
    monkeypatch.delenv('XLBENCH_DATA', raising=False)
    monkeypatch.delenv('XLBENCH_TASKS', raising=False)
    with own_task_file.forgotten():
        yield made
    pipeline.use_root(None)


def test_every_family_is_prepared_and_up_to_date(elsewhere):
    names = [':'.join(job) for job in JOBS]
    done = mixtures.prepare(names, 'train', root=ROOT, vocabulary='sample')
    counts = {(one.job.task, one.job.split): one.manifest['num_examples'] for one in done}
    assert counts == JOBS
    again = mixtures.prepare(names, 'train', root=ROOT, vocabulary='sample')
    assert all(one.fresh for one in again)
    for one in done:
        # The data root can move: no path below it is absolute, nor has it a second time.
        for path in (entry['path'] for entry in one.manifest['inputs']):
            assert not path.startswith(('/', ROOT)) or path.startswith(str(elsewhere / 'tasks'))
            assert (elsewhere / ROOT / path).is_file()
    assert len(prepared.open_task(ROOT, 'sample', 'fewshot_panx_de_de', 'test')) == 23


@pytest.mark.parametrize('way', ['environment', 'by default'])
def test_roots_that_the_environment_names(elsewhere, monkeypatch, way):
    pipeline.use_root(None)
    if way == 'environment':
        monkeypatch.setenv('XLBENCH_DATA', ROOT)
    else:
        monkeypatch.chdir(elsewhere / 'data')
        (elsewhere / 'data' / 'data').symlink_to('of mine')
    source = pipeline.get('fewshot_xnli_de_de').source
    paths = [*source.paths('shots_1'), *pipeline.get('mtg_qg_en_de').source.paths('train')]
    assert len(paths) == 4
    assert pipeline.get('fewshot_panx_de_de').source.patterns('test')[0].endswith(xtreme.INFO)
