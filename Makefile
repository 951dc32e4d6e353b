# `make demo` shows what the package does, `make test` checks everything, `make quick` checks the
# essentials. Each target sets up what it needs; CONTRIBUTING.md lists them all.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The venv is rebuilt only when its ingredients change.
INGREDIENTS := pyproject.toml constraints.txt

.PHONY: demo test quick lint types tests wheel check-versions api bench bench-read bench-chain bench-hmm bench-segment bench-crowd bench-step bench-encode bench-lf bench-paper bench-quality bench-worlds bench-report screenshots clean

demo: $(VENV)/installed
	$(BIN)/convener demo

test: lint types tests wheel

# Lint and the fast tests: no type check, no coverage, no browser, no doctests, no test marked slow.
# The budget is 90 seconds on two free cores once the environment is installed. The other
# directories hold tests that compile, train or start processes.
QUICK_TESTS := tests/data tests/evaluation tests/io tests/lf $(wildcard tests/test_*.py)

quick: lint
	$(BIN)/python -m pytest -n 2 -m 'not slow' $(QUICK_TESTS)

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

# Static checks of the other supported Python versions: mypy, ruff, wheels of all dependencies.
check-versions: $(VENV)/installed-dev
	$(BIN)/python tools/check_python_versions.py

# The reference of all public names; a test checks that it is up to date.
api: $(VENV)/installed-dev
	$(BIN)/python tools/write_api_reference.py

# Slow; results with date, seed, machine and versions go to benchmarks/results.
SPEED_BENCHMARKS := bench-chain bench-step bench-hmm bench-segment bench-read bench-encode bench-lf bench-report
BENCHMARKS := bench-paper bench-quality bench-worlds bench-crowd

bench: $(SPEED_BENCHMARKS) $(BENCHMARKS)

$(SPEED_BENCHMARKS): bench-%: $(VENV)/installed-bench
	$(BIN)/python -m benchmarks.speed.$*

$(BENCHMARKS): bench-%: $(VENV)/installed-bench
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
