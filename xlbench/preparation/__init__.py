"""Jobs that prepare tasks, in worker processes or with Beam.

  jobs     what has to be prepared, and doing it
  workers  jobs in fresh processes
  beam     the same as an Apache Beam program
"""

__all__ = [
    'beam',
    'jobs',
    'workers',
]
