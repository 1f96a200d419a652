"""Language models as systems of the benchmarks, by prompts with K examples and no training.

  templates   how a task is put to a model, in English and in the task's language, and the prompts
              of one whose answers are texts
  engines     what answers: servers of OpenAI's form, and generators of this project
  sweeps      tasks of labels and tags, over the buckets that the other methods are adapted to
"""
