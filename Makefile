# Needs python3 (3.11 to 3.13, with venv) and a package index; each target installs what it lacks.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

# A file is one worker's: what it trains or compiles, it shares. tests/conftest.py has the longest first.
PYTEST := $(RUN) -m pytest -q --numprocesses=auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder

# What is linted: the folders of the project, not those that runs leave beside them.
SOURCES := configs docs launch setup.py tasks tests tools xlbench

.PHONY: install train test test-all lint docs speed lock clean

install: $(VENV)/.installed

# uv installs the same locked, hashed files as pip, several times faster.
$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13) and "xlbench needs Python 3.11 to 3.13; set PYTHON=python3.12, say")'
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check uv==0.13.8
	$(RUN) -m uv pip install --quiet --no-deps --require-hashes --requirement requirements.lock
	$(RUN) -m uv pip install --quiet --no-deps --editable .
	touch $@

train: install
	$(RUN) -m xlbench.train --config=configs/mtg_mt5.py

test: install lint
	$(PYTEST) -m "not nightly"

test-all: install lint
	$(PYTEST)

lint: install
	$(RUN) -m ruff check $(SOURCES)
	$(VENV)/bin/lint-imports --cache-dir $(VENV)/.import_linter
	$(RUN) -m mypy --cache-dir $(VENV)/.mypy_cache

# -n: a link to nothing is a warning, and -W: a warning is an error.
docs: install
	$(RUN) -m sphinx -b html -n -W --keep-going docs docs/_build/html

# The figures of docs/results.md, for over an hour. XLBENCH_TORCH_PYTHON names an interpreter with PyTorch.
speed: install
	$(RUN) tools/speed

# One lock for Python 3.11 to 3.13; jax 0.10 on 3.11, newer above. The one of the core lacks what is
# needed only to read with SeqIO's own pipeline. On Linux, TensorFlow is the one without CUDA.
COMPILE := -m uv pip compile --universal --fork-strategy requires-python --generate-hashes \
  --no-emit-index-url --no-emit-find-links --no-header --quiet
LINUX := sys_platform == 'linux' and platform_machine == 'x86_64'

lock: install
	echo "tensorflow-cpu; $(LINUX)" | \
	  $(RUN) $(COMPILE) pyproject.toml --extra test --extra docs - -o requirements.lock
	for name in seqio tensorflow tensorflow-datasets; do \
	  echo "$$name; sys_platform == 'never'"; done > $(VENV)/core.txt
	cp requirements.lock $(VENV)/core.lock
	$(RUN) $(COMPILE) pyproject.toml --override $(VENV)/core.txt -o $(VENV)/core.lock
	awk '/^[^ ]/ {kept = !/never/} kept' $(VENV)/core.lock > requirements-core.lock

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache docs/_build
