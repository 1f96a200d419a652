"""Prepares tasks for training: in this process, in worker processes or on other machines.

  mixtures     every task of some mixtures, and a new vocabulary from their texts
  jobs         one task and split -> a folder
  examples     its examples, and the lengths of its texts
  distributed  the same in stages that may run on other machines
  stages       stages of jobs over files, and the engines that run them: processes or Apache Beam
  beam         Apache Beam, and with it Flink, Spark and Dataflow
  shards       lines by key in one file

All start without TensorFlow, which those tasks alone need that are read by SeqIO's own pipeline.
"""
