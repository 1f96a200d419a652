"""Prompts with the examples of few-shot buckets, as the workdir of a sweep.

The rows have the method 'prompt' and the start 'none', because nothing is trained; learning rate
and seed are 0. The dev set is not used.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xlbench.benchmarks import topics
from xlbench.data import prepared
from xlbench.data.features import Example
from xlbench.fewshot import results, settings
from xlbench.fewshot.results import PROMPT, ZERO_SHOT, Row
from xlbench.metrics import tagging
from xlbench.prompt import engines
from xlbench.prompt.engines import Request
from xlbench.prompt.templates import Template
from xlbench.system.progress import Progress
from xlbench.translate.jobs import Job

START = 'none'
_TOKENS_A_WORD = 8  # The most for a tagged word in an answer.


class Language:
    """The buckets and the test set of a task in one language."""

    def __init__(
        self,
        open_split: Callable[[str, str], prepared.Prepared],  # (SeqIO task, split) -> examples
        task: str,  # See benchmarks.topics.
        lang: str,
        shots: Sequence[int],  # Values of K; 0 needs no buckets.
        num_examples: int,  # Of the test set; 0: all.
    ):
        name = topics.task_name(task, lang)  # Of the SeqIO task.
        self.lang, self._is_tagging = lang, topics.is_tagging(task)
        test = open_split(name, 'test')
        self.test = test.read(results.drawn(len(test), num_examples))
        self.labels: list[str] = test.manifest['labels']
        self.contents = {f'{name}/test': test.content}  # The hash of each split that is read.
        self._shots: dict[int, dict[int, list[Example]]] = {}
        for k in filter(None, shots):
            split = open_split(name, f'shots_{k}')
            self.contents[f'{name}/{split.split}'] = split.content
            buckets = self._shots[k] = {}
            for record in split.read(range(len(split))):
                buckets.setdefault(int(record['bucket']), []).append(record)

    def bucket(self, shots: int, number: int) -> list[Example]:
        """Returns the examples of a bucket; none without shots."""
        return self._shots[shots].get(number, []) if shots else []

    def num_buckets(self, shots: int) -> int:
        """Counts the buckets of K = `shots` up to the last one with an example."""
        return 1 + max(self._shots[shots], default=-1) if shots else 0

    def request(self, template: Template, bucket: Sequence[Example], asked: Example) -> Request:
        """Returns the prompt of a test example, behind the examples of a bucket."""
        shots = [(record, template.answer(record, self._is_tagging)) for record in bucket]
        prompt = template.prompt(shots, asked, self.lang)
        if self._is_tagging:
            return Request(prompt, (), _TOKENS_A_WORD * len(asked['targets']))
        return Request(prompt, tuple(template.labels.get(label, label) for label in self.labels))

    def read_answer(self, template: Template, asked: Example, answer: str) -> list[int]:
        """Returns the numbers of the labels in an answer.

        Missing or unknown ones become the first label, tags the tag O if there is one.
        """
        if not self._is_tagging:
            names = [template.labels.get(label, label) for label in self.labels]
            return [names.index(answer) if answer in names else 0]
        count, default = len(asked['targets']), 'O' if 'O' in self.labels else self.labels[0]
        tags = [part.rpartition('/')[2] for part in answer.split()][:count]
        tags += [default] * (count - len(tags))
        return [self.labels.index(tag if tag in self.labels else default) for tag in tags]

    def flat(self, found: Sequence[Sequence[int]]) -> np.ndarray:
        """Joins the labels of all test examples: [W] int32, as in corpus.EvalSet."""
        if not self._is_tagging:
            return np.array(found, np.int32)[:, 0]
        joined = []
        for record, labels in zip(self.test, found, strict=True):
            right = [self.labels[i] for i in record['targets']]
            pairs = zip(labels, right, strict=True)
            joined += [label for label, tag in pairs if tag not in tagging.UNSCORED] + [-1]
        return np.array(joined, np.int32)


def rows(
    task: str, languages: Sequence[str], shots: Sequence[int], buckets: Sequence[int]
) -> list[Row]:
    """Lists all rows of a sweep, without results."""
    empty: dict[str, Any] = dict(metric=topics.main_score(task), examples=0, status='empty')
    made = []
    for lang, k in itertools.product(languages, shots):
        if k:
            made += [Row(task, lang, k, n, PROMPT, START, 0.0, 0, **empty) for n in buckets]
        else:
            made.append(Row(task, lang, k, None, ZERO_SHOT, START, None, None, **empty))
    return made


def run(
    journal: results.Journal,
    asked: Sequence[Row],
    data: Mapping[str, Language],  # By language, as are the next.
    templates: Mapping[str, Template],
    jobs: Mapping[str, Job],
) -> None:
    """Asks for the labels of the test sets, and adds each row that is asked for to the journal.

    Rows that the journal has are skipped. If the engine does not answer, a UserError ends the
    sweep; earlier rows are kept.
    """
    gold = {}
    for lang, of_lang in data.items():
        gold[lang] = of_lang.flat([x['targets'].tolist() for x in of_lang.test])
        journal.add_gold(asked[0].task, lang, gold[lang], of_lang.labels, len(of_lang.test))
    is_tagging = topics.is_tagging(asked[0].task)
    left = [row for row in asked if not journal.has(row.key)]
    with Progress('prompted', len(left), 'rows') as progress:
        for row in left:
            of_lang, template = data[row.language], templates[row.language]
            bucket = of_lang.bucket(row.shots, row.bucket or 0)
            if bucket or not row.shots:
                requests = [of_lang.request(template, bucket, x) for x in of_lang.test]
                answers = engines.ask(jobs[row.language], requests)
                pairs = zip(of_lang.test, answers, strict=True)
                found = of_lang.flat([of_lang.read_answer(template, *pair) for pair in pairs])
                score = settings.score(is_tagging, of_lang.labels, gold[row.language], found)
                done = dataclasses.replace(row, score=score, examples=len(bucket), status='done')
                most = 1 + max(of_lang.num_buckets(row.shots) - 1, row.bucket or 0)
                journal.add(done, found, most)
            else:
                journal.add(row)
            progress.add()
