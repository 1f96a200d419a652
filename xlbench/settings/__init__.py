"""The settings of a config: their types, ranges and defaults; no jax is imported.

Every block makes a frozen dataclass. Those of which there are many kinds stand beside what takes
them: the config class of a family, and the class `Options` of an objective or an evaluator.

  blocks          the blocks of which there is one kind
  optimizer       those of the optimizers
  decoding        the options of a decoder, and the flags of programs that decode
  ranges          the values that a setting may have
  source          the fields of the other blocks, read from the source of what they configure
"""
