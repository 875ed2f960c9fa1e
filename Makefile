# `make demo` and `make test` do everything from a fresh clone on: they need python >= 3.11, git and make.

VENV ?= .venv
# The first Python on the path that is new enough; or `make PYTHON=/path/to/python3`.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
# One test process a core; `make test PYTEST="-k lift"` runs a part in one process.
PYTEST ?= -n auto --dist worksteal

bin := $(VENV)/bin
pip := $(bin)/python -m pip --disable-pip-version-check install --quiet

.PHONY: help demo test lint bench findings picture clean

help:
	@echo 'make demo     tile a chain of two matmuls and check the result'
	@echo 'make test     run the tests'
	@echo 'make lint     ruff (lint and format) and mypy'
	@echo 'make bench    measure the performance budgets; fails where one is exceeded'
	@echo 'make findings make the tables of docs/findings.md again; a few minutes'
	@echo 'make picture  draw docs/timeline.svg, the picture in the README'
	@echo 'make clean    remove $(VENV) and caches'

demo: $(VENV)/.installed
	$(bin)/python examples/demo.py

test: $(VENV)/.installed-test
	$(bin)/python -m pytest $(PYTEST)

lint: $(VENV)/.installed-lint
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy

bench: $(VENV)/.installed
	$(bin)/python benchmarks/run.py

findings: $(VENV)/.installed-test
	$(bin)/python benchmarks/findings.py

picture: $(VENV)/.installed-test
	$(bin)/tilesat tile examples/chain.py --quiet --out $(VENV)/chain_tiled.py
	$(bin)/tilesat simulate $(VENV)/chain_tiled.py --plot docs/timeline.svg

clean:
	rm -rf $(VENV) .venv-ci build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# -- environments -----------------------------------------------------------------------------------------------------

$(VENV)/.created:
	@test -n "$(PYTHON)" || { echo 'tilesat needs Python 3.11 or newer; none was found on the path' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo 'making a virtual environment failed; on Debian and Ubuntu: apt install python3-venv' >&2; exit 1; }
	@touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml
	$(pip) --editable .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(pip) --editable '.[test,plots,cluster]'
	@touch $@

$(VENV)/.installed-lint: $(VENV)/.installed-test
	$(pip) --editable '.[lint]'
	@touch $@
