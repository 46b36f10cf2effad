# Two commands on a fresh machine with Python >= 3.11: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Two workers: the suite is tuned for two cores. BLAS threads would only fight with them.
JOBS ?= 2
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
# Bytecode is kept, whatever the environment says: tests start many processes, which would compile every module again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test quick check lint types unit fuzz coverage studies validity installed spark bench docs papers clean help

help:  ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("isonomy needs Python 3.11 or later") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.core

$(VENV)/.bench: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[dev,bench]'
	@touch $@

$(VENV)/.docs: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[docs]'
	@touch $@

demo: $(VENV)/.core  ## install, then audit a simulated lender with known, planted bias
	$(BIN)/isonomy demo

test: lint  ## lint, types, tests; types are checked while the tests run
	$(MAKE) --no-print-directory -j 2 types unit

check: lint types  ## lint and types only

# The mathematics that several topics share, and every recorded call: most mistakes show here.
QUICK := tests/recorded tests/numerics tests/inference tests/results tests/test_architecture.py tests/test_options.py
quick: lint  ## lint and the tests of the edit loop, in less than 90 seconds
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -q $(QUICK)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

fuzz: $(VENV)/.dev  ## hostile calls of every public function, for an hour at most (CALLS=500 SEED=7 looks only)
	PYTHONPATH=tests $(BIN)/python -m fuzz.sweep $(if $(CALLS),--calls $(CALLS)) $(if $(SEED),--seed $(SEED))

coverage: $(VENV)/.dev  ## the tests again, with the lines they do not reach
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --cov --cov-report=term:skip-covered

studies: $(VENV)/.dev  ## the long simulations: size, power, coverage; writes docs/validity (hours; TABLES=50 looks only)
	@for study in groups impact comparable discover models shrunk proxies projection alternatives effects scores thresholds weights skewed monitoring; do \
	  echo "== $$study"; $(BIN)/python -m studies.$$study $(if $(TABLES),--tables $(TABLES)) || exit 1; done

validity: $(VENV)/.dev  ## the long checks of solvers against brute force
	$(BIN)/python -m pytest -n $(JOBS) -m validity tests

installed: $(VENV)/.dev  ## the README's first commands, in an empty environment: from the checkout to a report
	$(BIN)/python -m pytest -m install tests/test_first_contact.py

spark: $(VENV)/.dev  ## every method on Spark: the same numbers as on the other engines
	$(BIN)/python -m pytest -m spark tests

# Peers whose requirements exclude ours have an environment of their own; what cannot be installed is shown so.
.venv-peers/.done: pyproject.toml
	$(PYTHON) -m venv .venv-peers
	-.venv-peers/bin/pip install --quiet --disable-pip-version-check fairaudit
	-.venv-peers/bin/pip install --quiet --disable-pip-version-check aequitas divexplorer pysubgroup
	@touch $@

bench: $(VENV)/.bench .venv-peers/.done  ## every speed figure, as ratios from one run (10 minutes; ROWS=100000000)
	PYTHONPATH=. $(BIN)/python benchmarks/all.py $(if $(ROWS),--rows $(ROWS))

papers: export ISONOMY_PAPERS := $(or $(TMPDIR),/tmp)/isonomy-papers.jsonl
papers: $(VENV)/.dev  ## every published table and figure, published beside ours, and how many agree
	@rm -f $(ISONOMY_PAPERS)
	@for script in papers/*_*.py; do echo "== $$script"; PYTHONPATH=. $(BIN)/python $$script || [ $$? = 77 ] || exit 1; done
	@$(BIN)/python papers/ledger.py

docs: $(VENV)/.docs  ## the documentation site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

clean:
	rm -rf $(VENV) .venv-peers site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
