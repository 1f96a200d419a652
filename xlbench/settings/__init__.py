"""The settings of a config: their types, defaults and checks; no jax is imported.

Every block makes a frozen dataclass. Those of which there are many kinds stand beside what takes
them: the config class of a family, and the class `Options` of an objective or an evaluator.

  blocks          the blocks of which there is one kind
  optimizer       those of the optimizers
  decoding        the options of a decoder, and the flags of programs that decode
  source          the fields of the other blocks, read from the source of what they configure
  checks          the keys of a config; families, sizes, objectives, evaluators and optimizers
  epochs          steps that a config gives as epochs
  workdirs        config.json, which says what a run is, and the config that it belongs to
"""
