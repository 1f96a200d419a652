"""Dataset cards: what they say, who may read them, and that nothing else changes."""

import json
import shutil

import pytest
import tiny
import yaml

from xlbench import prepare
from xlbench.data import prepared
from xlbench.preparation import cards
from xlbench.system.errors import UserError

TASK = tiny.QUESTIONS[1]


@pytest.fixture
def root(tiny_root, tmp_path):
    """A copy of the tiny root that a test may write into."""
    shutil.copytree(tiny_root, tmp_path / 'root')
    return tmp_path / 'root'


def test_a_card_says_what_there_is_and_changes_no_data(root):
    before = {split: prepared.open_task(str(root), 'sample', TASK, split) for split in tiny.SIZES}
    hashes = {split: (task.sha256, task.content) for split, task in before.items()}
    path = root / 'prepared' / 'sample' / TASK / 'README.md'
    assert cards.write(str(root), 'sample', TASK) == f'wrote {path}; its licence is left to you'
    text = path.read_text()
    _, metadata, body = text.split('---\n', 2)
    about = yaml.safe_load(metadata)
    assert about['language'] == ['de'] and about['size_categories'] == ['n<1K']
    assert about['task_categories'] == ['text-generation'] and 'sample-data' in about['tags']
    assert 'license' not in about and '# license: add the licence' in metadata
    splits = {s['name']: s['num_examples'] for s in about['dataset_info']['splits']}
    assert splits == tiny.SIZES and list(splits)[:2] == ['rough_train', 'train']
    for split, size in tiny.SIZES.items():
        lengths = before[split].lengths()
        row = next(line for line in body.splitlines() if line[1:].strip(' `').startswith(split))
        cells = [cell.strip() for cell in row.strip('|').split('|')]
        assert cells[1] == str(size) and cells[2].split(', ')[2] == str(lengths[:, 0].max())
        assert cells[5].strip('`') == hashes[split][0][:12]
    assert 'The data is artificial' in body and 'MultilingualRouge' in body
    assert before['train'].manifest['vocabulary']['sha256'] in body
    assert '- Licence: to be filled in.' in body and str(root) not in body
    # Nothing is stale, and nobody takes the card for data.
    assert prepared.members(str(root), 'sample', TASK)[TASK] == ()
    for split in tiny.SIZES:
        task = prepared.open_task(str(root), 'sample', TASK, split)
        task.verify()
        assert (task.sha256, task.content) == hashes[split]


def test_what_somebody_has_written_stays(root):
    path = root / 'prepared' / 'sample' / TASK / 'README.md'
    cards.write(str(root), 'sample', TASK)
    first = path.read_bytes()
    assert cards.write(str(root), 'sample', TASK).startswith('wrote ')  # Ours, and unchanged.
    assert path.read_bytes() == first
    for text in (first.replace(b'Licence: to be filled in', b'Licence: CC0'), b'# Mine\n', b''):
        path.write_bytes(text)
        said = cards.write(str(root), 'sample', TASK)
        assert said.startswith(f'{path} stays: ') and path.read_bytes() == text
    path.unlink()
    path.symlink_to('/etc/hostname')
    with pytest.raises(UserError, match='outside of'):
        cards.write(str(root), 'sample', TASK)


def test_places_and_markup_of_a_manifest_do_not_get_into_a_card(root):
    path = root / 'prepared' / 'sample' / TASK / 'train' / 'manifest.json'
    manifest = json.loads(path.read_text())
    manifest['data'] = 'files'
    manifest['vocabulary']['name'] = '/home/me/pieces.model'
    manifest['left_out'] = {'<script>|`x`': 3}
    hidden = {'path': '/secret/place/a|b.jsonl', 'bytes': 10, 'sha256': 'f' * 64}
    files = [{'path': f'news/{number}.jsonl'} for number in range(60)]
    manifest['inputs'] = [hidden, *files]
    path.write_text(json.dumps(manifest))
    for other in tiny.SIZES:
        if other != 'train':
            shutil.rmtree(path.parent.parent / other)
    # The files are not here, so that nothing says that the data is stale.
    cards.write(str(root), 'sample', TASK)
    text = (path.parent.parent / 'README.md').read_text()
    assert '/secret' not in text and '/home/me' not in text and 'sample-data' not in text
    assert r'| `a\|b.jsonl` | train | 10 |' in text and '11 more are in' in text
    assert r"without 3: `<script>\|'x'`." in text


def test_the_flag_needs_something_to_describe(root):
    with pytest.raises(UserError, match='--card describes what is prepared'):
        prepare.main(['prepare', '--card', f'--root={root}'])
