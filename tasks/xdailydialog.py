"""XDailyDialog (liuzeming01/XDailyDialog): everyday dialogues in en, de, it and zh.

Reads below the data root, one dialogue a line, also packed (.gz):

  xdailydialog/1k_part_data/dialogues_text_En.txt   Hi . __eou__ Hello .
  xdailydialog/dialogues_text_It.txt                the same; Italian's larger file has no folder
  xdailydialog/en_{dev,test}_human.txt              Hi . __eou__ Hello . __eou__<TAB>1<TAB>1 1<TAB>
                                                    0 4; topic, acts and emotions are not used

The dialogues are parallel, but for Italian's training file. Consecutive utterances are pairs of
message and reply: xdailydialog_retrieval_de_de and xdailydialog_generation_de_de. Some dialogues of
the held-out files are in the training file as well: validation and test leave out the pairs that
training has, punctuation and case aside.
"""

from xlbench import pipeline
from xlbench.benchmarks import XDAILYDIALOG

for _lang in XDAILYDIALOG.languages:
    _folder = 'xdailydialog' if _lang == 'it' else 'xdailydialog/1k_part_data'
    pipeline.register_dialogue_tasks(
        XDAILYDIALOG.name,
        _lang,
        files={
            'train': f'{_folder}/dialogues_text_{_lang.title()}.txt',
            'validation': f'xdailydialog/{_lang}_dev_human.txt',
            'test': f'xdailydialog/{_lang}_test_human.txt',
        },
        hint='python -m xlbench.data list xdailydialog says how to get it',
    )

pipeline.add_scenarios(XDAILYDIALOG)
