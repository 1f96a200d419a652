"""Trained models that answer.

  load              opens a model and makes what answers with it
  loading           reads a workdir or an exported folder
  answers           examples and answers to them
  answering         what all models that answer have in common
  generator         texts to texts
  retriever         messages to responses of a set
  response_vectors  the vectors of response sets
  labeller          texts to labels or tags
  reranking         combines the answers of several models
  answer_lines      the lines that `xlbench.predict` reads and writes
  exported          folders in the form of Hugging Face
"""

__all__ = [
    'answer_lines',
    'answering',
    'answers',
    'exported',
    'generator',
    'labeller',
    'load',
    'loading',
    'reranking',
    'response_vectors',
    'retriever',
]
