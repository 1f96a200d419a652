"""The programs as functions that return pandas frames, for notebooks and scripts.

  import xlbench

  xlbench.list_tasks('mtg')
  config = xlbench.load_config('mtg_mt5', {'stages.stage1.num_steps': 50})
  xlbench.read_examples(config, 'mtg_qg_en_de', count=3)
  run = xlbench.Run('runs/mine')
  run.train(config)
  run.scores()
  run.predict(['Rome is an old city. <answer> Rome'], target_lang='de')

Each does what the program of its name does, with the same files and messages. A mistake is a
UserError, which a notebook shows as one line. The names are attributes of `xlbench`, too, which
imports them when one of them is used first.

  calling   turns arguments into flags, failures into one line and rows into frames; loads configs
  data      lists tasks; reads examples and batches
  runs      a run, and a sweep of few-shot transfer
"""
