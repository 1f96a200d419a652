"""Beam search of BART's relatives and of pairs of encoders equals transformers'."""

import decoding_goldens as goldens
import pytest

FAMILIES = ('bart', 'mbart', 'pegasus', 'marian', 'bert2bert', 'xlmr2xlmr')


@pytest.mark.parametrize('family, case', goldens.cases(*FAMILIES))
def test_texts_and_scores_equal_those_of_transformers(family, case):
    goldens.check(family, case)
