# The first target lists the others.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/ruff: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e '.[dev]'
	@touch $@

install: $(BIN)/ruff  ## make .venv with everything a developer needs

test: install  ## run every test, also those marked as slow
	$(BIN)/python -m pytest -q -m 'slow or not slow'

lint: install  ## check format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: install  ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: install  ## write anew what docs/ has from code: the command line, the notebook
	$(BIN)/python scripts/make_cli_docs.py
	$(BIN)/python scripts/make_wrong_commands.py
	$(BIN)/python scripts/make_notebook.py

site: install  ## build the documentation site in build/site
	$(BIN)/pip install -q -e '.[docs]'
	$(BIN)/mkdocs build --strict -q -d build/site

bench: install  ## the quick benchmarks: start-up and a small fit
	$(BIN)/python bench/startup.py

smoke: install  ## build the wheel, install it alone, run it
	PYTHON=$(PYTHON) bash scripts/smoke.sh

clean:  ## remove what builds leave behind
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

.PHONY: help install test lint format docs site bench smoke clean
