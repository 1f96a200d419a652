"""The subjects of sweeps: tasks of few-shot transfer, other benchmarks of labels, a user's tasks.

A benchmark with one task, such as SIB-200, is named as it is: sib200.

A user's own task has the name of its task file, such as mood for tasks/mood.py. Its SeqIO tasks are
mood_de, mood_fr, ..., each with the splits shots_1, ... (see pipeline.Shots), 'test', and
'validation', which decides when an adaptation stops. The objective of the source training, in the
config of the sweep, says whether the task labels texts or words.
"""

from collections.abc import Mapping

from xlbench.benchmarks import languages as languages_lib, lookup
from xlbench.benchmarks.fewshot import FEWSHOT, LabelBenchmark
from xlbench.system.files import Setting

_LABELS_WORDS: dict[str, bool] = {}  # Of the tasks that were added.


def declared(task: str) -> tuple[LabelBenchmark, str] | None:
    """The benchmark that a subject is of, and its name there; None of a user's own task.

    Example: 'xnli' -> (FEWSHOT, 'xnli'); 'sib200' -> (SIB200, 'topic')
    """
    if task in FEWSHOT.tasks:
        return FEWSHOT, task
    benchmark = lookup.BENCHMARKS.get(task)
    if isinstance(benchmark, LabelBenchmark) and len(benchmark.tasks) == 1:
        return benchmark, benchmark.tasks[0]
    return None


def names() -> tuple[str, ...]:
    """Lists the subjects that benchmarks declare."""
    return (*FEWSHOT.tasks, *filter(declared, lookup.BENCHMARKS))


def add(config: Mapping[str, Setting]) -> None:
    """Makes the task of a sweep's config known, where it is none of a benchmark's."""
    task, source = config.get('task'), config.get('source', {})
    objective = source.get('objective', {}) if hasattr(source, 'get') else {}
    if isinstance(task, str) and not declared(task) and hasattr(objective, 'get'):
        _LABELS_WORDS[task] = objective.get('name') == 'tagging'


def is_known(task: str) -> bool:
    """Returns whether it is one of a benchmark's, or was added."""
    return bool(declared(task)) or task in _LABELS_WORDS


def is_tagging(task: str) -> bool:
    """Returns whether words are labelled."""
    if found := declared(task):
        return found[1] in found[0].tagging
    return _LABELS_WORDS.get(task, False)


def main_score(task: str) -> str:
    """The score that adaptations are compared by."""
    return 'chunk_f1' if is_tagging(task) else FEWSHOT.scores[0]


def pivot(task: str) -> str:
    """The language to transfer from, unless a sweep names another."""
    found = declared(task)
    return (found[0] if found else FEWSHOT).pivot


def title(task: str) -> str:
    """A readable name."""
    found = declared(task)
    return found[0].task_titles[found[1]] if found else task


def languages(task: str) -> tuple[str, ...]:
    """The languages of a task, in the order that results have."""
    found = declared(task)
    return found[0].languages_of(found[1]) if found else tuple(languages_lib.LANGUAGES)


def train_languages(task: str) -> tuple[str, ...]:
    """The languages with a split 'train'; all of a user's task, whose shots come from it."""
    found = declared(task)
    return found[0].train_languages(found[1]) if found else languages(task)


def shots(task: str) -> tuple[int, ...]:
    """The numbers of shots that a task has buckets of; () if only its preparation knows."""
    found = declared(task)
    return found[0].shots(found[1]) if found else ()


def task_name(task: str, lang: str) -> str:
    """The SeqIO task in one language: fewshot_udpos_de_de, sib200_topic_de_de, or mood_de."""
    found = declared(task)
    return found[0].task_name(found[1], lang) if found else f'{task}_{lang}'
