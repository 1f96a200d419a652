"""Prints how a task is scored, for programs that start without TensorFlow.

  python -m xlbench.preparation.describing clidsum_xsamsum_en_de
"""

import json
import sys
from collections.abc import Sequence

from xlbench import errors
from xlbench.loading import quietly


def main(argv: Sequence[str]) -> int:
    """Prints a line of JSON: the keys of a manifest that do not depend on data."""
    with quietly():
        import seqio

        from xlbench import pipeline
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
