"""Annotations of files of dialogues: topics and stages, marks, triples; see `xlbench data`.

segment   topics and stages, the two views of MV-BART
mark      keywords, redundant utterances and topics, for BART(D_ALL)
triples   who does what, for action infilling
"""
