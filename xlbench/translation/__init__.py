"""Machine translation with one interface for all engines.

  engines      the contract of an engine, and which one a name stands for
  templates    an engine for each pair of languages, from one name
  programs     engines that are programs of this machine: Apertium, or any command
  servers      engines behind the HTTP interface of LibreTranslate
  tables       files of translations that were made elsewhere
  neural       encoder-decoders: runs, folders in the form of Hugging Face, hub names
  memory       translations that were made once, kept by text and engine
  jobs         texts to translations, in order, each text once, or a dialogue turn by turn
  round_trips  texts there and back, and how much of each comes back
  records      files of texts, JSONL or TSV, with some of their fields translated
"""
