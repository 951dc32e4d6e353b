# Two commands: `make demo` shows it, `make test` checks it. Both set up all they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The venv is rebuilt only when its ingredients change.
INGREDIENTS := pyproject.toml constraints.txt

.PHONY: demo test lint types tests wheel bench bench-read bench-chain bench-hmm bench-crowd bench-classic bench-step bench-encode bench-lf bench-paper bench-quality bench-report screenshots clean

demo: $(VENV)/installed
	$(BIN)/convener demo

test: lint types tests wheel

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/mypy

tests: $(VENV)/installed-dev
	sh tests/chromium.sh
	$(BIN)/python -m pytest -n 2 --cov --cov-report=term

# The pictures in the docs: the report of the demo and, where the data is, of BC5CDR.
screenshots: $(VENV)/installed-dev
	sh tests/chromium.sh
	CONVENER_SCREENSHOTS=docs/images $(BIN)/python -m pytest tests/report/browser/test_screenshots.py

# The built wheel, alone in an environment outside the checkout, must run the demo.
wheel: $(VENV)/installed-dev
	PYTHON=$(abspath $(BIN)/python) PIP_CONSTRAINT=$(abspath constraints.txt) sh tests/wheel.sh

# Slow; results with date, seed, machine and versions go to benchmarks/results.
bench: bench-read bench-chain bench-hmm bench-crowd bench-classic bench-step bench-encode bench-lf bench-paper bench-quality bench-report

bench-read bench-chain bench-hmm bench-crowd bench-classic bench-step bench-encode bench-lf bench-paper bench-quality bench-report: bench-%: $(VENV)/installed-bench
	$(BIN)/python -m benchmarks.$*

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "convener needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python $(INGREDIENTS)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(VENV)/installed-dev: $(VENV)/bin/python $(INGREDIENTS)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(VENV)/installed $@

$(VENV)/installed-bench: $(VENV)/installed-dev benchmarks/requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -r benchmarks/requirements.txt
	touch $@

clean:
	rm -rf $(VENV) build dist convener-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
