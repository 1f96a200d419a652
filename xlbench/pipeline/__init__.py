"""The tools for task files: sources, preprocessors, the vocabulary, mixtures, look-up.

A task is a plain `seqio.Task`, so `seqio.get_dataset` works on it. Three things are decided when a
dataset is built, not when a task is declared: the data root and the vocabulary (`bound`, or
`use_vocabulary` in a notebook), and the split that a mixture's rates count. One registry therefore
serves every model and every copy of the data.

`register_text_task`, `register_classification_task` and `register_tagging_task` add a task for
files of your own, `register_dialogue_tasks` and `register_summarisation_tasks` those of a file of
dialogues, `register_translation_tasks` those of parallel texts; put the call in
tasks/<first word of the name>.py, in the current folder or in the one that XLBENCH_TASKS names.
That may also be a file, such as a registry that was written for T5X.
"""

import contextlib
import os

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')  # Before TensorFlow: only its fatal errors.

import tensorflow as tf

from xlbench.pipeline.binding import (
    ANSWER_SEPARATOR,
    Vocabulary,
    bad_records,
    bound,
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
    SILENCE,
    add_reply_tasks,
    register_dialogue_tasks,
)
from xlbench.pipeline.labels import (
    Labels,
    LabelsOfData,
    is_ours,
    label_features,
    labels,
    view,
)
from xlbench.pipeline.mixtures import (
    Mixture,
    add_mixture,
    mixing_rate,
    mixture_rates,
)
from xlbench.pipeline.preprocessors import (
    AddPrefix,
    EncodeLabelled,
    Encoder,
    TokenizeViews,
    classification_encoder,
    classification_preprocessors,
    cut_passage,
    has_views,
    retrieval_preprocessors,
    tagging_encoder,
    tagging_preprocessors,
    text_preprocessors,
    view_preprocessors,
)
from xlbench.pipeline.registration import (
    register_classification_task,
    register_tagging_task,
    register_text_task,
)
from xlbench.pipeline.registry import (
    edited_task_file,
    get,
    mistake,
    user_task_file,
)
from xlbench.pipeline.scoring import (
    Metric,
    headline,
    metric_fns,
    metric_specs,
    reply_metrics,
    text_metrics,
    translation_metrics,
)
from xlbench.pipeline.sources import (
    CHUNK,
    RecordSource,
)
from xlbench.pipeline.summaries import (
    register_summarisation_tasks,
)
from xlbench.pipeline.text_steps import (
    Texts,
    format_text,
    on_texts,
    tag_target_language,
    text_map,
    works_on_batches,
)
from xlbench.pipeline.translations import (
    add_translation_task,
    register_translation_tasks,
)
from xlbench.pipeline.user_files import (
    DialogueFiles,
    Files,
    Hub,
    ParallelFiles,
    Read,
    Shots,
)

__all__ = [
    'ANSWER_SEPARATOR',
    'CHUNK',
    'PAIR',
    'REPLY_FIELDS',
    'SILENCE',
    'AddPrefix',
    'DialogueFiles',
    'EncodeLabelled',
    'Encoder',
    'Files',
    'Hub',
    'Labels',
    'LabelsOfData',
    'Metric',
    'Mixture',
    'ParallelFiles',
    'Read',
    'RecordSource',
    'Shots',
    'Texts',
    'TokenizeViews',
    'Vocabulary',
    'add_mixture',
    'add_reply_tasks',
    'add_translation_task',
    'bad_records',
    'bound',
    'classification_encoder',
    'classification_preprocessors',
    'cut_passage',
    'edited_task_file',
    'format_text',
    'get',
    'has_views',
    'headline',
    'is_ours',
    'label_features',
    'labels',
    'metric_fns',
    'metric_specs',
    'mistake',
    'mixing_rate',
    'mixture_rates',
    'on_texts',
    'register_classification_task',
    'register_dialogue_tasks',
    'register_summarisation_tasks',
    'register_tagging_task',
    'register_text_task',
    'register_translation_tasks',
    'reply_metrics',
    'retrieval_features',
    'retrieval_preprocessors',
    'root',
    'tag_target_language',
    'tagging_encoder',
    'tagging_preprocessors',
    'text_features',
    'text_map',
    'text_metrics',
    'text_preprocessors',
    'tokenizer',
    'translation_metrics',
    'use_root',
    'use_vocabulary',
    'user_task_file',
    'view',
    'view_preprocessors',
    'vocabulary',
    'works_on_batches',
]

# TensorFlow only reads text here; the accelerators are for the program that trains.
with contextlib.suppress(RuntimeError):  # It is already running, and the caller has decided.
    tf.config.set_visible_devices([], 'GPU')
