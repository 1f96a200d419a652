"""METEOR 1.5, without Java.

tables      the tool's files and where they are
settings    parameters, modules and weights of each language; the counts, and their score
alignment   which words are taken for the same
metric      text as the tool sets it, and the metric of a task
"""

from xlbench.metrics.meteor.metric import Meteor

__all__ = ['Meteor']
