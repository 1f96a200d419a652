"""What begins like gs:// is refused by every command, before anything is read or written."""

import importlib
import pathlib

import pytest

from xlbench.system.errors import UserError

PROJECT = pathlib.Path(__file__).parent.parent


@pytest.mark.parametrize(
    'module, arguments',
    [
        ('xlbench.train', '--config=configs/mtg_mt5.py --workdir=gs://bucket/run'),
        ('xlbench.train', '--config=configs/mtg_mt5.py --config.data.root=s3://bucket/data'),
        ('xlbench.fewshot', '--config=configs/fewshot.py --workdir=gs://bucket/run'),
        ('xlbench.fewshot.report', 'RUNS/fewshot --output=gs://bucket/report'),
        ('xlbench.plan', '--config=configs/mtg_mt5.py --topology=cpu:8 --output=gs://bucket/plan'),
        ('xlbench.prepare', '--mixture=mtg_multi --root=gs://bucket/data'),
        ('xlbench.prepare', '--mixture=mtg_multi --new_vocabulary=gs://bucket/x.model'),
        ('xlbench.evaluate', '--workdir=gs://bucket/run'),
        ('xlbench.predict', 'RUNS/mtg --output=hdfs://host/answers.txt'),
        ('xlbench.convert', 'RUNS/mtg gs://bucket/exported'),
        ('xlbench.report', 'gs://bucket/run'),
        ('xlbench.translate.chain_command', 'RUNS/mtg --task=mtg_qg_en_en --workdir=gs://bucket/chain'),
        ('xlbench.translate.chain_command', 'gs://bucket/run --task=mtg_qg_en_en --workdir=chain'),
        (
            'xlbench.data.buckets',
            'sample --task=udpos --lang=de --output=gs://bucket/b train-de.tsv',
        ),
        ('xlbench.tasks.mrs_build.command', 'RC_2018-01.zst --output=gs://bucket/data'),
        (
            'xlbench.tasks.mtg_build.command',
            'build --engine=apertium --tg=x --output=gs://bucket/data',
        ),
    ],
)
def test_an_address_is_no_path(module, arguments, tmp_path, monkeypatch):
    """Nothing is written, not even a folder named `gs:`."""
    monkeypatch.chdir(tmp_path)
    arguments = arguments.replace('configs/', f'{PROJECT}/configs/')
    main = importlib.import_module(module)
    if not hasattr(main, 'main'):
        main = importlib.import_module(f'{module}.__main__')
    with pytest.raises(UserError, match=r'://\S+ begins with \w+://, and files are read') as error:
        main.main([module, *arguments.split()])
    assert '\n' not in str(error.value)
    assert not list(tmp_path.iterdir())
