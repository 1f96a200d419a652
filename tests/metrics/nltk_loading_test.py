"""NLTK without the packages that it loads for other functions than those that metrics call."""

import subprocess
import sys

PROGRAM = """
import sys

from xlbench.metrics import nltk_loading

nltk_loading.load()
later = 'scipy', 'sklearn'
assert 'nltk' in sys.modules and not any(name in sys.modules for name in later)

# What needs them works all the same.
import nltk
from scipy import stats
from sklearn.naive_bayes import BernoulliNB

test = nltk.BigramAssocMeasures.fisher(3, (5, 6), 20)
assert test == stats.fisher_exact([[3, 3], [2, 12]], alternative='less')[1]
classifier = nltk.classify.SklearnClassifier(BernoulliNB())
classifier.train([({'old': 1}, 'yes'), ({'new': 1}, 'no')] * 4)
assert classifier.classify({'old': 1}) == 'yes'
from nltk.parse import transitionparser
assert transitionparser.sparse.csr_matrix([[0, 2]]).nnz == 1
"""


def test_what_nltk_takes_from_other_packages_is_imported_when_it_is_called():
    done = subprocess.run(
        [sys.executable, '-c', PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
