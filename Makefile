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

DEMO_MODEL := data/models/llama3_8b.onnx.gz
DEMO_OUTPUT := build/demo

.PHONY: help setup demo check test format clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | \
		while IFS='|' read -r name text; do printf '  make %-8s %s\n' "$$name" "$$text"; done

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

format: setup ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove .venv and everything built
	rm -rf $(VENV) build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
