"""How the commands on the pages for everybody are run: start, reports, checkpoints, devices, ..."""

from readme_files import answers, hub, judged, labellers, new_texts, own_encoder, texts
from readme_steps import (
    CI,
    FINETUNE,
    MTG,
    MTG_SHORT,
    MTG_TINY,
    PARSED,
    PREDICT,
    RANKED,
    RENTED,
    TINY,
    TRIMMED,
    VENV,
    Step,
    steps,
)

PLAN: dict[str, dict[str, Step]] = {
    'README.md': {
        'make train': Step(skip=CI),
        'make test': Step(skip=CI),
    },
    'index.md': {
        'python -m xlbench.train --config=configs/mtg_mt5.py': Step(
            skip='start.md runs it, with --workdir=RUNS/mtg'
        ),
    },
    'start.md': {
        'python3 -m venv .venv': Step(skip=CI),
        f'{VENV}pip install uv==0.13.8': Step(skip=CI),
        f'{VENV}uv pip install --no-deps --require-hashes --requirement requirements.lock': Step(
            skip=CI
        ),
        f'{VENV}uv pip install --no-deps --editable .': Step(skip=CI),
        f'{VENV}xlbench.train --config=configs/mtg_mt5.py': Step(
            skip='runs below, with --workdir=RUNS/mtg'
        ),
        f'{VENV}ruff check . && .venv/bin/lint-imports': Step(skip=CI),
        f'{VENV}pytest -q --numprocesses=auto --maxprocesses=4 --dist=loadfile '
        '--no-loadscope-reorder -m "not nightly"': Step(skip=CI),
        f'{MTG} --workdir=RUNS/mtg': Step(
            MTG_SHORT, prints='nearest_input', leaves='RUNS/mtg/DONE'
        ),
        'python -m xlbench.report RUNS/mtg --output=report': Step(leaves='report/report.html'),
        'python -m xlbench.evaluate RUNS/mtg --tasks=mtg_qg_en_de': Step(
            prints='on 1 tasks'
        ),
    },
    'tracking.md': {
        f'{MTG} --workdir=RUNS/tracked --config.trackers="(\'tensorboard\', \'wandb\')"': Step(
            skip='sends numbers to a server; tests/tracking/ does so offline'
        ),
        'export WANDB_MODE=offline': Step(skip='nothing follows that it changes'),
        'tensorboard --logdir=RUNS': Step(skip='a server, of a package that is not ours'),
        'mlflow ui --backend-store-uri=sqlite:///RUNS/tracked/mlflow.db': Step(
            skip='a server, of a package that is not ours'
        ),
        f'{MTG} --config.trackers="(\'tensorboard\', \'tasks/csv_tracker.py:CsvTracker\')"': Step(
            '--dry_run',
            prints="config.trackers = ('tensorboard', 'tasks/csv_tracker.py:CsvTracker')",
        ),
    },
    'reports.md': {
        'python -m xlbench.report RUNS/mtg --output=report --plots': Step(
            leaves='report/mtg_test_map_1.pdf'
        ),
        'python -m xlbench.score answers.txt --task=mtg_qg_de_de --like=RUNS/mtg '
        '--workdir=RUNS/other_system': Step(
            prepare=answers, leaves='RUNS/other_system/config.json'
        ),
        'python -m xlbench.score answers.txt --references=ref1.txt,ref2.txt --lang=de '
        '--metrics=sacrebleu,chrf': Step(prints='bleu'),
        'python -m xlbench.score answers.txt --references=ref1.txt --lang=de '
        '--metrics=ter,chrf++,meteor_exact_stem': Step(prints='meteor_exact_stem_no_tables'),
        'python -m xlbench.score RUNS/mtg --metrics=meteor_exact_stem,chrf++': Step(
            prints='added to'
        ),
        'python -m xlbench.evaluate RUNS/mtg --num_beams=4': Step(skip=RANKED),
        'python -m xlbench.report RUNS/mtg --variants': Step(skip=RANKED),
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
        'python -m xlbench.zoo RUNS/mtg --add --output=zoo.md': Step(prints='wrote zoo.md'),
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
        '--metrics=chrf,fitted_rating=rating.json': Step(prints='fitted_on'),
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
    'checkpoints.md': {
        f'{MTG}:base --config.init_from=google/mt5-base@main': Step(
            f'{MTG_TINY} --dry_run',
            hub('google/mt5-base', 'mt5', 'mt5'),
            prints='google/mt5-base',
        ),
        f'{MTG} --config.init_from=RUNS/mtg': Step(f'{MTG_SHORT} --dry_run', prints='RUNS/mtg'),
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
        '--root=data': Step(skip=TRIMMED),
    },
    'inference.md': {
        f'{PREDICT}/mtg --target_lang=de < articles.txt > titles.txt': Step(
            prepare=texts, leaves='titles.txt'
        ),
        f'{PREDICT}/mtg --input=articles.jsonl --field=text --output=titles.jsonl '
        '--target_lang=de --num_beams=5 --num_return=3 --scores': Step(leaves='titles.jsonl'),
        'python -m xlbench.predict Helsinki-NLP/opus-mt-en-de < english.txt': Step(
            prepare=hub('Helsinki-NLP/opus-mt-en-de', 'marian', 'marian'), prints='1 texts'
        ),
        f'{PREDICT}/xnli --input=pairs.jsonl --field=premise,hypothesis --scores': Step(
            prepare=labellers, prints='"score"'
        ),
        f'{PREDICT}/ner --input=test.conll --output=tagged.conll': Step(leaves='tagged.conll'),
        f'{PREDICT}/xnli --input=pairs.csv --field=premise,hypothesis --output=labelled.csv': Step(
            leaves='labelled.csv'
        ),
    },
    'migration.md': {
        f'{FINETUNE}:mt5_base,mixture=news_title_de,steps=3000,batch_size=32 '
        '--config.accumulate=2 --workdir=RUNS/news_mt5': Step(skip=PARSED),
        f'{FINETUNE}:mt5_base,mixture=news_title_de,steps=3000,batch_size=128,inputs=512 '
        '--config.model.dropout_rate=0.1 --workdir=RUNS/titles': Step(skip=PARSED),
        f'{FINETUNE}:encoder,objective=retrieval,mixture=chat_retrieval_de_de '
        '--config.model.from=models/my-encoder --config.objective.loss=softmax '
        '--workdir=RUNS/chat': Step(skip=PARSED),
    },
    'your_own.md': {
        f'{FINETUNE}:mt5_base,mixture=news_title_de': Step(
            f'{TINY} --config.data.vocabulary=google/mt5-base --dry_run',
            hub('google/mt5-base', 'mt5', 'mt5'),
            prints='news_title_de',
        ),
        f'{FINETUNE}:tiny,objective=generation,mixture=news_title_de --workdir=RUNS/news': Step(
            '--config.stages.train.num_steps=4', leaves='RUNS/news/DONE'
        ),
        'python -m xlbench.report RUNS/news --output=report': Step(leaves='report/report.html'),
        'python -m xlbench.predict RUNS/news --target_lang=de --input=new.txt '
        '--output=answers.txt': Step(prepare=new_texts, leaves='answers.txt'),
        f'{FINETUNE}:gpt2,mixture=news_title_de': Step(
            f'{TINY} --config.data.vocabulary=openai-community/gpt2 --dry_run',
            hub('openai-community/gpt2', 'gpt2', 'gpt2'),
            prints='news_title_de',
        ),
        f'{FINETUNE}:encoder,objective=tagging,mixture=reviews_places_en '
        '--config.model.from=models/my-encoder --workdir=RUNS/places': Step(
            f'{steps(4)} --config.batches.batch_size=4'.replace('stage1', 'train'),
            prepare=own_encoder,
            prints='rows occur in the training data',
        ),
    },
    'reproduce.md': {
        'python -m xlbench.reproduce mrs --list': Step(prints='table 3   Retrieval with mBERT: 21'),
        'python -m xlbench.reproduce mrs --table=3 --dry_run': Step(prints='of 20 commands done'),
        'python -m xlbench.reproduce mtg --table=all --paper': Step(prints='Table 14: '),
        'python -m xlbench.reproduce clidsum --table=4 --paper --format=latex': Step(
            prints='tab:clidsum-table-4'
        ),
        'python -m xlbench.reproduce clidsum --table=4 --models=Trans-WMT '
        '--workdir=RUNS/tables': Step(
            '--steps=0.005 --examples=4', leaves='RUNS/tables/reproduce/tables/clidsum-table-4.tex'
        ),
        'python -m xlbench.reproduce mtg --table=14 --add=Mine=configs/mtg_mt5.py '
        '--workdir=RUNS/mine --bundle=RUNS/mine.zip': Step(
            '--steps=0.005 --examples=4 --seeds=1', leaves='RUNS/mine.zip'
        ),
        'python -m xlbench.reproduce --check RUNS/mine.zip': Step(prints='agrees: mtg, table 14'),
        'python -m xlbench.reproduce --board=RUNS/board.html RUNS/mine.zip': Step(
            leaves='RUNS/board.html'
        ),
        'python -m xlbench.reproduce fewshot --table=12 --steps=0.1': Step(
            skip='a sweep takes minutes; tests/reproduce/ runs such a table with made-up results'
        ),
        'python -m xlbench.reproduce mtg --table=14 --models=mT5 --size=paper --topology=h100:8 '
        '--dry_run': Step(prints='hours on h100:8'),
        'python -m xlbench.reproduce mtg --figure=4 --size=paper --launch=slurm': Step(
            leaves='RUNS/mtg-paper/reproduce/launch/submit.sh'
        ),
        'RUNS/mtg-paper/reproduce/launch/submit.sh --gpus-per-node=8': Step(skip=RENTED),
    },
    'devices.md': {
        f'{MTG.replace("train", "plan")} --topology=cpu:8 --config.mesh.fsdp=2': Step(
            f'{TINY}', prints='all-gather'
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
        '--workdir=RUNS/qg': Step(skip=RENTED),
        'NAME=xl ZONE=... TYPE=... launch/tpu_vm.sh --config=configs/mtg_mt5.py:base': Step(
            skip=RENTED
        ),
        'MODULE=xlbench.evaluate launch/local.sh 2 --workdir=RUNS/mtg': Step(
            skip='needs .venv in the clone; tests/parallel/launch_test.py runs the script'
        ),
        f"{VENV}uv pip install --editable '.[beam]'": Step(skip='would change this environment'),
        'python -m xlbench.prepare --beam --mixture=mrs_multi --root=/mnt/data -- '
        '--runner=FlinkRunner --flink_master=HOST:8081': Step(skip=RENTED),
    },
}
