"""Dialogues cut into segments and marked, as summarisers read them; no jax.

MV-BART (arXiv:2010.01672, github.com/SALT-NLP/Multi-View-Seq2Seq) reads a dialogue twice: cut into
topics, and cut into the stages that conversations go through. Both come from a vector for each
utterance, 'Anna: Hi!', of any encoder of sentences; its authors take Sentence-BERT's.

  topics = [topic_segments(dialogue) for dialogue in vectors]
  model = fit_stages(vectors)
  text = with_segments(['Anna: Hi!', 'Ben: Hello.'], stages(model, vectors[0]))

BART(D_ALL) reads marks in a dialogue: see marks.py.
"""

from xlbench.data.segments import marks
from xlbench.data.segments.cuts import (
    fit_stages,
    official_topic_segments,
    rank_matrix,
    stage_model,
    stages,
    topic_segments,
)
from xlbench.data.segments.texts import (
    MARK,
    Views,
    parted_views,
    read_views,
    utterances,
    views_of,
    views_path,
    with_segments,
    word_vectors,
    write_views,
)
