"""XLA that compiles quickly: tests compile much more than they compute.

For the environment of every process of the tests that uses jax: programs of processes with other
flags are not shared.
"""

import importlib.metadata

# Without LLVM's optimizations, and with XLA's emitter of loops instead of the one that runs MLIR's
# passes for each fusion: a train step compiles in two thirds of the time. In one part each program
# costs a tenth less than in many, and another tenth less with no loop unrolled. Numbers stay the
# same. The flags of one jaxlib end a process with another that lacks them, as 0.12 the emitter.
_OLD = importlib.metadata.version('jaxlib').startswith('0.10.')
_OF_OLD = ('--xla_cpu_use_fusion_emitters=false', '--xla_cpu_parallel_codegen_split_count=1')
_QUICK = (
    '--xla_backend_optimization_level=0',
    '--xla_backend_extra_options=xla_cpu_disable_loop_unrolling',
    *(_OF_OLD if _OLD else ()),
)


def xla_flags(devices: int = 1, given: str = '') -> str:
    """XLA_FLAGS of a process with a number of fake CPU devices; flags that are given stay."""
    flags = (*_QUICK, f'--xla_force_host_platform_device_count={devices}')
    return ' '.join([given, *(f for f in flags if f.partition('=')[0] not in given)]).strip()
