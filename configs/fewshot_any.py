r"""Few-shot transfer of any task of labels: a source model, adapted to shots of other languages.

The task is SIB-200 (task=sib200), MasakhaNER 2.0 (task=masakhaner2,source=sw,objective=tagging), or
your own:

  python -m xlbench.fewshot --workdir=RUNS/mood \
      --config=configs/fewshot_any.py:mbert,task=mood,source=en,languages=de+fr

It only needs a file tasks/mood.py with tasks whose names end with their language, and with shots
that are drawn from their training data:

  from xlbench import pipeline

  for lang in ('en', 'de', 'fr'):
      pipeline.register_classification_task(
          f'mood_{lang}',
          files={split: f'mood/{lang}.{split}.csv' for split in ('train', 'validation', 'test')},
          labels=('bad', 'good'),
          lang=lang,
          shots=pipeline.Shots(numbers=(1, 2, 4), buckets=40),
      )

The source model is trained as in configs/finetune.py, here on mood_en. The split 'validation' of a
language decides when its adaptations stop, and 'test' scores them, by accuracy, or by chunk F1 for
tags. The size `encoder` is any encoder of yours: --config.source.model.from=FOLDER.

Keys after the colon: size (tiny, encoder, mbert, xlmr_base, xlmr_large), task, source, objective
(classification, tagging), steps (of source training), buckets, root; and, with + between several,
languages, shots, methods (full, fc, lora; of classifiers also fc_pooler, cos_pooler,
fc_reset_pooler).
"""

from ml_collections import ConfigDict

from xlbench import config as config_lib
from xlbench.benchmarks import topics
from xlbench.configs import fewshot, finetune
from xlbench.system import errors


def get_config(variant: str = '') -> ConfigDict:
    """The config of one model on one task."""
    chosen = config_lib.variant(
        variant,
        ('tiny', 'encoder', 'mbert', 'xlmr_base', 'xlmr_large'),
        task='',
        source='en',
        languages='',
        objective=('classification', 'tagging'),
        shots='1+2+4',
        buckets='40',
        methods='full',
        steps='',
        root='data',
    )
    size, task = chosen['size'], chosen['task']
    languages, methods = (
        tuple(filter(None, chosen[key].split('+'))) for key in ('languages', 'methods')
    )
    if not task or not languages:
        raise errors.UserError(
            'configs/fewshot_any.py needs a task and the languages to adapt to after the colon: '
            f'--config=configs/fewshot_any.py:{size},task=NAME,languages=de+fr'
        )
    numbers = [chosen['buckets'], *chosen['shots'].split('+')]
    if not all(text.isdecimal() and int(text) for text in numbers):
        raise errors.UserError(
            f'buckets={chosen["buckets"]} and shots={chosen["shots"]} after the colon are no whole '
            'numbers above 0, with a + between several shots'
        )
    buckets, *shots = map(int, numbers)
    mixture = topics.task_name(task, chosen['source'])
    trained = f'{size},mixture={mixture},objective={chosen["objective"]}'
    for key in ('steps', 'root'):
        trained += f',{key}={chosen[key]}' if chosen[key] else ''
    return fewshot.sweep(
        task,
        finetune.get_config(trained),
        languages=languages,
        shots=tuple(shots),
        buckets=(0, buckets),  # Of each K those from 0 on.
        methods=methods,
        learning_rates=(3e-4, 1e-3) if size == 'tiny' else (1e-5, 3e-5, 5e-5, 7e-5),
    )
