"""Tasks of dialogues: each turn a message and the next one its reply; summaries of dialogues."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from xlbench.data import readers, rows
from xlbench.pipeline.binding import retrieval_features, text_features
from xlbench.pipeline.preprocessors import retrieval_preprocessors, text_preprocessors
from xlbench.pipeline.registration import add_task, add_text_task
from xlbench.pipeline.registry import DeclaredTask
from xlbench.pipeline.scoring import Metric, reply_metrics, text_metrics, with_own
from xlbench.pipeline.sources import RecordSource, below_root
from xlbench.pipeline.user_files import DialogueFiles, Files, declares, file_source, read_rows
from xlbench.system import errors

REPLY_FIELDS = ('message', 'reply', 'lm_score', 'cluster', 'display')
# Only members of a response set have a score and a cluster.
PAIR = dict.fromkeys(REPLY_FIELDS, '')
# ParlAI writes it for the missing message before the first utterance of a dialogue.
SILENCE = '__SILENCE__'


def add_reply_tasks(
    name: str,
    lang: str,
    source: RecordSource,
    metrics: Sequence[Metric] | None = None,
    headline: str | None = None,
    reverse: bool = False,
) -> list[DeclaredTask]:
    """Adds two tasks of the same pairs: <name>_retrieval_de_de and <name>_generation_de_de.

    Args:
      name: of the benchmark and the task file.
      lang: ISO code of messages and replies.
      source: gives REPLY_FIELDS.
      metrics: metric functions besides those of `reply_metrics`.
      headline: the score that represents the tasks; see `headline`.
      reverse: adds <name>_reverse_de_de, which generates the message of a reply.
    """
    metrics, default = with_own(metrics, reply_metrics(lang), 'mrs_rouge')
    sides = '{message}', '{reply}'
    views = {
        'retrieval': (retrieval_preprocessors(*sides, REPLY_FIELDS), retrieval_features()),
        'generation': (text_preprocessors(*sides, lang, REPLY_FIELDS, lang), text_features()),
    }
    if reverse:
        steps = text_preprocessors(*sides[::-1], lang, REPLY_FIELDS, lang)
        views['reverse'] = steps, text_features()
    return [
        add_task(
            f'{name}_{kind}_{lang}_{lang}', source, steps, features, metrics, headline, default
        )
        for kind, (steps, features) in views.items()
    ]


@declares
def register_dialogue_tasks(
    name: str,
    lang: str,
    *,
    files: DialogueFiles,
    format: str | None = None,
    separator: str = '__eou__',
    dialogue: str = 'dialogue',
    text: str = 'text',
    part_of: Callable[[str, int], bool] | None = None,
    drop_seen: bool = True,
    metrics: Sequence[Metric] | None = None,
    headline: str | None = None,
    hint: str = '',
) -> list[DeclaredTask]:
    """Adds <name>_retrieval_<lang>_<lang> and <name>_generation_<lang>_<lang> of dialogues.

    Each utterance is a message, and the next one its reply. A pair whose message is SILENCE is left
    out.

    Args:
      name: without _; the name of the task file.
      lang: ISO code.
      files: split -> path or pattern, absolute or below the data root; packed (.gz) or not.
      format: 'lines' (a dialogue on each line), 'json' (a list of objects) or 'jsonl' (an object on
        each line); by default the ending of the files' names, or else 'lines'.
      separator: of 'lines': the text between two utterances.
      dialogue: of the others: the key of a list of turns. A turn is a text or an object.
      text: the key of the utterance in a turn that is an object.
      part_of: (split, number of a dialogue in its file, from 0) -> whether the split contains the
        dialogue, if one file holds several splits; by default it contains all.
      drop_seen: leaves a pair out of the other splits if 'train' has it, too (compared by letters
        and digits), so that scores are not of memorised pairs. The manifest counts such pairs.
      metrics: metric functions besides those of `reply_metrics`.
      headline: as for `register_text_task`.
      hint: how to get the files, for the message about a missing one.

    Example: docs/your_own.md.
    """
    in_json = functools.partial(readers.read_dialogues_json, key=dialogue, words=text)
    kinds = {
        'lines': functools.partial(readers.read_dialogues, separator=separator),
        'json': in_json,
        'jsonl': functools.partial(in_json, by_line=True),
    }
    if format is not None and format not in kinds:
        raise errors.unknown('format', format, kinds)

    def read_file(path: str) -> Iterator[readers.Item]:
        ending = path.removesuffix('.gz').rpartition('.')[2]
        kind = format or (ending if ending in kinds else 'lines')
        for number, record in enumerate(kinds[kind](path)):
            if number == 0 and isinstance(record, readers.BadRecord):  # Perhaps all are.
                arguments = 'separator=' if kind == 'lines' else 'dialogue= and text='
                hint = f'; the file is read as {kind}: format=, {arguments} of the task say how'
                record = dataclasses.replace(record, reason=record.reason + hint)
            yield record

    if not separator.strip(' '):
        raise errors.UserError(f'{name}: separator {separator!r} would cut at spaces; name another')

    def patterns(split: str) -> list[str]:
        # The files of a split, then those whose pairs it must not have.
        seen = drop_seen and split != 'train' and 'train' in files.paths
        return [str(files.paths[name]) for name in ([split, 'train'] if seen else [split])]

    def pairs(split: str, paths: Iterable[str]) -> Iterator[readers.Item]:
        for path in paths:
            for record in read_file(path):
                if not isinstance(record, dict) or (
                    part_of is None or part_of(split, int(record['dialogue']))
                ):
                    yield record

    def read(split: str, *paths: str) -> Iterator[readers.Item]:
        count, *others = [len(readers.find(below_root(path))) for path in patterns(split)]
        if count + sum(others) != len(paths):
            raise errors.UserError(f'the files of {name} changed before split {split!r} was read')
        # Bad records of 'train' are reported when it is read itself.
        training = (r for r in pairs('train', paths[count:]) if isinstance(r, dict))
        seen = set(map(_letters, training))
        for record in pairs(split, paths[:count]):
            if not isinstance(record, dict):
                yield record
            elif record['message'] == SILENCE:
                yield readers.LeftOut(f'pairs whose message is {SILENCE}')
            elif _letters(record) in seen:
                yield readers.LeftOut('pairs that training has')
            else:
                yield PAIR | {key: record[key] for key in ('message', 'reply')}

    splits = list(files.paths)
    source = RecordSource(
        read, patterns, splits, REPLY_FIELDS, source_lang=lang, target_lang=lang, hint=hint
    )
    return add_reply_tasks(name, lang, source, metrics, headline)


def _letters(pair: readers.Record) -> tuple[str, ...]:
    return tuple(readers.letters(pair[name]) for name in ('message', 'reply'))


@declares
def register_summarisation_tasks(
    name: str,
    lang: str,
    *,
    files: Files,
    summaries: Mapping[str, str],
    dialogue: str = 'dialogue',
    speaker: str = 'speaker',
    text: str = 'text',
    keep: Sequence[str] = (),
    metrics: Sequence[Metric] | None = None,
    headline: str | None = None,
) -> list[DeclaredTask]:
    """Adds <name>_summary_<lang>_<target>, from a dialogue to its summary in each target language.

    If there are also summaries in the dialogues' language, the tasks
    <name>_translation_<lang>_<target> translate them, for summarise-then-translate.

    Args:
      name: without _; the name of the task file.
      lang: ISO code of the dialogues.
      files, metrics, headline: as for `register_text_task`.
      summaries: ISO code -> JSON key or column of the summaries in this language.
      dialogue: JSON key or column of the dialogue: a text, or a list of turns. A turn is a text or
        an object with a speaker and a text, and becomes the line 'speaker: text'.
      speaker, text: the keys of a turn that is an object.
      keep: keys or columns of further texts to keep with each example, such as an id.

    Example: docs/your_own.md.
    """
    if not summaries:
        raise errors.UserError(
            f"{name}: summaries is {{}}; give each language its key, such as {{'de': 'summary_de'}}"
        )
    if taken := {'inputs', 'targets'}.intersection(keep):
        raise errors.UserError(
            f'{name}: keep has {min(taken)!r}, which is the name of what a model reads or writes; '
            'give that key of the files another name'
        )

    def source(kind: str, target: str) -> RecordSource:
        inputs = dialogue if kind == 'summary' else summaries[lang]
        summary = summaries[target]

        def record_of(row: rows.Values) -> readers.Record:
            if kind == 'summary':
                source = rows.dialogue(row[inputs], inputs, speaker, text)
            else:
                source = rows.text(row[inputs], inputs)
            kept = {key: rows.text(row[key], key) for key in keep}
            return kept | {'inputs': source, 'targets': rows.text(row[summary], summary)}

        read = read_rows([inputs, summary, *keep], files.layout, record_of)
        return file_source(files, read, [*keep, 'inputs', 'targets'], (lang, target))

    pairs = [('summary', target) for target in summaries]
    if lang in summaries:
        pairs += [('translation', target) for target in summaries if target != lang]
    tasks = []
    for kind, target in pairs:
        task, texts = f'{name}_{kind}_{lang}_{target}', source(kind, target)
        scores, default = with_own(metrics, text_metrics(target), 'rouge_l')
        tasks.append(
            add_text_task(
                task, texts, keep=keep, metrics=scores, headline=headline, default=default
            )
        )
    return tasks
