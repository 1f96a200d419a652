"""XPersona (arXiv:2003.07568): dialogues between two invented persons, in seven languages.

Reads below the data root, also packed (.gz), the files that people have checked:

  xpersona/En_persona_{valid,test}.json
  xpersona/Fr_persona_split_{valid,test}_human_annotated.json     likewise Id, It, Jp, Ko and Zh

  [{"persona": ["I like tea ."], "dialogue": [["hello !", "hi , do you like tea ?"], ...]}, ...]

Each [message, reply] is a pair; the persona is not used. English dialogues open with __SILENCE__ in
place of a message, and that pair is left out. Tasks are xpersona_retrieval_fr_fr and
xpersona_generation_fr_fr.

The test file is for test. The split of the other is ours: every tenth dialogue is for validation,
the others are for training. The languages hold translations of partly the same dialogues, so what
is a test dialogue in one of them may be a training dialogue in another.
"""

from xlbench import pipeline
from xlbench.benchmarks import XPERSONA


def file(lang: str, part: str) -> str:
    """The file of a language, below the data root; `part` is valid or test."""
    if lang == 'en':
        return f'xpersona/En_persona_{part}.json'
    prefix = 'Jp' if lang == 'ja' else lang.title()
    return f'xpersona/{prefix}_persona_split_{part}_human_annotated.json'


for _lang in XPERSONA.languages:
    pipeline.register_dialogue_tasks(
        XPERSONA.name,
        _lang,
        files={
            'train': file(_lang, 'valid'),
            'validation': file(_lang, 'valid'),
            'test': file(_lang, 'test'),
        },
        format='json',
        part_of=lambda split, number: (
            split == 'test' or (number % 10 == 8) == (split == 'validation')
        ),
        hint='python -m xlbench.data list xpersona says how to get it',
    )

pipeline.add_scenarios(XPERSONA)
