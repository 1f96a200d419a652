"""Readers of foreign bytes, given harmed ones: each refuses them in one line, or reads them.

  pytest tests/fuzz                              the seeded cases of the suite, 1130 in all
  python -m tests.fuzz --cases=20000 --seed=500  as many others, shared out in the same way
  python -m tests.fuzz -k safetensors            one reader

What a reader must not do with any case: raise anything but UserError, say more than one line, take
longer than 10 s or a GiB of memory, take what the format forbids.
"""
