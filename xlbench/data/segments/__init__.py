"""Dialogues cut into segments, the views of a summariser that reads several; numpy only.

MV-BART (arXiv:2010.01672, github.com/SALT-NLP/Multi-View-Seq2Seq) reads a dialogue twice: cut into
topics, and cut into the stages that conversations go through. Both come from a vector for each
utterance, 'Anna: Hi!', of any encoder of sentences; its authors take Sentence-BERT's.

  topics = [topic_segments(dialogue) for dialogue in vectors]
  model = fit_stages(initial_stages(vectors), vectors).model
  stages = [model.stages(dialogue) for dialogue in vectors]
  text = with_segments(['Anna: Hi!', 'Ben: Hello.'], stages[0])
"""

from xlbench.data.segments.stages import StageModel, fit_stages, initial_stages
from xlbench.data.segments.texts import with_segments
from xlbench.data.segments.topics import rank_matrix, topic_segments

__all__ = [
    'StageModel',
    'fit_stages',
    'initial_stages',
    'rank_matrix',
    'topic_segments',
    'with_segments',
]
