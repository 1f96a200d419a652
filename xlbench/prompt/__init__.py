"""Language models as systems of the benchmarks, by prompts with K examples and no training.

  templates   templates of prompts in English and in the task's language; prompts of tasks of texts
  engines     servers with OpenAI's interface, and generators of this project
  sweeps      tasks of labels and tags, with the same buckets as the few-shot methods
"""
