"""Prepared examples -> batches of numpy arrays: for training without end, for evaluation once.

How a training batch comes about:

1. Order (`orders.py`). The tasks are mixed at their rates, each shuffled anew in every pass. Which
   example stands at place i of this stream is a function of the seed and i. The stream is cut into
   windows of `window` examples. With a curriculum the order is that of epochs in
   parts, and a window is of one part.
2. Plan (`packing.py`). From the lengths alone (lengths.npy): which examples of the window share a
   row, which rows share a batch, and in which order the batches come.
3. Read. A process reads the examples of its own rows, and only those, in a thread that is ahead.

Grain has packers, too. They pack as examples arrive: the rows still open are part of the
state, every process packs its own part, and a row closes before its best partner has come. Here
the position is two numbers, window and batch; resuming plans one window and reads nothing before
the next batch; one process or many make the same global batches, also when their number changes
at a resume; every example of a window is used exactly once; and since the whole window is known,
rows are fuller.
"""

from xlbench.data.batches.evaluation import EvalBatches, best_shapes
from xlbench.data.batches.training import Batch, TrainBatches
