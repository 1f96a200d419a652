"""MTG, multilingual text generation (arXiv:2108.07140): three tasks, four languages, all pairs.

Reads below the data root, one UTF-8 file for each task, language, split and side; line n is the
same example in every language and on both sides:

  mtg/qg/en/train.src    Rome is an old city.<TAB>Rome       passage, TAB, answer
  mtg/qg/en/train.trg    What is an old city?                question
  mtg/sg/en/train.src    four sentences                      story ending: the fifth is the target
  mtg/tg/en/train.src    an article                          its title is the target

The benchmark's text does not name its files or the mark between passage and answer: the pattern is
`FILES` (another one: XLBENCH_MTG_FILES), and TAB is our choice. Tasks are mtg_<task>_<source
language>_<target language>; mtg_qg_en_de takes the English source and the German target:

  Rome is an old city.<TAB>Rome, Was ist eine alte Stadt?  ->
  inputs '<de> Rome is an old city. <answer> Rome', targets 'Was ist eine alte Stadt?'

An input that is too long for a model loses the end of its passage; the answer stays.
"""

import functools
import os
from collections.abc import Iterator

import seqio

from xlbench import errors, pipeline
from xlbench.benchmarks import MTG
from xlbench.data import readers

FILES = 'mtg/{task}/{lang}/{split}.{side}'
SPLITS = ('rough_train', 'train', 'validation', 'test')
# The columns of a source line, and the input they make.
SOURCES = {
    'sg': (('story',), '{story}'),
    'qg': (('passage', 'answer'), '{passage}' + pipeline.ANSWER_SEPARATOR + '{answer}'),
    'tg': (('article',), '{article}'),
}


def files(task: str, source: str, target: str, split: str) -> list[str]:
    """Source and target file of a split, below the data root."""
    pattern = os.environ.get('XLBENCH_MTG_FILES') or FILES
    try:
        return [
            pattern.format(task=task, lang=lang, split=split, side=side)
            for lang, side in ((source, 'src'), (target, 'trg'))
        ]
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        raise errors.UserError(
            f'XLBENCH_MTG_FILES={pattern} is not a pattern of {{task}}, {{lang}}, {{split}} and '
            f'{{side}}, like {FILES}'
        ) from error


def read(
    columns: tuple[str, ...], split: str, source_path: str, target_path: str
) -> Iterator[readers.Record | readers.BadRecord]:
    """The pairs of a split."""
    return readers.read_parallel(source_path, target_path, columns)


def register(task: str, source: str, target: str) -> seqio.Task:
    """Adds the task of one language pair."""
    columns, template = SOURCES[task]
    return seqio.TaskRegistry.add(
        MTG.task_name(task, source, target),
        source=pipeline.RecordSource(
            functools.partial(read, columns),
            functools.partial(files, task, source, target),
            SPLITS,
            (*columns, 'target'),
            source_lang=source,
            target_lang=target,
            hint=f'the pattern below it is {FILES}, set by XLBENCH_MTG_FILES',
        ),
        preprocessors=pipeline.text_preprocessors(template, '{target}', target, source_lang=source),
        output_features=pipeline.text_features(),
        metric_fns=pipeline.text_metrics(target),
    )


for _task in MTG.tasks:
    for _source in MTG.languages:
        for _target in MTG.languages:
            register(_task, _source, _target)

for _scenario in MTG.scenarios():
    pipeline.add_mixture(_scenario.mixture, _scenario.train)
