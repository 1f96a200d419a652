"""Makes batches of token ids from files, without TensorFlow.

  corpora       the corpora of the benchmarks: address, licence, size, download
  readers       the formats of official files
  rows          JSONL, CSV and Parquet of any origin
  chinese       where Chinese words end
  conllu        CoNLL and CoNLL-U
  labelled      records of labelled texts
  buckets       the fixed examples of few-shot transfer
  tokenizers    the vocabulary of every model
  vocabularies  the families of vocabularies, and the JSON files beside one
  prepared      the format of prepared tasks
  actions       who does what in a sentence
  noise         what is done to dialogues that a model restores
  segments      topics and stages of dialogues
  marks         keywords, topics and redundant utterances of dialogues
  orders        the order of the examples in a run, and the windows that are planned together
  packing       several examples in one row
  features      examples to arrays
  batches       the batches of training and of evaluation
  outputs       predictions and references from files
  postprocess   postprocessors of SeqIO tasks
  statistics    how long dialogues and summaries are
  baselines     predictions that need no model
"""
