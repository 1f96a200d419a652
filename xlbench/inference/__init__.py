"""Trained models that answer.

  loading       opens a workdir or an exported folder
  generator     texts to texts
  retriever     messages to responses of a set
  labeller      texts to labels or tags
  reranking     combines the answers of several models
  answer_lines  the lines that `xlbench.predict` reads and writes
  exported      folders in the form of Hugging Face
"""

__all__ = [
    'answer_lines',
    'exported',
    'generator',
    'labeller',
    'loading',
    'reranking',
    'retriever',
]
