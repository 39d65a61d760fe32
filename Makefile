# Every target first sets up what it needs; `make help` lists the targets.
PYTHON ?= $(shell command -v python3.11 || echo python3)
BIN := .venv/bin

.PHONY: help setup demo notebooks fast test test-long test-s3 core lowest guards chaos simulate check docs site bench clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: .venv/local ## create .venv with the oncelake command; fetch the Java libraries and archive their classes

demo: .venv/local ## run the demo: the whole chain on a generated log, in a temporary lake
	$(BIN)/oncelake demo

notebooks: .venv/notebooks ## open the notebooks in JupyterLab
	$(BIN)/jupyter lab notebooks/01_explore_errors.ipynb

fast: .venv/dev ## run the tests that start no stream and no server: units, models, docs, bundle, names
	$(BIN)/python -m pytest -n 2 --dist loadgroup tests/unit tests/docs tests/guards tests/model tests/bundle tests/frozen/test_names.py tests/notebooks/test_stored.py

test: SHARE ?= guards
test: .venv/dev ## run the tests, of the slow ones those that a guard names; SHARE=0, 1 or 2: also a third of the others; SHARE=all: all
	$(BIN)/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder --durations=20 --junitxml=build/tests.xml $(if $(filter-out all,$(SHARE)),-p tests.guards.shares --share $(SHARE))

test-long: MINUTES ?= 60
test-long: .venv/dev ## run the slow tests (a cluster, a hundred kills, most notebooks), the core on each Spark, write docs/long-tests.md, and go on with make chaos for an hour
	$(BIN)/python -m pytest -m long --junitxml=build/long.xml tests/long tests/spark tests/streaming tests/services tests/chaos; ended=$$?; $(BIN)/python -m tests.long.page build/long.xml; \
	$(BIN)/python -m tests.support.sparks 4.0 && $(BIN)/python -m tests.support.sparks 4.1 || ended=1; \
	$(BIN)/python -m tests.chaos -n 2000 --minutes $(MINUTES) --keep && exit $$ended

test-s3: .venv/dev ## test a lake on an S3 API on this machine; downloads 13 MB of Java libraries the first time
	$(BIN)/python -m pytest tests/s3

core: SPARK ?= 4.1
core: .venv/dev ## run the core of the tests on another Spark: SPARK=4.0 or 4.1
	$(BIN)/python -m tests.support.sparks $(SPARK)

# Beside the units: both engines that commit, the readers of what they write, the rows in between, the tables in DuckDB.
LOWEST := tests/unit tests/spark/common tests/spark/exactly_once tests/spark/engine tests/streaming/test_upkeep.py tests/streaming/test_trace.py

lowest: .venv/dev ## run the unit tests, and those of what reads and writes tables, with the oldest versions that pyproject.toml allows
	mkdir -p build
	$(BIN)/uv pip compile -q pyproject.toml --extra local --extra postgresql --resolution lowest-direct -o build/lowest.txt
	$(BIN)/uv venv -q --clear --python $(BIN)/python build/lowest
	$(BIN)/uv pip install -q --python build/lowest -c build/lowest.txt -e '.[local,postgresql,dev]'
	build/lowest/bin/python -m oncelake.set_up
	build/lowest/bin/python -m pytest -n 2 --dist loadgroup $(LOWEST)

guards: .venv/dev ## break each guard in a copy of the code and expect its tests to fail; N=3 SEED=7: three random ones; ONLY=tag
	$(BIN)/python -m tests.guards $(if $(N),--number $(N)) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),"$(ONLY)")

chaos: N ?= 2000
chaos: .venv/dev ## play up to N random sequences of source operations, and write docs/chaos.md; goes on after the last run; FRESH=1 starts again
	$(BIN)/python -m tests.chaos -n $(N) $(if $(ONLY),--only $(ONLY)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED),--keep) $(if $(FRESH),--fresh)

simulate: N ?= 1000000
simulate: SEED ?= 0
simulate: ONLY ?= files
simulate: .venv/dev ## play N random sequences in memory, of growing files or with ONLY=drivers, and write docs/chaos.md
	$(BIN)/python -m tests.model.simulate --only $(ONLY) --seed $(SEED) -n $(N) --jobs 2 --keep

check: .venv/dev ## check lint, formatting, types and the imports between layers
	$(BIN)/ruff check pipelines tests notebooks examples
	$(BIN)/ruff format --check pipelines tests notebooks examples
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/dev ## regenerate the settings reference from the types, and the page of guards from their entries
	$(BIN)/python -m tests.docs.reference
	$(BIN)/python -m tests.docs.python_reference
	$(BIN)/python -m tests.guards.page
	$(BIN)/python -m tests.docs.readers
	$(BIN)/python -m tests.docs.wrong_sinks

site: SITE ?= build/site
site: .venv/site ## build the documentation as a site in build/site; NOTEBOOKS=1 also runs the notebooks, to show their plots
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -c docs/site . $(SITE)
	@echo "open $(SITE)/index.html"

bench: .venv/dev ## measure oncelake and other programs in turn, in the same run; needs a MariaDB server
	$(BIN)/python -m tests.bench.whole
	$(BIN)/python -m tests.bench.kills
	$(BIN)/python -m tests.bench.sources
	$(BIN)/python -m tests.bench.cluster
	$(BIN)/python -m tests.bench.freshness
	$(BIN)/python -m tests.bench.commands
	$(BIN)/python -m tests.bench.idle
	$(BIN)/python -m tests.bench.memory 500
	$(BIN)/python -m tests.bench.growth
	$(BIN)/python -m tests.bench.day 4000
	$(BIN)/python -m tests.bench.serving
	$(BIN)/python -m tests.bench.split

clean: ## remove .venv and the caches of the tools
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

.venv/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found; install Python 3.11, or name another Python: make PYTHON=python3 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/local: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[local]'
	$(BIN)/python -m oncelake.set_up
	@touch $@

.venv/notebooks: .venv/local
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[local,notebooks]' 'jupyterlab>=4.4,<5'
	@touch $@

.venv/site: .venv/notebooks
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[local,notebooks,site]'
	@touch $@

.venv/dev: .venv/local
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[local,dev]'
	@touch $@
