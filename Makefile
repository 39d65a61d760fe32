# Every target sets up what it needs first; `make help` lists them.
PYTHON ?= $(shell command -v python3.11 || echo python3)
BIN := .venv/bin

.PHONY: help setup demo notebooks fast test test-long test-s3 guards chaos check docs bench clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: .venv/local ## build .venv with the oncelake command; fetch the Java libraries, archive their classes

demo: .venv/local ## tell the whole story on a made log in a temporary lake
	$(BIN)/oncelake demo

notebooks: .venv/notebooks ## open the notebooks in JupyterLab
	$(BIN)/jupyter lab notebooks/01_explore_errors.ipynb

fast: .venv/dev ## run the tests that start no stream and no server: units, models, documents, bundle, names
	$(BIN)/python -m pytest -n 2 --dist loadgroup tests/unit tests/docs tests/guards tests/model tests/bundle tests/frozen/test_names.py tests/notebooks/test_stored.py

test: .venv/dev ## run every test; those that need a server skip where it is not installed
	$(BIN)/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder --durations=20 --junitxml=build/tests.xml

test-long: .venv/dev ## run the tests that take long: a cluster, a hundred kills, the notebooks that kill; keep the result in docs/long-tests.md
	$(BIN)/python -m pytest -m long --junitxml=build/long.xml tests/long tests/streaming tests/services; ended=$$?; $(BIN)/python -m tests.long.page build/long.xml; exit $$ended

test-s3: .venv/dev ## test a lake on an S3 API; downloads 600 MB of Java libraries once
	$(BIN)/python -m pytest tests/s3

guards: .venv/dev ## take each guard out in a copy and expect its tests to fail; N=3 SEED=7: three at random
	$(BIN)/python -m tests.guards $(if $(N),--number $(N)) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),"$(ONLY)")

chaos: N ?= 2000
chaos: SEED ?= 0
chaos: .venv/dev ## play N random sequences on sources, judge each, keep the result in docs/chaos.md
	$(BIN)/python -m tests.chaos --seed $(SEED) -n $(N) --topics $$(( ($(N) + 99) / 100 )) --keep

check: .venv/dev ## lint, formatting, types, the order of the layers
	$(BIN)/ruff check pipelines tests notebooks
	$(BIN)/ruff format --check pipelines tests notebooks
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/dev ## write the reference of settings again from their types, and the tables of guards from their entries
	$(BIN)/python -m tests.docs.reference
	$(BIN)/python -m tests.guards.page

bench: .venv/dev ## measure against other programs, in turn, in the same run; needs a MariaDB server
	$(BIN)/python -m tests.bench.whole
	$(BIN)/python -m tests.bench.sources
	$(BIN)/python -m tests.bench.cluster
	$(BIN)/python -m tests.bench.freshness
	$(BIN)/python -m tests.bench.growth
	$(BIN)/python -m tests.bench.serving
	$(BIN)/python -m tests.bench.split

clean: ## remove what was built
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

.venv/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "no $(PYTHON) found; install Python 3.11, or name one: make PYTHON=python3 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/local: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[local]'
	$(BIN)/python -m oncelake.set_up
	@touch $@

.venv/notebooks: .venv/local
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[local,notebooks]' 'jupyterlab>=4.4,<5'
	@touch $@

.venv/dev: .venv/local
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[local,dev]'
	@touch $@
