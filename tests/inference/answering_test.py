"""How far ahead examples are read, and that a pause among them is passed on."""

from xlbench.inference import answering


def test_chunks_grow_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(answering, 'CHUNK_BATCHES', 4)
    sizes = [len(chunk) for chunk in answering.chunks(iter(range(30)), 2)]
    assert sizes == [2, 4, 8, 8, 8]


def test_a_pause_ends_a_chunk():
    """What came before it is answered; the next chunk is no smaller for it."""
    examples = ['a', None, None, 'b', 'c', 'd', 'e', 'f']
    assert list(answering.chunks(examples, 1)) == [['a'], None, None, ['b', 'c', 'd', 'e', 'f']]
