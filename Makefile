# Everything a developer runs. Each target does its own set-up: the first call makes .venv and
# installs into it (Python packages, and a Java runtime as one of them), later calls are instant.
#
#   make test                        the first time takes some minutes, most of them downloads
#   make test PYTHON=python3.13      with a Python of your choice
#   make test ARGS="tests/store -x"  a part of it

PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11 python; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
STAMP := $(VENV)/.installed
SOURCES := tessel tests benchmarks docs examples build_backend setup.py
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv kernels grammar demo test test-browser test-slow test-versions test-stress lint types imports format format-check check docs docs-test \
	coverage changelog wheels \
	bench bench-smoke build clean

help: ## show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

venv: $(STAMP) ## make .venv and install everything the other targets need

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Tessel needs Python 3.11 or newer; name one with PYTHON=..."; exit 1; }
	@echo "setting up $(VENV) with $(PYTHON): 1.3 GB, some minutes the first time"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --quiet --progress-bar off -c constraints.txt -e ".[dev]"
	@touch $@

kernels: $(STAMP) ## machine code of kernels whose sources have changed
	@$(BIN)/python tessel/kernels/build.py

grammar: $(STAMP) ## tables of the grammar of expressions, after a change of it or of lark
	@$(BIN)/python -m tests.expression.grammar

demo: kernels ## the main job: real flights in, one query on the local pool and on Spark
	@$(BIN)/tessel demo --store demo-store $(ARGS)

test: kernels ## the tests, with few random cases
	@$(BIN)/python -m pytest -m "not slow" --numprocesses=3 $(ARGS)

coverage: kernels ## the tests with their coverage, which is at least 90 %; ARGS as for test
	@$(BIN)/python -m pytest -m "not slow" --numprocesses=3 --cov --cov-report=term $(ARGS)

test-slow: kernels ## all tests, with the full number of random cases
	@TESSEL_TEST_PROFILE=slow $(BIN)/python -m pytest $(ARGS)

test-versions: $(STAMP) ## other Pythons, oldest and newest versions, the wheel; ARGS="oldest wheel"
	@$(BIN)/python -m tests.versions $(ARGS)

test-stress: kernels ## random chains under what shows races; ARGS="--chains 5000 --spark"
	@$(BIN)/python -m tests.stress $(ARGS)

test-browser: kernels ## the page of a run in Chromium, which it installs unless there is one
	@$(PIP) install --quiet -c constraints.txt "playwright>=1.50"
	@command -v $(CHROMIUM) chromium chromium-browser google-chrome > /dev/null \
		|| $(BIN)/playwright install chromium
	@CHROMIUM=$(CHROMIUM) $(BIN)/python -m pytest tests/browser $(ARGS)

check: lint format-check types imports ## all checks that run nothing

lint: $(STAMP) ## ruff's rules
	@$(BIN)/ruff check $(SOURCES)

format: $(STAMP) ## format the code and sort its imports
	@$(BIN)/ruff check --quiet --select I --fix $(SOURCES)
	@$(BIN)/ruff format $(SOURCES)

format-check: $(STAMP) ## whether the code is formatted
	@$(BIN)/ruff format --check $(SOURCES)

types: $(STAMP) ## mypy, strict
	@$(BIN)/mypy

imports: $(STAMP) ## the direction of imports
	@$(BIN)/lint-imports --no-logo

docs: $(STAMP) ## the site of the docs, into build/site, with all its links checked
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@$(BIN)/python -m tests.site_links build/site

docs-test: kernels ## run every code block of the README and docs, and every example
	@$(BIN)/python -m pytest tests/test_docs.py $(ARGS)

bench: kernels ## time the workloads against other engines; ARGS="--rows 1_000_000 trades"
	@$(BIN)/python -m benchmarks.harness $(ARGS)
	@$(BIN)/python -m benchmarks.cold
	@$(BIN)/python -m benchmarks.cliffs
	@$(BIN)/python -m benchmarks.paths
	@$(BIN)/python -m benchmarks.slopes
	@$(BIN)/python -m benchmarks.kinds
	@$(BIN)/python -m benchmarks.round_trips
	@$(BIN)/python -m benchmarks.two_workers
	@$(BIN)/python -m benchmarks.spark_costs
	@$(BIN)/python -m benchmarks.driver
	@$(BIN)/python -m benchmarks.progress

bench-smoke: kernels ## run the workloads once on few rows, for their answers only
	@$(BIN)/python -m benchmarks.harness --smoke --seed 1 $(ARGS)
	@$(BIN)/python -m benchmarks.harness --smoke --engines spark_sql tessel_spark -- spark
	@$(BIN)/python -m benchmarks.importing --smoke
	@$(BIN)/python -m benchmarks.cold --smoke
	@$(BIN)/python -m benchmarks.cliffs --smoke
	@$(BIN)/python -m benchmarks.paths --smoke
	@$(BIN)/python -m benchmarks.slopes --smoke
	@$(BIN)/python -m benchmarks.kinds --smoke
	@$(BIN)/python -m benchmarks.round_trips --smoke
	@$(BIN)/python -m benchmarks.two_workers --smoke
	@$(BIN)/python -m benchmarks.spark_costs --smoke
	@$(BIN)/python -m benchmarks.driver --smoke
	@$(BIN)/python -m benchmarks.progress --smoke

changelog: $(STAMP) ## what the next version brings; ARGS="--yes --version 0.2.0" writes it down
	@$(BIN)/towncrier build $(if $(ARGS),$(ARGS),--draft --version next)

build: $(STAMP) ## sdist and wheel into dist/
	@$(BIN)/python -m build $(ARGS)

wheels: $(STAMP) ## the wheel of this platform, of the oldest systems it can be for
	@$(PIP) install --quiet cibuildwheel
	@$(BIN)/python -m cibuildwheel --output-dir wheelhouse

clean: ## remove all that the other targets made
	rm -rf $(VENV) build dist wheelhouse .coverage* tessel/kernels/kernels.* demo-store benchmarks/results ./*.egg-info \
		.mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .benchmarks
	find tessel tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
