# One front door. Every target sets up what it needs first, in .venv; nothing needs root.
.DEFAULT_GOAL := help
.PHONY: help run check test bench crash connect connectors versions mutants audit docs package clean lint types unit whole spark

# Running needs Millpond alone; all else needs the tools of tests, too.
RUNS := .venv/.runs
READY := .venv/.ready
# What Spark loads, kept for the JVMs of tests.
CLASSES := .venv/spark.jsa
PYTHON := .venv/bin/python
TYPED := $(wildcard millpond examples benchmarks)
# Extra words for pytest: make check PYTEST_ARGS="-k manifest --hypothesis-seed=1"
PYTEST_ARGS ?=
# The oldest that pyproject.toml allows, up to the one before that of .venv, which all other tests run on.
SPARK_VERSIONS ?= 4.1 4.2
# Besides that of .venv; those that are not on hand are named and left out.
PYTHON_VERSIONS ?= 3.12 3.13 3.14
# The newest for which there are connectors of all kinds; make versions runs those of the next one, too.
CONNECTOR_VERSIONS ?= 4.1.1
# The same hashes of texts in every process, so the same order of every set: a run of all tests is the same each time.
PYTEST := PYTHONHASHSEED=0 $(PYTHON) -m pytest -q
# make crash SEED=7 ONLY=values: the seed that a campaign printed, and one of scripts/campaigns.toml alone
SEED ?=
ONLY ?=
# make package TAG=v0.2.0: the version that must be built
TAG ?=
# Tests start very many processes: without byte code each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

help: ## Show what there is to make
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# A JVM that lives for a minute gains nothing by compiling twice.
run: $(RUNS) ## Run the example: a recommender on an embedded Spark
	@SPARK_SUBMIT_OPTS="$${SPARK_SUBMIT_OPTS:--XX:TieredStopAtLevel=1}" $(PYTHON) -m examples.recommender

check: lint types unit ## Check style and types, and run a small size of every quick test that needs no JVM

test: lint types whole spark connectors ## Run everything: style, types, all tests, those on Spark too

bench: $(READY) ## Measure everything that docs/BENCHMARKS.md describes, one after the other
	@$(PYTHON) -m benchmarks keyed_state
	@$(PYTHON) -m benchmarks word_count
	@$(PYTHON) -m benchmarks latency
	@$(PYTHON) -m benchmarks transfers
	@$(PYTHON) -m benchmarks any_method
	@$(PYTHON) -m benchmarks backends
	@$(PYTHON) -m benchmarks compile_time
	@$(PYTHON) -m benchmarks snapshots
	@$(PYTHON) -m benchmarks restore
	@$(PYTHON) -m benchmarks shared_windows
	@$(PYTHON) -m benchmarks sliding
	@$(PYTHON) -m benchmarks large_state
	@$(PYTHON) -m benchmarks placement
	@$(PYTHON) -m benchmarks recovery
	@$(PYTHON) -m benchmarks elastic
	@$(PYTHON) -m benchmarks raising_rows
	@$(PYTHON) -m benchmarks sinks

crash: $(READY) $(CLASSES) ## Try to break it: the campaigns of scripts/campaigns.toml from a fresh seed, which is printed; hours
	@$(PYTHON) scripts/crash.py --seed "$(SEED)" --only "$(ONLY)"

connect: $(READY) $(CLASSES) ## Run all tests on Spark through a Spark Connect server, too; half an hour or more
	@MILLPOND_TEST_CONNECT=1 $(PYTEST) -m "spark and not campaign" tests/spark $(PYTEST_ARGS)

connectors: $(READY) ## Run the tests of Spark's connectors on the newest Spark that has all of them, with a real Kafka broker
	@for version in $(CONNECTOR_VERSIONS); do sh scripts/connectors.sh $$version $(PYTEST_ARGS) || exit 1; done

versions: $(READY) ## Run the main paths on each Spark and each Python that docs/VERSIONS.md names, classic and through Connect
	@for version in $(SPARK_VERSIONS); do sh scripts/versions.sh $$version $(PYTEST_ARGS) || exit 1; done
	@sh scripts/connectors.sh 4.2.0 $(PYTEST_ARGS)
	@for version in $(PYTHON_VERSIONS); do sh scripts/pythons.sh $$version $(PYTEST_ARGS) || exit 1; done

mutants: $(READY) ## Test the tests: break the package by hand in more than 150 ways, each must be caught by its test
	@$(PYTEST) -n 2 -m "campaign or slow" tests/mutants $(PYTEST_ARGS)

audit: $(READY) ## Look for unsafe code (bandit) and for known weaknesses of what is installed (pip-audit, needs a network)
	@sh scripts/audit.sh

docs: $(READY) ## Write docs/ERRORS.md anew from the code, draw docs/pictures, and build the site of the documentation
	@$(PYTHON) scripts/errors_page.py
	@$(PYTHON) scripts/window_pictures.py
	@$(PYTHON) scripts/site.py build/site

package: $(READY) ## Build the sdist and the wheel into dist/, and look into them; with TAG=v0.2.0, only that version
	@$(PYTHON) scripts/package.py --tag "$(TAG)"

clean: ## Remove caches and what runs left behind; .venv stays
	@rm -rf build dist out artifacts spark-warehouse metastore_db derby.log *.egg-info
	@rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name .venv -prune -o -name .git -prune -o -name __pycache__ -type d -exec rm -rf {} +

lint: $(READY)
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .

types: $(READY)
	@$(PYTHON) -m mypy $(TYPED)

unit: $(READY)
	@MILLPOND_TEST_SMALL=1 $(PYTEST) -n 2 --dist worksteal -m "not spark and not slow and not campaign" $(PYTEST_ARGS)

whole: $(READY)
	@$(PYTEST) -n 2 --dist worksteal -m "not spark and not campaign" $(PYTEST_ARGS)

spark: $(READY) $(CLASSES)
	@$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder -m "spark and not campaign" $(PYTEST_ARGS)
	@MILLPOND_TEST_CONNECT=1 $(PYTEST) -m "spark and connect and not campaign" tests/spark $(PYTEST_ARGS)

$(RUNS): pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh
	@touch $@

$(READY): pyproject.toml scripts/setup.sh scripts/browser.sh scripts/kafka.sh
	@sh scripts/setup.sh dev
	@touch $(RUNS) $@

$(CLASSES): $(READY) scripts/class_archive.sh
	@sh scripts/class_archive.sh
