"""The boundaries of Chinese words, by jieba."""

import functools
import logging
import tempfile
from collections.abc import Callable


@functools.cache
def cutter() -> Callable[[str], list[str]]:
    """Returns the function from a text to its words and signs, each space among them.

    Example: '今天天气好 我们' -> ['今天天气', '好', ' ', '我们']
    """
    import jieba

    jieba.setLogLevel(logging.ERROR)  # It announces its dictionary on standard error.
    chosen = jieba.Tokenizer()
    # jieba reads a cache of a fixed name in the shared temporary folder, which anyone could have
    # put there; a folder of our own costs a second per process.
    with tempfile.TemporaryDirectory(prefix='xlbench-jieba-') as folder:
        chosen.tmp_dir = folder
        chosen.initialize()
    return chosen.lcut
