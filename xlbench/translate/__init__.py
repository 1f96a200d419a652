"""Machine translation with one interface for all engines, and chains of models.

  engines   the contract of an engine, and which one a name stands for
  external  engines that are Apertium, any command, a LibreTranslate server, or a file
  neural    encoder-decoders: runs, folders in the form of Hugging Face, hub names
  jobs      texts to translations, in order, each text once; kept ones; an engine for each pair
  records   files of texts, JSONL or TSV, with some of their fields translated
  chains    stages, each of which reads what the one before it has written
  chain_command  `xlbench translate chain`
"""
