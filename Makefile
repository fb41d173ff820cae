# Each target sets up what it needs in .venv: Python >= 3.11 with pip and venv, git and make are enough.
PYTHON ?= python3
BIN := .venv/bin
# Tests start many processes. Where nothing may be written beside the sources, each would compile the package again.
export PYTHONDONTWRITEBYTECODE :=
# What tests write goes to memory where there is room for it: they wait for the disk after every file.
export PYTEST_DEBUG_TEMPROOT := $(shell test "$$(df -Pk /dev/shm 2>/dev/null | awk 'END {print $$4}')" -gt 4000000 2>/dev/null && echo /dev/shm)
PYTEST := $(BIN)/python -m pytest -n auto
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

# Loops are compiled when they are first used; here, so that nobody waits for it later: those that choose masks, and
# for the tests also those of the longer search, of the attackers and of the method lab.
COMPILE := import ilba; people = ilba.datasets.census(5000); secret = ilba.Secret(bytes(32)); \
  finest = ilba.build(people, ['LA1', 'LA2', 'LA3'], ['gender', 'age'], secret=secret); finest.controlled(bound=4)
COMPILE_TESTED := $(COMPILE); finest.controlled(bound=4, sweeps=20); ilba.risk(finest); \
  ilba.audit(ilba.build(people, ['LA1', 'LA2', 'LA3'], ['gender', 'age'], 300, secret=secret)); \
  ilba.risk(finest, attackers=[ilba.Insider(unknown=2)]); finest.controlled(bound=4, noise=1); \
  ilba.compare(finest, methods=['suppression', 'small-count-rounding'], tables=['LA3.gender', 'LA2.age'])

.PHONY: help setup demo test check lowest cover lint docs figures bench browser clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/dev ## Make .venv with everything in it

demo: .venv/base ## Show the product at work
	$(BIN)/ilba demo

test: .venv/dev browser lint ## Run every test
	$(PYTEST)

check: .venv/dev lint ## The fast tests, in under a minute
	$(PYTEST) -m "not slow and not long"

lowest: ## The fast tests with the lowest versions that pyproject.toml names, in .venv-lowest
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	$(PYTHON) bench/lowest.py > .venv-lowest/floors.txt
	.venv-lowest/bin/python -m pip --disable-pip-version-check install --quiet --constraint .venv-lowest/floors.txt \
	  --editable '.[dev]'
	.venv-lowest/bin/python -m pytest -n auto -m "not slow"

cover: .venv/dev ## The fast tests, and which lines they do not reach
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n auto -m "not slow"
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

lint: .venv/dev
	$(BIN)/ruff check src tests bench tools docs
	$(BIN)/ruff format --check src tests bench tools docs
	$(BIN)/mypy

docs: .venv/dev ## Build the documentation of this version in docs/_build/html
	$(BIN)/python tools/site.py

figures: .venv/dev ## Draw the pictures of the documentation anew
	$(BIN)/python docs/figures/draw.py

bench: .venv/dev ## Print the benchmark table
	$(BIN)/python bench/suite.py

BROWSERS := chromium-headless-shell chromium chromium-browser google-chrome
# The tests of the page need a browser. Root gets it from the distribution; others are told how by the tests.
browser:
	@for one in $(BROWSERS); do ! command -v $$one >/dev/null || exit 0; done; \
	  test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null || \
	  { apt-get update -qq && for one in chromium-headless-shell chromium; do \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$one fonts-nanum >/dev/null && break; done; } || true

clean: ## Remove what was built
	rm -rf .venv .venv-lowest build dist docs/_build .mypy_cache .ruff_cache .pytest_cache

.venv/base: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ilba needs Python 3.11 or newer; try: make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --editable '.[charts,serve]'
	@$(BIN)/python -W ignore -c "$(COMPILE)"
	@touch $@

.venv/dev: .venv/base
	$(PIP) --editable '.[dev]'
	@$(BIN)/python -W ignore -c "$(COMPILE_TESTED)"
	@touch $@
