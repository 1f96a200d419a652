"""Questions about passages, as SQuAD and XQuAD have them."""

from collections.abc import Iterator

from xlbench.data.readers.json_files import Json, items, json_document, text_field
from xlbench.data.readers.text_lines import BadRecord, Record, as_bad_record
from xlbench.system import errors


def read_squad(path: str) -> Iterator[Record | BadRecord]:
    """Reads question answering in SQuAD 1.1's JSON: one record a question, with its first answer.

    Reasons name the place by article, paragraph and question, counted from 1, because a JSON file
    has no useful lines. Every text must be there, the passage must hold the answer at
    `answer_start`, in code points, and no two questions may have the same id.

    Example: {"data": [{"title": "Rome", "paragraphs": [{"context": "Rome is old.", "qas": [
      {"id": "q1", "question": "What is old?", "answers": [{"text": "Rome", "answer_start": 0}]}
      ]}]}]} ->
      {'id': 'q1', 'title': 'Rome', 'article': '0', 'paragraph': '0', 'context': 'Rome is old.',
       'question': 'What is old?', 'answer': 'Rome'}; article and paragraph (of the article) count
      from 0.
    """
    try:
        articles = items(json_document(path), 'data', 'the file')
    except ValueError as error:
        yield as_bad_record(path, error)
        return
    first: dict[str, str] = {}
    for article_index, article in enumerate(articles):
        place = f'article {article_index + 1}'
        try:
            paragraphs = items(article, 'paragraphs', place)
            title = text_field(article.get('title') or '-', f'title of {place}')
            title = title if article.get('title') else ''
        except ValueError as error:
            yield BadRecord(path, 0, str(error))
            continue
        for paragraph_index, paragraph in enumerate(paragraphs):
            inner = f'{place} {errors.shortened(title)}, paragraph {paragraph_index + 1}'
            common = {
                'title': title,
                'article': str(article_index),
                'paragraph': str(paragraph_index),
            }
            yield from _squad_questions(path, paragraph, inner, common, first)


def _squad_questions(
    path: str, paragraph: Json, place: str, common: Record, first: dict[str, str]
) -> Iterator[Record | BadRecord]:
    """Yields the records of one paragraph; `first` has the place of each id so far."""
    try:
        questions = items(paragraph, 'qas', place)
        context = text_field(paragraph.get('context'), f'context of {place}')
    except ValueError as error:
        yield BadRecord(path, 0, str(error))
        return
    for index, question in enumerate(questions):
        inner = f'{place}, question {index + 1}'
        try:
            record = _squad_question(question, context, inner)
            there = first.setdefault(record['id'], inner)
            if there != inner:
                raise ValueError(f'{inner} has the id {errors.shortened(record["id"])} of {there}')
            yield common | record
        except ValueError as error:
            yield BadRecord(path, 0, str(error))


def _squad_question(question: Json, context: str, place: str) -> Record:
    """Returns the fields of one question; ValueError names the place."""
    answers = items(question, 'answers', place)
    record = {
        'id': text_field(question.get('id'), f'id of {place}'),
        'context': context,
        'question': text_field(question.get('question'), f'question of {place}'),
    }
    if not answers or not isinstance(answers[0], dict):
        raise ValueError(f'{place} has no answer')
    answer = text_field(answers[0].get('text'), f'answer of {place}')
    start = answers[0].get('answer_start')
    if not isinstance(start, int) or isinstance(start, bool) or start < 0:
        raise ValueError(f'answer_start of {place} is {errors.shortened(start)}, not a position')
    if not context.startswith(answer, start):
        start = errors.shortened(start)
        raise ValueError(f'answer_start of {place} is {start}, where the context has another text')
    return record | {'answer': answer}
