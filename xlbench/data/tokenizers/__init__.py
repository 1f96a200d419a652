"""Text to ids and back, in batches, without TensorFlow or transformers.

`load` takes what a user writes for a vocabulary:

  sample, sample_mrs, sample_fewshot, sample_clidsum
                         the sample corpora's own, in the data root: MTG, MRS, few-shot transfer
  bytes                  the bytes of the text, as ByT5 and seqio.ByteVocabulary have them; a
                         folder or hub name of ByT5 is the same
  path/to/x.model        a SentencePiece model, run by SentencePiece itself
  path/to/x.spm          the same of a translator in Marian's own form, as Mozilla publishes them;
                         or the folder with its model
  path/to/folder         a model's vocabulary files, as Hugging Face lays them out
  mt5, google/mt5-base   from the Hugging Face hub; google/mt5-base@REVISION pins a version
  NAME+[word]            a folder or hub name with a word that it lacks as one more token

A folder and a hub name give the ids of transformers' fast tokenisers, see `vocabularies`. They
differ from SentencePiece's own in rare text: transformers gives mT5 `<unk>` where SentencePiece
spells bytes. The path of the spiece.model itself gives the bytes.

From the hub only the named small files below are fetched, never weights, pickles or code.
"""

from xlbench.data.tokenizers.hugging_face import HuggingFaceTokenizer
from xlbench.data.tokenizers.loading import (
    CONVERTED,
    HUB_NAMES,
    PAIR_COPY,
    SAMPLE_FILES,
    SAMPLE_SIZES,
    check_name,
    copy_files,
    load,
    of_workdir,
    path_of_workdir,
    split_spec,
    token,
    with_letters,
    write_words,
)
from xlbench.data.tokenizers.tokenizer import (
    ANSWER_SEPARATOR,
    BYTES,
    BYTES_CLASS,
    BYTES_SENTINELS,
    ByteTokenizer,
    SentencePieceTokenizer,
    Tokenizer,
    limit_threads,
    num_threads,
    train_sentencepiece,
    with_symbols,
)
