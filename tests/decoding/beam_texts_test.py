"""Beam search of every encoder-decoder, with every option, equals that of transformers."""

import decoding_goldens as goldens
import numpy as np
import pytest
import references


@pytest.mark.parametrize('family, case', goldens.cases(*references.ROWS))
def test_texts_and_scores_equal_those_of_transformers(family, case):
    found = goldens.check(family, case)
    if 't5' in family and case.startswith('beam'):  # Apart by nothing but the length penalty.
        lengths = np.sum(np.cumsum(np.asarray(found.tokens) == 1, -1) == 0, -1) + 1
        lengths = np.minimum(lengths, goldens.MAX_LENGTH)
        penalty = float(case.split('_')[-1])
        expected = found.log_probabilities / lengths**penalty
        np.testing.assert_allclose(found.scores, expected, atol=1e-4)
