"""Beam search of T5 and its relatives, with every option, equals transformers'."""

import decoding_goldens as goldens
import numpy as np
import pytest


@pytest.mark.parametrize('family, case', goldens.cases('t5', 't5_1_1', 'mt5'))
def test_texts_and_scores_equal_those_of_transformers(family, case):
    found = goldens.check(family, case)
    if case.startswith('beam'):  # Nothing but the length penalty sets the two apart.
        lengths = np.sum(np.cumsum(np.asarray(found.tokens) == 1, -1) == 0, -1) + 1
        lengths = np.minimum(lengths, goldens.MAX_LENGTH)
        penalty = float(case.split('_')[-1])
        expected = found.log_probabilities / lengths**penalty
        np.testing.assert_allclose(found.scores, expected, atol=1e-4)
