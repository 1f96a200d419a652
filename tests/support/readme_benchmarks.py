"""How the commands on the pages of benchmarks and of translation are run."""

from readme_files import (
    apertium,
    chats,
    interviews,
    mozilla,
    official_chats,
    official_mrs,
    official_mtg,
    official_mtg2,
    own_encoder,
    parallel_corpora,
    published_outputs,
    replies_and_apertium,
    treebank,
    xquad,
)
from readme_steps import (
    CHATS,
    CLIDSUM,
    CLIDSUM_SHORT,
    EXHIBITS,
    MDIALBART,
    MRS,
    MRS_GENERATOR,
    MTG,
    MTG_BUILD,
    MTG_FRESH,
    OF_DE,
    PARSED,
    PREFERRED,
    RANKED,
    RANKS,
    REDDIT,
    REPLIES_SHORT,
    REPLIES_TINY,
    SCORE_FEW,
    SHALLOW,
    SWEEP,
    SWEEP_SHORT,
    TRANS_SUM,
    TRANSLATION,
    TRIMMED,
    Step,
    steps,
)

PLAN: dict[str, dict[str, Step]] = {
    'mtg.md': {
        f'{MTG}:base': Step(f'{MTG_FRESH} --dry_run', official_mtg, prints='mtg_tg_fr_fr'),
        f'{MTG}:base,scenario=mono,task=qg,source=de': Step(
            f'{MTG_FRESH} --dry_run', prints='mtg_qg_de_de'
        ),
        f'{MTG}:base,scenario=cross,task=qg,source=en': Step(
            f'{MTG_FRESH} --dry_run', prints='mtg_qg_en_de'
        ),
        f'{MTG}:base,scenario=zero_shot,task=tg': Step(
            f'{MTG_FRESH} --dry_run', prints='mtg_tg_en_de'
        ),
        'python -m xlbench.evaluate RUNS/mtg --num_beams=5': Step(
            prints='test-beam-num_beams5'
        ),
        'python -m xlbench.report RUNS/mtg --variants': Step(prints='beam-num_beams5'),
        'python -m xlbench.report RUNS/* --table=all --figure=all --output=paper': Step(
            skip=EXHIBITS
        ),
        'python -m xlbench.report RUNS/* --table=3,5,8 --figure=2,7 '
        '--ratings=study/scores/ratings.jsonl --output=paper': Step(skip=EXHIBITS),
        'python -m xlbench.report RUNS/* --table=6 --rough=built': Step(skip=EXHIBITS),
        'python -m xlbench.report RUNS/mtg --format=mtg --output=submission': Step(
            skip='RUNS/mtg has scored 8 examples here; tests/reporting/leaderboard_test.py has all'
        ),
        f'{MTG}:base,version=2,scenario=multi,task=summ': Step(
            f'{MTG_FRESH} --dry_run', official_mtg2, prints='mtg2_summ_zh_zh'
        ),
        'python -m xlbench.prepare --root=data --mixture=xquad_multi_qg --split=train '
        '--new_vocabulary=data/xquad/xquad.model --vocabulary_size=8000': Step(
            '--vocabulary_size=400', xquad, leaves='data/xquad/xquad.model'
        ),
        'python -m xlbench.train --config=configs/xquad_mt5.py:sample,scenario=multi': Step(
            '--dry_run', prints='xquad_multi_qg'
        ),
        f'{MTG_BUILD} build --qg=data/xquad/xquad.en.json --engine=apertium --languages=es '
        '--sizes=60,30,60 --output=built': Step(
            # Forty made-up questions; the words of some are nobody's.
            '--sizes=6,4,6 --threshold=0.1',
            apertium,
            prints='| 0.5 |',
            leaves='built/mtg/qg/es/rough_train.trg',
        ),
        f'{MTG_BUILD} correct corrected-*.json --output=built': Step(
            skip='people correct; tests/tasks/mtg_build_test.py does as they do'
        ),
        f'{MTG_BUILD} correct --uncorrected --output=built': Step(
            leaves='built/mtg/qg/es/test.trg'
        ),
        f'{MTG_BUILD} statistics --output=built': Step(prints='| qg es test | 6 |'),
        f'{MTG}:base,scenario=cross,task=qg,source=en,target=es --config.data.root=built '
        '--workdir=RUNS/built': Step(MTG_FRESH, prints='nearest_input'),
        'python -m xlbench.convert models/my-encoder models/small --tokens_of=xquad_multi_qg '
        '--root=data': Step(skip=TRIMMED),
        'python -m xlbench.train --config=configs/xquad_bert2bert.py:encoder,scenario=multi '
        '--config.model.from=models/small --config.evals.test.metrics=bertscore=models/my-encoder '
        '--workdir=RUNS/questions': Step(skip=PARSED),
        'python -m xlbench.train --config=configs/masakhanews_bert2bert.py:encoder,task=tgdev '
        '--config.model.from=models/small --workdir=RUNS/headlines': Step(skip=PARSED),
    },
    'mrs.md': {
        f'{MRS} --workdir=RUNS/replies': Step(
            REPLIES_SHORT, prints='nearest_input', leaves='RUNS/replies/DONE'
        ),
        f'{MRS_GENERATOR} --workdir=RUNS/generator': Step(skip=PARSED),
        f'{MRS_GENERATOR}:task=reverse --workdir=RUNS/reverse': Step(skip=PARSED),
        f'{RANKS} --rerank=RUNS/replies': Step(skip=RANKED),
        f'{RANKS} --mmi_model=RUNS/reverse': Step(skip=RANKED),
        f'{RANKS} --num_groups=3 --diversity_penalty=1 --num_return=3': Step(skip=RANKED),
        'python -m xlbench.report RUNS/generator --variants': Step(skip=RANKED),
        f'{MRS_GENERATOR}:scenario=mono,source=de --config.init_from=RUNS/generator '
        '--config.lora.rank=8 --workdir=RUNS/adapter_de': Step(skip=PARSED),
        'python -m xlbench.report RUNS/generator RUNS/adapter_* --variants': Step(skip=RANKED),
        'python -m xlbench.annotate make RUNS/generator RUNS/replies --sets=3 --scale=replies '
        '--tasks=mrs_retrieval_en_en --output=replies_study': Step(skip=PREFERRED),
        'python -m xlbench.report RUNS/generator RUNS/replies --figure=2 '
        '--ratings=replies_study/scores/ratings.jsonl': Step(skip=PREFERRED),
        f'{MRS}:mbert,scenario=mono,source=de --workdir=RUNS/mono_de': Step(
            REPLIES_TINY, official_mrs, leaves='RUNS/mono_de/DONE'
        ),
        f'{MRS}:mbert,scenario=zero_shot --workdir=RUNS/zero_shot': Step(
            REPLIES_TINY, leaves='RUNS/zero_shot/DONE'
        ),
        'python -m xlbench.report RUNS/mono_* RUNS/zero_shot': Step(prints='Zero'),
        f'{MRS}:scenario=mixed,source=de,dev=translated --workdir=RUNS/mixed_de': Step(
            skip=PARSED
        ),
        f'{MRS}:scenario=mixed,source=de,validation=code '
        '--config.stages.stage1.added.mt.rate=2.0 --workdir=RUNS/mixed_de_2': Step(skip=PARSED),
        f'{MRS} --config.stages.stage1.num_steps=400 --config.model.dtype=bfloat16 '
        '--workdir=RUNS/replies_bfloat16': Step(skip=PARSED),
        f'{SWEEP}:sample,methods=full,shots=1+4 --config.source.model.dtype=bfloat16 '
        "--config.adapt.buckets='(0,4)' --config.adapt.learning_rates='(1e-3,)' "
        '--workdir=RUNS/tags_bfloat16': Step(skip=PARSED),
        'python -m xlbench.train --config=configs/xdailydialog.py:encoder,scenario=zero_shot '
        '--config.model.from=models/my-encoder --workdir=RUNS/zero_shot_dialogues': Step(
            skip=PARSED
        ),
        'python -m xlbench.train --config=configs/xpersona.py:encoder,scenario=zero_shot '
        '--config.model.from=models/my-encoder --workdir=RUNS/zero_shot_personas': Step(
            skip=PARSED
        ),
        'python -m xlbench.data mrs_build RC_2018-*.zst --output=data '
        '--engine=Helsinki-NLP/opus-mt-{source}-{target}': Step(skip=REDDIT),
        'python -m xlbench.data mrs_build RC_2018-*.zst --output=data_es '
        '--languages=en,es,pt --engine=apertium': Step(skip=REDDIT),
    },
    'fewshot.md': {
        f'{SWEEP} --workdir=RUNS/fewshot': Step(SWEEP_SHORT, leaves='RUNS/fewshot/results.csv'),
        f'{SWEEP}:mbert,task=panx --workdir=RUNS/panx': Step(
            skip='needs mBERT and the official files; its blocks are those of the sample'
        ),
        f'{SWEEP}:mbert,task=pawsx --workdir=RUNS/pawsx '
        "--config.adapt.source_learning_rates='(1e-5, 3e-5, 5e-5, 7e-5)'": Step(
            skip='needs mBERT; tests/fewshot/fewshot_test.py searches with a tiny model'
        ),
        'python -m xlbench.fewshot report RUNS/fewshot --output=RUNS/fewshot_report': Step(
            leaves='RUNS/fewshot_report/report.md'
        ),
        f'{SWEEP}:encoder,languages=de+tr+ta+zh+mr,methods=full+fc '
        '--config.source.model.from=models/my-encoder --workdir=RUNS/pos '
        '--report=RUNS/pos_report': Step(
            f'{SWEEP_SHORT} --config.source.data.root=data/sample --config.source.data.sample=True '
            '--config.adapt.languages="(\'de\',)" --config.adapt.methods="(\'fc\',)"',
            prepare=own_encoder,
            leaves='RUNS/pos_report/report.md',
        ),
        'python -m xlbench.data dev_split --root=data --task=xnli --output=data/dev_split': Step(
            '--root=data/sample', leaves='data/dev_split/fewshot/xnli/train-en.tsv'
        ),
        f'{SWEEP}:encoder,task=xnli,languages=de+es+sw+zh,methods=full+fc+fc_pooler '
        '--config.source.model.from=models/my-encoder --config.source.data.root=data/dev_split '
        '--workdir=RUNS/xnli': Step(skip='as the sweep over parts of speech, in other languages'),
        'python -m xlbench.data get sib200 --root=data': Step(skip='needs a connection'),
        'python -m xlbench.fewshot --config=configs/fewshot_any.py:encoder,task=sib200,'
        'languages=de+sw+ta+zh,shots=1+4,buckets=10,methods=fc+fc_pooler '
        '--config.source.model.from=models/my-encoder --workdir=RUNS/sib200': Step(
            skip='needs the published files; tests/tasks/public_corpora_test.py has made-up ones'
        ),
        'python -m xlbench.prompt http://localhost:8000/v1#qwen3 --task=xnli --languages=de+fr '
        '--shots=0+4 --root=data --workdir=RUNS/prompted': Step(
            skip='needs a server; tests/prompting/prompt_test.py starts some'
        ),
        'python -m xlbench.fewshot report RUNS/prompted --output=RUNS/prompted_report': Step(
            skip='needs the sweep before it; tests/prompting/prompt_test.py has one'
        ),
        "python -m xlbench.reproduce fewshot --table=12 "
        "--add='LLM=prompt:http://localhost:8000/v1#qwen3' --workdir=RUNS/prompted_table": Step(
            skip='needs a server; tests/prompting/prompt_test.py starts some'
        ),
        'python -m xlbench.fewshot --config=configs/fewshot_any.py:xlmr_base,task=masakhaner2,'
        'objective=tagging,source=sw,languages=ha+yo --workdir=RUNS/masakhaner2': Step(
            skip='needs XLM-R; tests/tasks/public_corpora_test.py reads made-up files'
        ),
        'python -m xlbench.fewshot --config=configs/fewshot_any.py:mbert,task=mood,source=en,'
        'languages=de+fr --workdir=RUNS/mood': Step(
            skip='needs mBERT; tests/training/finetune_test.py sweeps over a task of its own'
        ),
        'python -m xlbench.data buckets check data/fewshot/buckets': Step(
            prepare=treebank, prints='udpos'
        ),
        'python -m xlbench.data buckets sample --task=udpos --lang=de --shots=1,2,4 '
        '--output=data/fewshot/buckets train-de.tsv': Step(
            skip='the folder of the line before holds them; tests/data/buckets_test.py draws them'
        ),
    },
    'clidsum.md': {
        'python -m xlbench.score mdialbart_de.txt.gz --references=gold.de.txt '
        '--task=clidsum_xmediasum40k_en_de': Step(
            prepare=published_outputs, prints='snowball-german'
        ),
        'python -m xlbench.score mdialbart_zh.txt.gz --references=gold.zh.txt '
        '--benchmark=clidsum --lang=zh': Step(skip='in tests/metrics/score_test.py'),
        f'{CLIDSUM} --workdir=RUNS/clidsum': Step(
            CLIDSUM_SHORT, prints='longest_utterance', leaves='RUNS/clidsum/DONE'
        ),
        f'{CLIDSUM}:sample,corpus=xmediasum40ksummary,target=de --workdir=RUNS/en_de': Step(
            CLIDSUM_SHORT, leaves='RUNS/en_de/DONE'
        ),
        'python -m xlbench.translate --engine=RUNS/en_de --source_lang=en --target_lang=de '
        '--lower --input=data/sample/clidsum/MediaSum424k/news_dialogue.json --field=summary '
        '--keep=id --output=data/sample/clidsum/MediaSum424k/summaries.de.jsonl': Step(
            '--max_length=4', interviews, prints='40 texts: 0 from the cache, 40 translated'
        ),
        f'{CLIDSUM}:sample,scenario=semi,target=de --workdir=RUNS/semi': Step(
            f'{CLIDSUM_SHORT} --dry_run', prints='clidsum_semi_xmediasum40k_en_de, split'
        ),
        f'{MDIALBART} --workdir=RUNS/mdialbart': Step(
            skip='prepares noise for minutes; the next one has two of its tasks'
        ),
        f'{MDIALBART}:pretraining=mds+mt,target=de --workdir=RUNS/mds_mt': Step(
            f'{steps(4, 4)} {SCORE_FEW} {SHALLOW}',
            prints='batches of 16 rows x (192 inputs + 192 targets)',
            leaves='RUNS/mds_mt/DONE',
        ),
        'python -m xlbench.data triples data/clidsum/XSAMSum/train.json --tagger=RUNS/pos': Step(
            skip='needs a trained tagger; tests/inference/labeller_test.py runs it with one'
        ),
        'python -m xlbench.train --config=configs/clidsum_summariser.py:sample,model=mvbart '
        '--workdir=RUNS/mvbart': Step(
            f'{CLIDSUM_SHORT} --dry_run', prints='clidsum_xsamsumviews_en_en'
        ),
        'python -m xlbench.data segment data/clidsum/XSAMSum/*.json': Step(
            prepare=official_chats, leaves='data/clidsum/XSAMSum/test.views.jsonl'
        ),
        'python -m xlbench.data mark --model=microsoft/DialoGPT-large '
        '--input=data/clidsum/XSAMSum/train.json --output=marked/clidsum/XSAMSum/train.json': Step(
            prepare=chats, leaves='marked/clidsum/XSAMSum/train.json'
        ),
        'python -m xlbench.data statistics clidsum_xsamsum_en_de clidsum_xsamsum_en_zh '
        '--root=data/sample': Step(prints='| clidsum_xsamsum_en_zh test |'),
        'python -m xlbench.data get crosssum --root=data': Step(skip='needs a connection'),
        'python -m xlbench.train --config=configs/finetune.py:mt5_base,mixture=crosssum_news_en_ha '
        '--workdir=RUNS/crosssum': Step(
            skip='needs mT5; tests/tasks/public_corpora_test.py reads made-up files'
        ),
        'python -m xlbench.data get convsumx --root=data': Step(skip='needs a connection'),
        'python -m xlbench.train --config=configs/convsumx.py --workdir=RUNS/convsumx': Step(
            skip='the published files are needed; tests/tasks/convsumx_test.py reads made-up ones'
        ),
    },
    'translation.md': {
        f'{TRANSLATION} --workdir=RUNS/translation': Step(
            CLIDSUM_SHORT, prints='word_by_word', leaves='RUNS/translation/DONE'
        ),
        'python -m xlbench.data clean --source_lang=en --target_lang=de --workers=2 '
        '--output=data/translation/wmt20/en-de/train.tsv europarl.tsv.gz:2,1 rapid.tmx.gz '
        'news.en,news.de': Step(prepare=parallel_corpora, prints='60 pairs read, 60 kept'),
        f'{TRANSLATION}:base,target=de': Step('--dry_run', prints='translation_wmt20_en_de'),
        'python -m xlbench.translate --engine=facebook/nllb-200-distilled-600M '
        '--source_lang=en --target_lang=de --input=english.txt --output=german.txt': Step(
            skip='2.5 GB of the hub; tests/translation/translation_test.py has a folder like it'
        ),
        'python -m xlbench.translate --engine=apertium --source_lang=en --target_lang=es '
        "--input='data/mrs/train/en/*.tsv*' --format=tsv --field=1,2 --failed=drop "
        '--output=data/mrs/mt_train/es/en.tsv': Step(
            prepare=replies_and_apertium, leaves='data/mrs/mt_train/es/en.about.json'
        ),
        f'{MRS}:mbert,scenario=mt,source=es --workdir=RUNS/mt_es': Step(
            f'{REPLIES_TINY} --dry_run', prints='mrs_'
        ),
        'python -m xlbench.translate --engine=firefox-en-pt --source_lang=en --target_lang=pt '
        '--input=english.txt --output=portuguese.txt': Step(
            '--max_length=4', mozilla, leaves='portuguese.about.json'
        ),
        'python -m xlbench.train --config=configs/finetune.py:pretrained,mixture=news_title_en '
        '--config.model.from=firefox-en-pt': Step(skip=PARSED),
        'python -m xlbench.convert RUNS/titles titles': Step(skip=PARSED),
        'python -m xlbench.translate --engine=apertium --source_lang=en --target_lang=es '
        '--input=RUNS/mtg --input_task=mtg_qg_en_en --output=questions.es.jsonl '
        '--task=mtg_qg_es_es --like=RUNS/mtg --workdir=RUNS/generated_then_translated': Step(
            '--num_examples=8', leaves='RUNS/generated_then_translated/config.json'
        ),
        'python -m xlbench.report RUNS/mtg RUNS/generated_then_translated': Step(
            prints='generated_then_translated'
        ),
        f'{CLIDSUM}:sample,scenario=mono --workdir=RUNS/summariser': Step(
            CLIDSUM_SHORT, leaves='RUNS/summariser/DONE'
        ),
        f'{CLIDSUM}:sample,corpus=xsamsumsummary,target=de --workdir=RUNS/translator': Step(
            CLIDSUM_SHORT, leaves='RUNS/translator/DONE'
        ),
        'python -m xlbench.translate chain RUNS/summariser translate:RUNS/translator '
        '--task=clidsum_xsamsum_en_de --workdir=RUNS/sum_trans': Step(
            '--num_examples=8', prints='rouge_1', leaves='RUNS/sum_trans/config.json'
        ),
        'python -m xlbench.report RUNS/clidsum RUNS/sum_trans': Step(
            prints='summariser + translator'
        ),
        f'{TRANS_SUM} --split=train --like=RUNS/clidsum --output={CHATS}/train{OF_DE}': Step(
            '--num_examples=40', leaves=f'{CHATS}/train.translated.de.about.json'
        ),
        f'{TRANS_SUM} --split=validation --like=RUNS/clidsum --output={CHATS}/val{OF_DE}': Step(
            '--num_examples=8', leaves=f'{CHATS}/val.translated.de.about.json'
        ),
        f'{TRANS_SUM} --split=test --like=RUNS/clidsum --output={CHATS}/test{OF_DE}': Step(
            '--num_examples=8', leaves=f'{CHATS}/test.translated.de.about.json'
        ),
        f'{CLIDSUM}:sample,scenario=mono,corpus=xsamsumtranslated,source=de '
        '--workdir=RUNS/summariser_de': Step(CLIDSUM_SHORT, leaves='RUNS/summariser_de/DONE'),
        'python -m xlbench.translate chain translate:RUNS/translator RUNS/summariser_de '
        '--task=clidsum_xsamsum_en_de --root=data/sample --workdir=RUNS/trans_sum': Step(
            '--num_examples=8', leaves='RUNS/trans_sum/config.json'
        ),
    },
}
