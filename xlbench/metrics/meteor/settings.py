"""Settings of METEOR 1.5 for each language and task: parameters, modules and their weights."""

from typing import NamedTuple

from xlbench.system import errors

MODULES = ('exact', 'stem', 'synonym', 'paraphrase')
# METEOR's names of languages that are not ISO codes.
NAMES = {'cs': 'cz', 'sv': 'se'}
STEMMERS = {
    'da': 'danish', 'de': 'german', 'en': 'english', 'es': 'spanish', 'fi': 'finnish',
    'fr': 'french', 'hu': 'hungarian', 'it': 'italian', 'nl': 'dutch', 'no': 'norwegian',
    'pt': 'portuguese', 'ro': 'romanian', 'ru': 'russian', 'se': 'swedish',
}  # fmt: skip
LANGUAGES = tuple(sorted({*STEMMERS, 'cz', 'tr', 'other'}))
_PHRASES = ('exact', 'stem', 'paraphrase')


class Setting(NamedTuple):
    """Parameters of a task: alpha, beta, gamma, delta; weights by a module's place."""

    parameters: tuple[float, float, float, float]
    modules: tuple[str, ...]
    weights: tuple[float, ...]


_LI = (0.75, 1.40, 0.70, 0.50)
_TUNE = (0.5, 1.0, 0.5, 0.5)
# edu.cmu.meteor.util.Constants of the jar: (language, task) -> setting.
_SETTINGS = {
    ('en', 'rank'): Setting((0.85, 0.20, 0.60, 0.75), MODULES, (1.0, 0.6, 0.8, 0.6)),
    ('en', 'adq'): Setting((0.75, 1.40, 0.45, 0.70), MODULES, (1.0, 1.0, 0.6, 0.8)),
    ('en', 'hter'): Setting((0.40, 1.50, 0.35, 0.55), MODULES, (1.0, 0.2, 0.6, 0.8)),
    ('en', 'util'): Setting((0.65, 0.10, 0.55, 0.65), MODULES, (1.0, 0.0, 0.0, 0.8)),
    ('cz', 'rank'): Setting((0.95, 0.20, 0.60, 0.80), ('exact', 'paraphrase'), (1.0, 0.4)),
    ('fr', 'rank'): Setting((0.90, 1.40, 0.60, 0.65), _PHRASES, (1.0, 0.2, 0.4)),
    ('es', 'rank'): Setting((0.65, 1.30, 0.50, 0.80), _PHRASES, (1.0, 0.8, 0.6)),
    ('de', 'rank'): Setting((0.95, 1.00, 0.55, 0.55), _PHRASES, (1.0, 0.8, 0.2)),
    ('ru', 'rank'): Setting((0.75, 1.40, 0.70, 0.50), _PHRASES, (1.0, 0.5, 0.5)),
}
TASKS = ('rank', 'adq', 'hter', 'util', 'li', 'tune', 'universal')


def setting_of(lang: str, task: str) -> Setting:
    """Returns the tool's parameters for a language and a task; '' is the language's default."""
    ranked = _SETTINGS.get((lang, 'rank'))
    modules = ranked.modules if ranked else ('exact', 'stem')
    if lang == 'other':
        modules = ('exact',)
    task = task or ('rank' if ranked else 'li')
    if task == 'universal':
        return Setting((0.70, 1.40, 0.30, 0.70), ('exact', 'paraphrase'), (1.0, 0.6))
    if task in ('li', 'tune'):
        return Setting(_LI if task == 'li' else _TUNE, modules, (1.0, 0.5, 0.5, 0.5))
    if (lang, task) not in _SETTINGS:
        allowed = [name for name in TASKS if (lang, name) in _SETTINGS or name in TASKS[4:]]
        raise errors.UserError(
            f'METEOR has no parameters for task {task!r} in language {lang!r}; allowed: '
            f'{", ".join(allowed)}'
        )
    return _SETTINGS[lang, task]
