"""METEOR 1.5, without Java.

tables      the tool's files and where they are
alignment   which words are taken for the same
metric      settings of each language, text as the tool sets it, and the metric of a task
"""

from xlbench.metrics.meteor.metric import Meteor

__all__ = ['Meteor']
