"""Prints what a task declares, for programs that start without TensorFlow.

  python -m xlbench.preparation.describing clidsum_xsamsum_en_de           how it is scored
  python -m xlbench.preparation.describing mtg_qg_en_en:train mood_de:dev  whether there are splits
"""

import json
import sys
from collections.abc import Sequence

from xlbench.system import errors
from xlbench.system.machine import quietly


def main(argv: Sequence[str]) -> int:
    """Prints a line of JSON: the keys of a manifest that do not depend on data.

    Raises:
      UserError: a task or a split is not there.
    """
    with quietly():
        import seqio

        from xlbench import pipeline
        from xlbench.preparation import planning
    if ':' in argv[1]:
        for name, split in (one.split(':') for one in argv[1:]):
            planning.check_split(name, split)
        return 0
    task = pipeline.get(argv[1])
    if isinstance(task, seqio.Mixture):
        raise errors.UserError(f'{task.name} is a mixture; name one of its tasks')
    about = {
        'view': pipeline.view(task),
        'target_lang': getattr(task.source, 'target_lang', None),
        'headline': pipeline.headline(task),
        'metrics': pipeline.metric_specs(task),
    }
    print(json.dumps(about))
    return 0


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
