"""XPersona (arXiv:2003.07568): dialogues between two invented persons, in en, fr, it and ja.

Reads below the data root, also packed (.gz), the files that people have checked:

  xpersona/En_persona_valid.json
  xpersona/Fr_persona_split_{valid,test}_human_annotated.json     likewise It, and Jp for Japanese

  [{"persona": ["I like tea ."], "dialogue": [["hello !", "hi , do you like tea ?"], ...]}, ...]

Each [message, reply] is a pair; the persona is not used. English dialogues open with __SILENCE__ in
place of a message, and that pair is left out. Tasks are xpersona_retrieval_fr_fr and
xpersona_generation_fr_fr.

The splits are ours, by the number of a dialogue in its file. English has one file: every tenth
dialogue is for validation, every tenth for test, the others for training. Elsewhere the test file
is for test, and of the other every tenth dialogue is for validation. The languages hold
translations of partly the same dialogues, so what is a test dialogue in one of them may be a
training dialogue in another.
"""

from xlbench import pipeline
from xlbench.benchmarks import XPERSONA

_PREFIXES = {'en': 'En', 'fr': 'Fr', 'it': 'It', 'ja': 'Jp'}


def split_of(lang: str, number: int) -> str:
    """The split of a dialogue of the file that is for validation, by its number from 0."""
    held_out = {8: 'validation', 9: 'test'} if lang == 'en' else {8: 'validation'}
    return held_out.get(number % 10, 'train')


def register(lang: str) -> None:
    """Adds the tasks of one language."""
    prefix = f'xpersona/{_PREFIXES[lang]}_persona'
    valid, test = (f'{prefix}_split_{part}_human_annotated.json' for part in ('valid', 'test'))
    if lang == 'en':
        valid = test = f'{prefix}_valid.json'
    pipeline.register_dialogue_tasks(
        XPERSONA.name,
        lang,
        files={'train': valid, 'validation': valid, 'test': test},
        format='json',
        part_of=lambda split, number: (
            (split == 'test' and test != valid) or split_of(lang, number) == split
        ),
        hint='put the files of github.com/HLTCHKUST/Xpersona, also packed (.gz), into the folder '
        'xpersona below it',
    )


for _lang in XPERSONA.languages:
    register(_lang)

for _scenario in XPERSONA.scenarios():
    pipeline.add_mixture(_scenario.mixture, _scenario.train)
