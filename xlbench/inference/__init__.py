"""Trained models that answer.

  loading           opens a workdir or an exported folder; models that answer, encoders of texts
  answering         opened models, labels and suggestions, and what all that answer have in common
  generator         texts to texts, and losses of their tokens
  retriever         messages to responses of a set, whose vectors it keeps
  labeller          texts to labels or tags
  reranking         combines the answers of several models
  answer_lines      the lines that `xlbench.predict` reads and writes
  conversion        a Hugging Face checkpoint to a workdir, and a workdir to such a folder
  exported          what stands beside the weights in such a folder
  cards             its model card, with how it is used
"""
