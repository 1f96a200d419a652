"""Tasks of dialogues and their summaries, in one language or in several."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

from xlbench.data import readers, rows
from xlbench.pipeline.binding import text_features
from xlbench.pipeline.declarations import DeclaredTask
from xlbench.pipeline.declared import check_new, declares
from xlbench.pipeline.preprocessors import text_preprocessors
from xlbench.pipeline.registration import add_task
from xlbench.pipeline.scoring import Metric, text_metrics, with_own
from xlbench.pipeline.sources import RecordSource
from xlbench.pipeline.user_files import Files, file_source, read_rows
from xlbench.system import errors


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

    Where there are summaries in the language of the dialogues, too, the tasks
    <name>_translation_<lang>_<target> translate them: the second half of summarise-then-translate.

    Args:
      name: without _; the name of the file it stands in.
      lang: ISO code of the dialogues.
      files: as for `register_text_task`.
      summaries: ISO code of a language -> JSON key or column of the summaries in it.
      dialogue: JSON key or column of the dialogue: a text, or a list of turns. A turn is a text or
        an object of a speaker and a text, and becomes the line 'speaker: text'.
      speaker, text: the keys of a turn that is an object.
      keep: further keys or columns of texts that stay beside the example, such as an id.
      metrics: metric functions besides those of `text_metrics`, for the summary's language.
      headline: the score that stands for the tasks in tables and config.best; see `headline`.

    Example, tasks/meetings.py, for lines such as {"dialogue": [{"speaker": "Anna", "text": "Hi!"},
    {"speaker": "Ben", "text": "Hello."}], "en": "Anna greets Ben.", "de": "Anna grüßt Ben."}:
      from xlbench import pipeline

      pipeline.register_summarisation_tasks(
          'meetings',
          'en',
          files={'train': 'meetings/train.jsonl', 'test': 'meetings/test.jsonl'},
          summaries={'en': 'en', 'de': 'de'},
      )
    """
    if '_' in name:
        raise errors.UserError(f'{name!r} has a _, where the name of a benchmark ends; take it out')
    if not summaries:
        raise errors.UserError(
            f"{name}: summaries is {{}}; give each language its key, such as {{'de': 'summary_de'}}"
        )
    if taken := {'inputs', 'targets'}.intersection(keep):
        raise errors.UserError(
            f'{name}: keep has {min(taken)!r}, which is the name of what a model reads or writes; '
            'give that key of the files another name'
        )
    source = _Source(lang, files, files.layout, summaries, dialogue, speaker, text, keep)
    pairs = [('summary', target) for target in summaries]
    if lang in summaries:
        pairs += [('translation', target) for target in summaries if target != lang]
    tasks = []
    for kind, target in pairs:
        task = f'{name}_{kind}_{lang}_{target}'
        check_new(task, files, source.layout)
        steps = text_preprocessors('{inputs}', '{targets}', target, keep, lang)
        scores, default = with_own(metrics, text_metrics(target), 'rouge_l')
        tasks.append(
            add_task(task, source(kind, target), steps, text_features(), scores, headline, default)
        )
    return tasks


@dataclasses.dataclass(frozen=True)
class _Source:
    """Files of dialogues and summaries; see `register_summarisation_tasks`."""

    lang: str
    files: Files
    layout: rows.Layout
    summaries: Mapping[str, str]
    dialogue: str
    speaker: str
    text: str
    keep: Sequence[str]

    def __call__(self, kind: str, target: str) -> RecordSource:
        """The records of one task, whose kind is 'summary' or 'translation'."""
        inputs = self.dialogue if kind == 'summary' else self.summaries[self.lang]
        summary = self.summaries[target]

        def record_of(row: rows.Values) -> readers.Record:
            source = (
                rows.dialogue(row[inputs], inputs, self.speaker, self.text)
                if kind == 'summary'
                else rows.text(row[inputs], inputs)
            )
            kept = {key: rows.text(row[key], key) for key in self.keep}
            return kept | {'inputs': source, 'targets': rows.text(row[summary], summary)}

        return file_source(
            self.files,
            read_rows([inputs, summary, *self.keep], self.layout, record_of),
            functools.partial(rows.count, layout=self.layout),
            [*self.keep, 'inputs', 'targets'],
            source_lang=self.lang,
            target_lang=target,
        )
