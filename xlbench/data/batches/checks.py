"""Checks of what the user gives to batches."""

from collections.abc import Mapping, Sequence

from xlbench.data import features, vocabularies
from xlbench.data.packing import Shape
from xlbench.data.prepared import SIDES, Prepared
from xlbench.settings.blocks import Batches
from xlbench.system.errors import UserError, check_known


def check_lengths(lengths: Mapping[str, int]) -> Shape:
    """Returns the widths of a batch; UserError unless they are two whole numbers."""
    if set(lengths) != set(SIDES) or not all(
        isinstance(length, int) and length >= 2 for length in lengths.values()
    ):
        raise UserError(
            f'lengths is {dict(lengths)}; it needs inputs and targets, each 2 tokens or more, '
            'for example lengths=dict(inputs=512, targets=128)'
        )
    return Shape(lengths['inputs'], lengths['targets'])


def check_processes(rows: int, process_count: int, what: str) -> None:
    """Raises UserError for a number of rows, named `what`, that the processes cannot share."""
    if rows % process_count:
        raise UserError(
            f'{what} {rows} cannot be shared by {process_count} processes; it must be a multiple '
            f'of {process_count}'
        )


def check_tasks(prepared: Sequence[Prepared]) -> features.Conventions:
    """Checks that tasks fit into one batch, and returns their common conventions; or UserError."""
    if not prepared:
        raise UserError('there is no task to make batches from')
    for task in prepared:
        if not len(task):
            raise UserError(f'{task.name}/{task.split} has no examples; remove it from the mixture')
    labels = [(task.name, task.split) for task in prepared]
    if len(set(labels)) < len(labels):
        raise UserError(f'a task is twice in {", ".join(name for name, _ in labels)}')
    first = prepared[0].manifest['vocabulary']
    for task in prepared[1:]:
        other = task.manifest['vocabulary']
        if other != first:
            raise UserError(
                f'{task.name} was prepared with vocabulary {other.get("name")!r} '
                f'({str(other.get("sha256"))[:8]}), {prepared[0].name} with {first.get("name")!r} '
                f'({str(first.get("sha256"))[:8]}); prepare both with the same one'
            )
    return features.Conventions.of(prepared[0].manifest)


def check_view(view: str, prepared: Sequence[Prepared], packing: bool = False) -> features.View:
    """Returns the view of features.VIEWS; UserError if tasks are prepared for another one."""
    check_known('view', view, features.VIEWS)
    needed = features.VIEWS[view].prepared or view
    for task in prepared:
        made_for = task.manifest.get('view', 'generation')
        if made_for != needed:
            raise UserError(
                f'{task.name} is prepared for {made_for}, and the objective is {view}; name a task '
                'of that kind, or change config.objective.name'
            )
        if view == 'language_start':
            family = vocabularies.FAMILIES.get(task.manifest['vocabulary'].get('family'))
            if not (family and family.needs_languages and family.target):
                raise UserError(
                    f'targets of {task.name} do not begin with a language in its vocabulary; set '
                    "config.objective.decoder_start='family', or take the vocabulary of mBART-50"
                )
        if view == 'multi_view' and not task.manifest.get('segment_marks'):
            raise UserError(
                f'{task.name} has inputs of one view, or a vocabulary that cannot spell |, and the '
                f'objective {view} weighs two views by the marks in them; name a task of views '
                'such as clidsum_xsamsumviews_en_en, or change config.objective.name'
            )
    if packing and not features.VIEWS[view].packs:
        raise UserError(
            f'packing puts several examples into a row, and a model for {view} reads one; set '
            'packing=False'
        )
    return features.VIEWS[view]


def check_each_task(options: Batches, tasks: int, view: features.View, parts: int) -> None:
    """Raises UserError for batches that cannot have rows of each of several tasks.

    `parts` is the number of parts of the curriculum, or 0.
    """
    if not options.each_task:
        return
    if parts:
        raise UserError(
            'each_task has rows of every task in each batch, and the curriculum one part after '
            'another; set each_task=False, or leave out the curriculum'
        )
    if not view.sums_tasks:
        raise UserError(
            'each_task adds up the losses of several tasks of texts to write; with this objective '
            'set each_task=False'
        )
    if options.one_task or options.length_buckets > 1:
        other = 'one_task' if options.one_task else 'length_buckets'
        value = 'False' if options.one_task else '1'
        raise UserError(f'each_task has rows of every task in each batch; set {other}={value}')
    if options.batch_size % tasks:
        raise UserError(
            f'batch_size {options.batch_size} cannot be shared by {tasks} tasks, which each_task '
            f'gives equally many rows; it must be a multiple of {tasks}'
        )


def check_widths(options: Batches, view: str) -> None:
    """Raises UserError for batches whose rows cannot have widths of their own."""
    if options.widths > 1 and view != 'retrieval':
        raise UserError(
            f'widths={options.widths} is for batches of pairs, and the objective is {view}; set it '
            'to 1, and length_buckets to the number of shapes'
        )
