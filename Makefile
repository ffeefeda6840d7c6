# Needs Python 3.11 or newer, make and git; everything else is installed into .venv.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Tests start some hundred processes; each would compile all modules again.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
PYTHON ?= $(shell for name in python3.11 python3 python; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
WORKERS ?= 2

# MindSpore cannot share an environment with the planner: ortools and it want different protobufs.
MINDSPORE := .venv-mindspore
MINDSPORE_STAMP := $(MINDSPORE)/.stamp
MINDSPORE_CASES := build/mindspore

# Sphinx builds the site; neither running nor testing the planner needs it.
DOCS := .venv-docs
DOCS_STAMP := $(DOCS)/.stamp

# XLA and DTensor stand beside the planner, but 1.6 GB of them are for its tests alone.
JUDGES := .venv-judges
JUDGES_STAMP := $(JUDGES)/.stamp

DEMO_MODEL := data/models/llama3_8b.onnx.gz
DEMO_OUTPUT := build/demo

.PHONY: sample web serve help setup demo check test test-fast test-frozen freeze test-mindspore test-mindspore-networks test-judges test-system fidelity docs docs-site format clean $(MINDSPORE) $(JUDGES)

help: ## list the targets
	@sed -n 's/^\([a-z.-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | \
		while IFS='|' read -r name text; do printf '  make %-15s %s\n' "$$name" "$$text"; done

setup: $(STAMP) ## create .venv and install the locked requirements and the planner

$(STAMP): pyproject.toml requirements.lock requirements-dev.lock
	@test -n "$(PYTHON)" || { echo 'no Python 3.11 or newer found'; \
		echo '  at:  make setup'; echo '  fix: install one, or name it: make setup PYTHON=/path/to/python'; exit 1; } >&2
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

demo: setup ## plan Llama-3-8B for 16 devices
	$(BIN)/planner search $(DEMO_MODEL) --devices 16 --batch 64 -o $(DEMO_OUTPUT)

check: setup ## style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup ## all tests, on WORKERS (2) processes
	$(BIN)/pytest -n $(WORKERS)

test-fast: setup ## the tests marked fast: every source module is called, in less than a minute
	$(BIN)/pytest -m fast -n $(WORKERS)

# Cases stand in tests/frozen/cases.txt; name some with CASES="llama3_8b four_stages".
test-frozen: setup ## today's answers against the frozen ones, byte by byte; some five minutes
	$(BIN)/python -m tests.frozen.answers compare $(CASES) --workers $(WORKERS)

freeze: setup ## keep today's answers as the frozen ones
	$(BIN)/python -m tests.frozen.answers freeze $(CASES) --workers $(WORKERS)

# Accelerators' plugins are 1.8 GB and want libraries that are not here; the rest works without them.
.venv-mindspore: $(MINDSPORE_STAMP) ## create the environment with the real MindSpore: 800 MB to fetch

$(MINDSPORE_STAMP): requirements-mindspore.lock
	rm -rf $(MINDSPORE)
	$(PYTHON) -m venv $(MINDSPORE)
	$(MINDSPORE)/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-compile --require-hashes -r $<
	cd $(MINDSPORE)/lib/python3*/site-packages/mindspore/lib/plugin && rm -rf gpu* ascend libmindspore_{gpu,ascend,ops_ascend}*
	touch $@

test-mindspore: setup ## the real MindSpore reads our files; needs .venv-mindspore
	@test -e $(MINDSPORE_STAMP) || { echo 'the environment with MindSpore is missing'; \
		echo '  at:  $(MINDSPORE)'; echo '  fix: make $(MINDSPORE)'; exit 1; } >&2
	rm -rf $(MINDSPORE_CASES)*
	$(BIN)/python -m tests.mindspore_package.write_cases $(MINDSPORE_CASES)
	$(BIN)/python -m tests.mindspore_package.write_redistributions $(MINDSPORE_CASES)-redistributions.json
	$(BIN)/python -m tests.mindspore_package.write_operators $(MINDSPORE_CASES)-operators
	$(BIN)/python -m tests.mindspore_package.write_checkpoints $(MINDSPORE_CASES)-checkpoints
	$(BIN)/python -m tests.mindspore_package.write_propagation $(MINDSPORE_CASES)-propagation.json
	$(BIN)/python examples/perceptron.py $(MINDSPORE_CASES)-example.onnx
	$(BIN)/planner search $(MINDSPORE_CASES)-example.onnx --devices 16 --optimizer sgd -o $(MINDSPORE_CASES)-example
	$(BIN)/python -m tests.mindspore_package.write_scripts $(MINDSPORE_CASES)-example $(MINDSPORE_CASES)-scripts
	$(MINDSPORE)/bin/python -m pytest -c tests/mindspore_package/pytest.ini --cases=$(abspath $(MINDSPORE_CASES)) tests/mindspore_package

test-mindspore-networks: setup ## networks as tutorials write them: the table of what arrives of plans; needs .venv-mindspore
	@test -e $(MINDSPORE_STAMP) || { echo 'the environment with MindSpore is missing'; \
		echo '  at:  $(MINDSPORE)'; echo '  fix: make $(MINDSPORE)'; exit 1; } >&2
	rm -rf $(MINDSPORE_CASES)-networks && mkdir -p $(MINDSPORE_CASES)-networks
	PYTHONPATH=. $(MINDSPORE)/bin/python -m tests.mindspore_package.export_networks $(MINDSPORE_CASES)-networks
	$(BIN)/python -m tests.mindspore_package.networks_table $(MINDSPORE_CASES)-networks $(MINDSPORE)/bin/python
	$(BIN)/python -m tests.mindspore_package.modes_table $(MINDSPORE_CASES)-networks $(MINDSPORE)/bin/python Mlp

.venv-judges: $(JUDGES_STAMP) ## create the environment with JAX and torch: 280 MB to fetch

$(JUDGES_STAMP): requirements-dev.lock requirements-judges.txt
	@test -n "$(PYTHON)" || { echo 'no Python 3.11 or newer found' >&2; exit 1; }
	rm -rf $(JUDGES)
	$(PYTHON) -m venv $(JUDGES)
	$(JUDGES)/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir --require-hashes -r requirements-dev.lock
	$(JUDGES)/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir -r requirements-judges.txt
	$(JUDGES)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

test-judges: setup test-mindspore ## XLA, DTensor and MindSpore on our plans; needs both environments
	@test -e $(JUDGES_STAMP) || { echo 'the environment with JAX and torch is missing'; \
		echo '  at:  $(JUDGES)'; echo '  fix: make $(JUDGES)'; exit 1; } >&2
	PLANNER_MINDSPORE_PYTHON=$(abspath $(MINDSPORE)/bin/python) $(JUDGES)/bin/python -m pytest -n $(WORKERS) tests/judges

test-system: setup ## real servers, kills, databases and browsers; some ten minutes
	$(BIN)/python -m pytest -o addopts="--import-mode=importlib -q" -p no:randomly tests/system

# The reference measurements stand beside the repository; name the table with ROWS=... if it is elsewhere.
ROWS ?= ../shared/reference/measured_training.csv

fidelity: setup ## how far off training steps are with sources, models, widths and machines left out
	mkdir -p build
	$(BIN)/python -m benchmarks.calibrate $(ROWS) --report build/fidelity.md
	$(BIN)/planner validate $(ROWS) -o build/predictions.csv

# Node 20 and npm where they are installed, else the Python package of requirements-web.lock.
web: setup ## check the sources of the service's page, and build it into build/page
	$(BIN)/python -m service.web.build_page --check

# More options of `planner serve`: make serve OPTIONS="--port 8500".
serve: setup ## build the page where it is not built, and serve it: http://127.0.0.1:8400
	$(BIN)/python -m service.web.build_page
	$(BIN)/planner serve $(OPTIONS)

docs: setup ## write the output of commands in README and docs, operators.md, recipes.md and machines.md, anew
	$(BIN)/python -m tests.cli.docs_output
	$(BIN)/python -m tests.cli.operators_page
	$(BIN)/python -m tests.recipes.page
	$(BIN)/python -m tests.data_.machines_page

# The plan that the page offers at first; a test says when it is no longer what the search finds.
sample: setup ## search for the bundled plan anew
	$(BIN)/python -m tests.service.sample_plan

docs-site: $(DOCS_STAMP) ## build the documentation as a site with search in build/site; a warning is an error
	$(DOCS)/bin/sphinx-build --quiet --fail-on-warning --keep-going -b html docs build/site

$(DOCS_STAMP): requirements-docs.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

format: setup ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove all environments and everything built
	rm -rf $(VENV) $(MINDSPORE) $(JUDGES) $(DOCS) service/web/node_modules build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
