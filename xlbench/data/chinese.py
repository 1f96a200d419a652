"""Chinese word segmentation by jieba."""

import functools
import logging
import tempfile
from collections.abc import Callable


@functools.cache
def cutter() -> Callable[[str], list[str]]:
    """Returns a function that splits a text into words, signs and spaces.

    Example: '今天天气好 我们' -> ['今天天气', '好', ' ', '我们']
    """
    import jieba

    jieba.setLogLevel(logging.ERROR)  # It announces its dictionary on standard error.
    chosen = jieba.Tokenizer()
    # Anyone could have put jieba's cache into the shared temporary folder; our own folder costs a
    # second per process.
    with tempfile.TemporaryDirectory(prefix='xlbench-jieba-') as folder:
        chosen.tmp_dir = folder
        chosen.initialize()
    return chosen.lcut
