"""What holds of the tasks of all benchmarks: missing files, metrics, the counts of real files."""

import json
import re

import pytest
import task_records

from xlbench import pipeline
from xlbench.data import corpora
from xlbench.system import errors


@pytest.mark.parametrize(
    ('name', 'split', 'message'),
    [
        ('clidsum_xsamsum_en_zh', 'validation', 'XSAMSum/val.json .*data list clidsum '),
        ('convsumx_qmsumx_en_zh', 'train', 'qmsumx.train.jsonl.*data list convsumx '),
        ('dialogsum_summary_en_en', 'train', 'dialogsum.train.jsonl.*data list .*DialogSum_Data'),
        ('dialogsum_topic_en_en', 'test', 'dialogsum.test.jsonl.*data list dialogsum '),
        ('fewshot_udpos_ta_ta', 'train', r'udpos/train-ta\.tsv .*listed at the top'),
        ('masakhanews_tg_fr_fr', 'train', r'fra/train\.tsv .*data list masakhanews '),
        ('mrs_generation_de_de', 'test', r'mrs/test/de/\*\.tsv\* .*data list mrs '),
        ('mrs_generation_de_de', 'responses', 'mrs/rsp_set/de/response_lm_cluster.txt .*list mrs '),
        ('xdailydialog_retrieval_zh_zh', 'train', '1k_part_data/dialogues_text_Zh.txt.*list xdai'),
        ('xdailydialog_retrieval_it_it', 'train', 'xdailydialog/dialogues_text_It.txt.*list xdai'),
        ('xpersona_generation_ja_ja', 'train', 'Jp_persona_split_valid_human_.*list xpersona'),
        ('xquad_qg_en_zh', 'train', r'xquad/xquad\.en\.json .*data list xquad '),
    ],
)
def test_a_missing_file_is_named_with_where_to_get_it(tmp_path, name, split, message):
    source = pipeline.get(name).source
    missing = pytest.raises(errors.UserError, match=f'no file .*{message}')
    with pipeline.bound(None, str(tmp_path)), missing as caught:
        source.paths(split)
    assert '\n' not in str(caught.value)
    corpus = re.search(r'data list (\w+)', str(caught.value))
    assert corpus is None or corpus[1] in corpora.CORPORA


TEXTS = {'MultilingualRouge', 'SacreBleu', 'ChrF', 'Distinct'}


@pytest.mark.parametrize(
    ('name', 'metrics', 'tokenize'),
    [
        ('mtg_qg_en_de', TEXTS, '13a'),
        ('mtg2_qg_en_zh', TEXTS, 'zh'),
        ('xquad_qg_en_zh', TEXTS, 'zh'),
        ('masakhanews_tg_en_en', TEXTS, '13a'),
        ('clidsum_xsamsum_en_zh', {'MultilingualRouge', 'SacreBleu'}, 'zh'),
        ('mrs_retrieval_ja_ja', {'MrsRouge', 'SacreBleu'}, 'char'),
        ('mrs_generation_ja_ja', {'MrsRouge', 'SacreBleu'}, 'char'),
        ('mrs_reverse_ja_ja', {'MrsRouge', 'SacreBleu'}, 'char'),
        ('translation_wmt20_en_zh', {'SacreBleu', 'Ter', 'ChrF'}, 'zh'),
    ],
)
def test_metrics_know_the_target_language(name, metrics, tokenize):
    found = {type(metric).__name__: metric for metric in pipeline.get(name).metric_fns}
    assert {*found} == metrics and found['SacreBleu'].tokenize == tokenize
    lang = name.rpartition('_')[2]
    assert all(metric.lang == lang for key, metric in found.items() if key.endswith('Rouge'))
    if lang == 'de':
        text = ['eine alte Stadt am Fluss']
        assert found['MultilingualRouge'](text, text)['rouge_l'] == pytest.approx(100)
        assert found['SacreBleu'](text, text)['bleu'] == pytest.approx(100)


HELD_OUT = {'validation': (7030, 6900), 'test': (6720, 6541)}
QUESTIONS = {'train': 994, 'validation': 108, 'test': 88}


@pytest.mark.parametrize(
    ('name', 'sizes'),
    [
        ('convsumx_dialogsumx_en_zh', {'train': 400, 'validation': 100, 'test': 500}),
        ('convsumx_dialogsumx_en_uk', {'train': 400, 'validation': 100, 'test': 500}),
        ('convsumx_qmsumx_en_uk', {'validation': 40}),
        ('convsumx_qmsumxsummary_en_zh', {'validation': 40}),
        ('dialogsum_summary_en_en', {'validation': 500, 'test': 500}),
        ('dialogsum_topic_en_en', {'validation': 500, 'test': 500, 'hidden': 100}),
        # Some dialogues of training are also in the held-out files.
        ('xdailydialog_retrieval_en_en', {'validation': (7030, 6892), 'test': (6720, 6518)}),
        ('xdailydialog_retrieval_de_de', {'train': 6386, **HELD_OUT}),
        ('translation_xdailydialog_en_zh', {'validation': (901, 848), 'test': (7716, 6826)}),
        # English dialogues open with silence; the others have a few empty texts.
        ('xpersona_retrieval_en_en', {'train': (6580, 5680), 'validation': (736, 636)}),
        ('xpersona_retrieval_fr_fr', {'train': 1746, 'validation': 188, 'test': (1950, 1949)}),
        ('xpersona_retrieval_ja_ja', {'train': 1930, 'validation': 209, 'test': (2161, 2158)}),
        *((f'xquad_qg_{pair}', QUESTIONS) for pair in ('en_en', 'en_zh', 'de_es')),
        ('masakhanews_tgdev_en_en', {'train': 378, 'validation': 47, 'test': 47}),
        ('masakhanews_tgdev_fr_fr', {'train': 169, 'validation': 21, 'test': 21}),
        ('sib200_topic_de_de', {'train': 701, 'validation': 99, 'test': 204, 'shots_1': 70}),
    ],
)
def test_the_counts_of_real_files(dev_data, name, sizes):
    """Lines that are read, and records among them, where some are left out."""
    with pipeline.bound(None, str(dev_data)):
        for split, size in sizes.items():
            whole, good = size if isinstance(size, tuple) else (size, size)
            found = task_records.read(name, split)
            records = [record for record in found if isinstance(record, dict)]
            assert (len(found), len(records)) == (whole, good)
            assert pipeline.get(name).source.num_input_examples(split) == good
            if (name, split) == ('dialogsum_summary_en_en', 'test'):
                assert {len(json.loads(record['references'])) for record in records} == {3}
