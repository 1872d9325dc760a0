# The front door: `make` alone lists what there is. Needs make, bash and Python 3.11 or newer; the rest comes into
# .venv from requirements/dev.txt, every package pinned by version and hash.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What one process compiled, all others of a run may load: tests start hundreds.
unexport PYTHONDONTWRITEBYTECODE

# More workers than cores: some tests wait. Not many more: each one collects all tests.
# tests/conftest.py shares out the work: all tests with Spark to one worker and one JVM, the longest first.
WORKERS := $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 3 ? n + 1 : 4)))
PYTEST := $(BIN)/python -m pytest -n $(WORKERS)
PIP_TOOLS := pip-tools==7.6.2

.PHONY: help setup core checked wheel java demo test tests beside-tests interpreted quick check lint types format bench interop spark-versions wire soak coverage docs screenshots lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.installed core ## make .venv with everything that development needs

$(VENV)/.installed: requirements/dev.txt pyproject.toml
	.ci/venv "$(PYTHON)" "$(VENV)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

# Ahead of time, so that no test and no first command pays for it; kept by content, so mostly there is nothing to do.
core: $(VENV)/.installed ## compile the core (part of setup), or go back to it from a debug build
	.ci/core $(BIN)/python

# Built apart, run, and back again: what stays is the fast build.
checked: setup ## the core tests with bounds checks that abort, then under AddressSanitizer
	.ci/checked $(BIN)/python $(ON_CORE:%=tests/%) tests/golden

wheel: setup ## a wheel for all Linux machines of this kind with glibc 2.17 or newer, in dist/, and a trial of it
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/compiler.txt
	rm -rf dist && FLAREMQ_WHEEL=portable $(BIN)/python -m hatchling build -t wheel -d dist
	FLAREMQ_TEST_WHEEL="$$(echo "$(CURDIR)"/dist/*.whl)" $(BIN)/python -m pytest -q tests/core/test_wheel.py

# Spark runs on it; installed by the system's package manager where that is permitted.
java:
	.ci/java run

demo: setup java ## the whole product in one go
	$(BIN)/flaremq demo

test: java lint ## lint, types and all tests but interop and soak
	@$(MAKE) --no-print-directory -j2 tests beside-tests  # side by side; either fails it

beside-tests: types
	@said=$$($(MAKE) --no-print-directory interpreted 2>&1) || { echo "$$said"; exit 1; }; \
		echo "interpreted: $$(tail -1 <<<"$$said")"

tests: setup
	.ci/etcd .cache/etcd
	.ci/chromium
	.ci/promtool .cache/promtool
	.ci/manifests $(BIN)/python .cache/manifests
	home=$$(.ci/spark-java $(BIN)/python .cache/spark-java) || home=$${JAVA_HOME:-}; JAVA_HOME=$$home \
		PATH="$(CURDIR)/.cache/etcd/usr/bin:$(CURDIR)/.cache/promtool/usr/bin:$$PATH" $(PYTEST) -m "not interop and not soak"

# What stands on the core. Interpreted, of the golden stores only what a store does with them: that loads all of the core.
ON_CORE := core message property/test_codec_properties.py storage/put storage/get storage/log \
	storage/dispatch storage/queue storage/index storage/engine
GOLDEN_ON_CORE := message_store rebuild records replica_log
# In one process: each more would collect them all again, and in `make test` the cores have enough to do.
interpreted: setup ## the tests of the core without its machine code (part of test)
	FLAREMQ_INTERPRETED=1 $(PYTEST) -n 0 -q -m "not slow and not spark and not interop and not soak" \
		$(ON_CORE:%=tests/%) $(GOLDEN_ON_CORE:%=tests/golden/test_golden_%.py)

# What most changes can break. No Spark, no clusters, no simulation, no processes of its own, nothing that is marked slow
# (pyproject.toml), and of broker and store not what stands on the rest and is seldom touched.
QUICK := architecture message protocol replication storage broker client namesrv
QUICK_LATER := storage/rescue storage/verify broker/administration broker/controller_mode broker/delay broker/group \
	broker/pop broker/transactions \
	storage/dispatch/test_deleted_topics.py storage/dispatch/test_deleted_topics_crash.py
quick: lint ## lint and the tests of the core, in a minute
	$(PYTEST) -q -m "not slow and not spark and not interop and not soak" $(QUICK:%=tests/%) \
		$(QUICK_LATER:%=--ignore tests/%)

check: lint types ## lint and types only

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

format: setup ## rewrite the sources as ruff wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## our own measurements
	$(BIN)/python -m benchmarks

interop: setup ## real clients and stores: Java, Go, Node, mqadmin, a real RocketMQ, an object store; needs Java
	.ci/java build
	tests/interop/fetch.sh
	.ci/versitygw .cache/versitygw
	FLAREMQ_INTEROP_REQUIRED=1 $(BIN)/python -m pytest -m interop tests/interop tests/pipeline/objects

# A minute a version once its environment is there: with interop, not with every change.
spark-versions: setup java ## a smoke test on each minor version of Spark, each in an environment of its own
	.ci/spark-versions "$(PYTHON)"

wire: setup ## the core of it: real clients and mqadmin against our servers, in a few minutes
	.ci/wire $(BIN)/python

soak: setup ## long random histories and kill loops
	.ci/etcd .cache/etcd
	.ci/chromium
	PATH="$(CURDIR)/.cache/etcd/usr/bin:$$PATH" HYPOTHESIS_PROFILE=soak $(PYTEST) -m soak

coverage: setup ## which lines the tests run
	$(BIN)/coverage run -m pytest -m "not interop and not soak"
	$(BIN)/coverage report --skip-covered

docs: setup ## rewrite the generated pages of docs/
	$(BIN)/python docs/generate.py

screenshots: setup ## take the pictures of docs/dashboard.md again; needs Chromium
	.ci/chromium
	$(BIN)/python docs/screenshots.py

# --no-emit-*: the locks must not carry whatever index or folder the packages happened to come from.
lock: ## renew requirements/ from pyproject.toml
	.ci/venv "$(PYTHON)" .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_TOOLS)
	for name in core dev; do \
		extra=(); if [ $$name != core ]; then extra=(--extra $$name); fi; \
		CUSTOM_COMPILE_COMMAND="make lock" .venv-lock/bin/pip-compile --quiet --upgrade --generate-hashes --strip-extras \
			--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options \
			"$${extra[@]}" --output-file requirements/$$name.txt pyproject.toml; \
	done
	for name in compiler manifests; do \
		CUSTOM_COMPILE_COMMAND="make lock" .venv-lock/bin/pip-compile --quiet --upgrade --generate-hashes \
			--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options \
			--output-file requirements/$$name.txt requirements/$$name.in; \
	done

clean: ## remove .venv and all caches but the fetched RocketMQ jars
	rm -rf $(VENV) .venv-lock build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .coverage htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
