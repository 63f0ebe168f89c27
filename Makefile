# `make` alone prints the targets; README.md names the two that a user needs: run and test.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON := .venv/bin/python
# Where an environment sets it, each of the hundreds of processes that tests start compiles anew
# what it imports, and each that runs tests rewrites their assertions.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run fmt check test test-fast test-short test-bare test-year test-consistency test-all bench bench-flink clean

help: ## print the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 14

setup: ## what a bare machine lacks: virtual environment, Java, Redis, servers of the tests; safe to run again
	@scripts/setup dev

run: ## the main job: Redis, Spark Connect, the service and the demo on real data (ARGS="--year" for all of 2013)
	@scripts/setup run
	@exec $(PYTHON) -m service demo $(ARGS)

fmt: setup ## format and fix what can be fixed
	@$(PYTHON) -m ruff format .
	@$(PYTHON) -m ruff check --fix .

check: setup ## format, lint, types, import direction, spelling: nothing is changed
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m mypy
	@.venv/bin/lint-imports --no-cache
	@.venv/bin/codespell service operators state tests benchmarks docs scripts README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md

test: check ## all that CI runs: checks, units, laws, oracles, real Redis, real Spark Connect, faults
	@HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-ci} $(PYTHON) -m pytest -q --ignore tests/integration -n 2 --dist worksteal
	@$(PYTHON) -m pytest -q tests/integration -n 2 --dist loadfile --no-loadscope-reorder

test-fast: setup ## units, laws and oracles without Spark: under a minute or two
	@$(PYTHON) -m pytest --ignore tests/integration -x -q

test-short: check ## every test of `make test` with few examples and cases, and four files on Spark
	@HYPOTHESIS_PROFILE=short $(PYTHON) -m pytest -q --ignore tests/integration --cases 2 -n 2 --dist worksteal
	@$(PYTHON) -m pytest -q tests/integration/test_{dataflow,functions,kill,lifecycle}.py -n 2 --dist loadfile --no-loadscope-reorder

test-bare: ## README's commands on bare Debian 12, 13 and testing, and the wheel; needs root and debootstrap
	@python3 scripts/bare.py $(ARGS)

# The chain of `tests/integration/test_chain.py` over all of 2013, killed ten times.
YEAR := TAILRACE_TEST_MONTHS=12 TAILRACE_TEST_KILLS=10 TAILRACE_TEST_SEED=$${TAILRACE_TEST_SEED:-$$RANDOM}

test-year: setup ## five operators over all flights of 2013, killed ten times, against SQL in batch
	@$(YEAR) $(PYTHON) -m pytest -q tests/integration/test_chain.py

# Of 25 epochs a case; a seed is told by what fails, and finds the case again.
test-consistency: setup ## 20,000 epochs of random pipelines, each against SQL in batch
	@TAILRACE_TEST_EPOCHS=$${TAILRACE_TEST_EPOCHS:-20000} TAILRACE_TEST_SEED=$${TAILRACE_TEST_SEED:-$$RANDOM} \
		$(PYTHON) -m pytest -q tests/consistency -n 2 --durations=3

test-all: check ## everything, with 10,000 examples a property and the whole year
	@HYPOTHESIS_PROFILE=deep $(YEAR) $(PYTHON) -m pytest

bench: setup ## the benchmarks; writes benchmarks/results/
	@$(PYTHON) -m benchmarks

bench-flink: setup ## Flink on RocksDB beside Tailrace on Redis, in an environment of Flink's own
	@test -x .venv-flink/bin/pyflink-shell.sh || { $(PYTHON) -m venv .venv-flink && .venv-flink/bin/python -m pip install --quiet apache-flink==2.3.0; }
	@$(PYTHON) -m benchmarks.against_flink --flink .venv-flink/bin/python $(ARGS)

clean: ## take away what was built, and the demo's data
	@rm -rf .venv .venv-flink data .pytest_cache .mypy_cache .ruff_cache .hypothesis
