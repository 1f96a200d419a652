"""The tools for task files: sources, preprocessors, the vocabulary, mixtures, look-up.

What a task file declares is plain data, and costs no import of TensorFlow. As soon as anything
imports SeqIO, all of it stands in SeqIO's registries, so that `seqio.get_dataset` works on it, too.
Three things are decided when a dataset is built, not when a task is declared: the data root and the
vocabulary (`bound`, or `use_vocabulary` in a notebook), and the split that a mixture's rates count.
One registry therefore serves every model and every copy of the data.

`register_text_task`, `register_classification_task` and `register_tagging_task` add a task for
files of your own, `register_dialogue_tasks` and `register_summarisation_tasks` those of a file of
dialogues, `register_translation_tasks` those of parallel texts; put the call in
tasks/<first word of the name>.py, in the current folder or in the one that XLBENCH_TASKS names.
That may also be a file, such as a registry that was written for T5X.
"""

from xlbench.pipeline.binding import (
    ANSWER_SEPARATOR,
    bad_records,
    bound,
    label_features,
    retrieval_features,
    root,
    text_features,
    tokenizer,
    use_root,
    use_vocabulary,
    vocabulary,
)
from xlbench.pipeline.dialogues import (
    PAIR,
    REPLY_FIELDS,
    add_reply_tasks,
    register_dialogue_tasks,
    register_summarisation_tasks,
)
from xlbench.pipeline.mixtures import (
    add_mixture,
    add_scenarios,
    mixing_rate,
    mixture_rates,
    seqio_class,
)
from xlbench.pipeline.preprocessors import (
    classification_preprocessors,
    format_text,
    retrieval_preprocessors,
    tag_target_language,
    tagging_preprocessors,
    text_map,
    text_preprocessors,
    view_preprocessors,
)
from xlbench.pipeline.registration import (
    add_task,
    add_text_task,
    add_text_tasks,
    register_classification_task,
    register_tagging_task,
    register_text_task,
    register_translation_tasks,
)
from xlbench.pipeline.registry import DeclaredTask, check_split, get, labels, view
from xlbench.pipeline.scoring import (
    described,
    headline,
    reply_metrics,
    text_metrics,
    translation_metrics,
)
from xlbench.pipeline.sources import RecordSource, count_lines
from xlbench.pipeline.user_files import Files, Hub, Shots


def __getattr__(name: str) -> object:
    """Imports the class of SeqIO's mixtures when a task file asks for it, and SeqIO with it."""
    if name == 'Mixture':
        return seqio_class()
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
