"""Jobs over data that may outgrow a machine: stages, and the engines that run them.

A stage makes files from other files. Each of its jobs makes one file, which appears when it is
whole and holds the same whatever makes it, so that a stage goes on where it was killed. An engine
runs the jobs: processes of this machine, or Apache Beam and with it Flink, Spark and Dataflow.

  engines       Engine; FLAGS, parse and of_flags choose one by a command line; make: a stage
  shards        lines by key in one file
"""

from xlbench.jobs import shards
from xlbench.jobs.engines import FLAGS, Engine, make, of_flags, parse

__all__ = ['FLAGS', 'Engine', 'make', 'of_flags', 'parse', 'shards']
