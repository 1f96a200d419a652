"""The campaign that is run by hand; see __init__.py."""

import argparse
import os
import pathlib
import sys

import pytest

parser = argparse.ArgumentParser(prog='python -m tests.fuzz')
parser.add_argument('--cases', type=int, default=20_000, help='over all readers together')
parser.add_argument('--seed', type=int, default=1_000_000, help='of the first case')
parser.add_argument('-k', default='', help='which tests, as pytest takes it')
args = parser.parse_args()
os.environ['XLBENCH_FUZZ_CASES'] = str(args.cases)
os.environ['XLBENCH_FUZZ_SEED'] = str(args.seed)
sys.exit(pytest.main(['-q', '-p', 'no:xdist', '-k', args.k, str(pathlib.Path(__file__).parent)]))
