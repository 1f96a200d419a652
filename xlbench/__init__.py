"""xlbench: cross-lingual models in JAX, trained and evaluated on published benchmarks."""

import os

__version__ = '0.1.0'

# The wheel holds the task files and the configs as xlbench/tasks and xlbench/configs. In a checkout
# they are folders beside the package; with this they have the same names there.
_package = os.path.dirname(os.path.abspath(__file__))
if not os.path.isdir(os.path.join(_package, 'tasks')):
    __path__.append(os.path.dirname(_package))
