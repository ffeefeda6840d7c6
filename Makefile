# Needs Python 3.11 or newer, make and git; everything else is installed into .venv.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
PYTHON ?= $(shell for name in python3.11 python3 python; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
WORKERS ?= 2

# MindSpore cannot share an environment with the planner: ortools and it want different protobufs.
JUDGE := .venv-mindspore
JUDGE_STAMP := $(JUDGE)/.stamp
JUDGE_CASES := build/mindspore

DEMO_MODEL := data/models/llama3_8b.onnx.gz
DEMO_OUTPUT := build/demo

.PHONY: help setup demo check test test-mindspore docs format clean $(JUDGE)

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

# Accelerators' plugins are 1.8 GB and want libraries that are not here; the rest works without them.
.venv-mindspore: $(JUDGE_STAMP) ## create the environment with the real MindSpore: 800 MB to fetch

$(JUDGE_STAMP): requirements-mindspore.lock
	rm -rf $(JUDGE)
	$(PYTHON) -m venv $(JUDGE)
	$(JUDGE)/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-compile --require-hashes -r $<
	cd $(JUDGE)/lib/python3*/site-packages/mindspore/lib/plugin && rm -rf gpu* ascend libmindspore_{gpu,ascend,ops_ascend}*
	touch $@

test-mindspore: setup ## the real MindSpore reads our files; needs .venv-mindspore
	@test -e $(JUDGE_STAMP) || { echo 'the environment with MindSpore is missing'; \
		echo '  at:  $(JUDGE)'; echo '  fix: make $(JUDGE)'; exit 1; } >&2
	rm -rf $(JUDGE_CASES)*
	$(BIN)/python -m tests.mindspore_package.write_cases $(JUDGE_CASES)
	$(BIN)/python -m tests.mindspore_package.write_redistributions $(JUDGE_CASES)-redistributions.json
	$(BIN)/python examples/perceptron.py $(JUDGE_CASES)-example.onnx
	$(BIN)/planner search $(JUDGE_CASES)-example.onnx --devices 16 --optimizer sgd -o $(JUDGE_CASES)-example
	$(JUDGE)/bin/python -m pytest -c tests/mindspore_package/pytest.ini --cases=$(abspath $(JUDGE_CASES)) tests/mindspore_package

docs: setup ## write the output of commands in README and docs, and docs/operators.md, anew
	$(BIN)/python -m tests.cli.docs_output
	$(BIN)/python -m tests.cli.operators_page

format: setup ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove both environments and everything built
	rm -rf $(VENV) $(JUDGE) build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
