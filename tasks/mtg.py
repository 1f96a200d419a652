"""MTG, multilingual text generation (arXiv:2108.07140): three tasks, four languages, all pairs.

Reads below the data root, one UTF-8 file for each task, language, split and side; line n is the
same example in every language and on both sides:

  mtg/qg/en/train.src    Rome is an old city.<TAB>Rome       passage, TAB, answer
  mtg/qg/en/train.trg    What is an old city?                question
  mtg/sg/en/train.src    four sentences                      story ending: the fifth is the target
  mtg/tg/en/train.src    an article                          its title is the target

The benchmark's text does not name its files or the mark between passage and answer: another pattern
than mtg/{task}/{lang}/{split}.{side} is given by XLBENCH_MTG_FILES, and TAB is our choice. Tasks
are mtg_<task>_<source language>_<target language>; mtg_qg_en_de takes the English source and the
German target:

  Rome is an old city.<TAB>Rome, Was ist eine alte Stadt?  ->
  inputs '<de> Rome is an old city. <answer> Rome', targets 'Was ist eine alte Stadt?'

An input that is too long for a model loses the end of its passage; the answer stays.

tasks/mtg2.py has version 2 of the data, in the same form below mtg2/.
"""

import functools
from collections.abc import Iterator

from xlbench import pipeline
from xlbench.benchmarks import MTG, ParallelBenchmark, mtg as versions
from xlbench.data import readers
from xlbench.system import errors

SPLITS = ('rough_train', 'train', 'validation', 'test')
# The columns of a source line, and the input they make.
SOURCES = {
    'sg': (('story',), '{story}'),
    'qg': (('passage', 'answer'), '{passage}' + pipeline.ANSWER_SEPARATOR + '{answer}'),
    'tg': (('article',), '{article}'),
}


def files(name: str, task: str, source: str, target: str, split: str) -> list[str]:
    """Source and target file of a split of a version, mtg or mtg2, below the data root."""
    pattern, variable = versions.file_pattern(name), versions.VARIABLES[name]
    try:
        return [
            pattern.format(task=task, lang=lang, split=split, side=side)
            for lang, side in zip((source, target), ('src', 'trg'), strict=True)
        ]
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        raise errors.UserError(
            f'{variable}={pattern} is not a pattern of {{task}}, {{lang}}, {{split}} and '
            f'{{side}}, like {name}/{versions.FILES}'
        ) from error


def read(
    columns: tuple[str, ...], split: str, source_path: str, target_path: str
) -> Iterator[readers.Record | readers.BadRecord]:
    """The pairs of a split."""
    return readers.read_parallel(source_path, target_path, columns)


def register_all(benchmark: ParallelBenchmark) -> None:
    """Adds all tasks and mixtures of a version; a task that only version 2 has reads one text."""
    pattern = f'{benchmark.name}/{versions.FILES}, set by {versions.VARIABLES[benchmark.name]}'
    for name in benchmark.task_names():
        _, task, source, target = name.split('_')
        columns, template = SOURCES.get(task, (('text',), '{text}'))
        texts = pipeline.RecordSource(
            functools.partial(read, columns),
            functools.partial(files, benchmark.name, task, source, target),
            SPLITS,
            (*columns, 'target'),
            source_lang=source,
            target_lang=target,
            count=pipeline.count_lines,
            hint=f'the pattern below it is {pattern}',
        )
        pipeline.add_text_task(name, texts, inputs=template, targets='{target}')
    pipeline.add_scenarios(benchmark)


register_all(MTG)
