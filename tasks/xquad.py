"""XQuAD questions (arXiv:1910.11856): a passage and an answer -> the question, in twelve languages.

Reads <data root>/xquad/xquad.<lang>.json or .json.gz, SQuAD 1.1's format; the same questions stand
in the same order in every language. Tasks are xquad_qg_<source language>_<target language>;
xquad_qg_en_de takes the passage and answer in English and the question in German:

  {"context": "Rome is old.", "qas": [{"question": ..., "answers": [{"text": "Rome", ...}]}]}  ->
  inputs '<de> Rome is old. <answer> Rome', targets 'Was ist alt?'

An input that is too long for a model loses the end of its passage; the answer stays.

The published files are one test set. Here every tenth article is for validation, every tenth for
test, the others for training: an article is in one split alone, the same one in all languages, so
nothing that is asked about has been read in training.
"""

from collections.abc import Iterator

from xlbench import pipeline
from xlbench.benchmarks import XQUAD
from xlbench.data import readers

FIELDS = ('id', 'passage', 'answer', 'question')


def split_of(article: int) -> str:
    """The split of an article, by its 0-based position in the file."""
    return {8: 'validation', 9: 'test'}.get(article % 10, 'train')


def files(task: str, source: str, target: str, split: str) -> list[str]:
    """The files of both languages, below the data root; each has all splits."""
    return [f'xquad/xquad.{lang}.json' for lang in (source, target)]


def read(
    task: str, source: str, target: str, split: str, source_path: str, target_path: str
) -> Iterator[readers.Item]:
    """Passages and answers of one file with the questions of the same ids in the other."""
    questions = {}
    for record in readers.read_squad(target_path):
        if not isinstance(record, readers.BadRecord):
            questions[record['id']] = record['question']
        elif source_path != target_path:  # Otherwise it is reported below.
            yield record
    for record in readers.read_squad(source_path):
        if isinstance(record, readers.BadRecord):
            yield record
        elif record['id'] not in questions:
            place = f'question {record["id"]} of article {record["title"]!r}'
            yield readers.BadRecord(source_path, 0, f'{place} is not in {target_path}')
        elif split_of(int(record['article'])) == split:
            yield {
                'id': record['id'],
                'passage': record['context'],
                'answer': record['answer'],
                'question': questions[record['id']],
            }


pipeline.add_text_tasks(
    XQUAD,
    read,
    files,
    ('train', 'validation', 'test'),
    FIELDS,
    hint='python -m xlbench.data list xquad says how to get it',
    inputs='{passage}' + pipeline.ANSWER_SEPARATOR + '{answer}',
    targets='{question}',
    keep=['id'],
)
