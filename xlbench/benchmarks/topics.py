"""The subjects of sweeps: tasks of the benchmark, and tasks of a user.

A user's own task has the name of its task file, such as mood for tasks/mood.py. Its SeqIO tasks are
mood_de, mood_fr, ..., each with the splits shots_1, ... (see pipeline.Shots), 'test', and
'validation', which decides when an adaptation stops. The objective of the source training, in the
config of the sweep, says whether the task labels texts or words.
"""

from collections.abc import Mapping

from xlbench.benchmarks import languages as languages_lib
from xlbench.benchmarks.fewshot import FEWSHOT
from xlbench.system.files import Setting

_LABELS_WORDS: dict[str, bool] = {}  # Of the tasks that were added.


def add(config: Mapping[str, Setting]) -> None:
    """Makes the task of a sweep's config known, where it is none of the benchmark's."""
    task, source = config.get('task'), config.get('source')
    objective = source.get('objective') if hasattr(source, 'get') else None
    if isinstance(task, str) and task not in FEWSHOT.tasks and hasattr(objective, 'get'):
        _LABELS_WORDS[task] = objective.get('name') == 'tagging'


def is_known(task: str) -> bool:
    """Returns whether it is one of the benchmark's, or was added."""
    return task in FEWSHOT.tasks or task in _LABELS_WORDS


def is_tagging(task: str) -> bool:
    """Returns whether words are labelled."""
    return task in FEWSHOT.tagging or _LABELS_WORDS.get(task, False)


def main_score(task: str) -> str:
    """The score that adaptations are compared by."""
    return 'chunk_f1' if is_tagging(task) else FEWSHOT.scores[0]


def title(task: str) -> str:
    """A readable name."""
    return FEWSHOT.task_titles.get(task, task)


def languages(task: str) -> tuple[str, ...]:
    """The languages that a task can be asked for in, in their order in results."""
    return FEWSHOT.task_languages.get(task) or tuple(languages_lib.LANGUAGES)


def train_languages(task: str) -> tuple[str, ...]:
    """Lists the languages with a split 'train': all of a user's task, whose shots are from it."""
    return FEWSHOT.train_languages(task) if task in FEWSHOT.tasks else languages(task)


def shots(task: str) -> tuple[int, ...]:
    """The numbers of shots that a task has buckets of; () if only its preparation knows."""
    return FEWSHOT.shots(task) if task in FEWSHOT.tasks else ()


def task_name(task: str, lang: str) -> str:
    """The SeqIO task in one language: fewshot_udpos_de_de, or mood_de."""
    return FEWSHOT.task_name(task, lang) if task in FEWSHOT.tasks else f'{task}_{lang}'
