"""METEOR 1.5, without Java.

tables      the tool's files and where they are
settings    parameters, modules and weights of each language
normalizer  text as the tool sets it
alignment   which words are taken for the same
statistics  the counts, and the score that they make
metric      the metric of a task
"""

from xlbench.metrics.meteor.metric import Meteor

__all__ = ['Meteor']
