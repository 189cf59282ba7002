# Each target works on a machine with only Python 3.11+ and pip.
PYTHON ?= python3
SF ?= 1
QUERIES ?=
PEER ?=
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check bench clean
.DEFAULT_GOAL := demo

# Two workers, three TPC-H queries at scale 1, a forced shuffle, checked against DuckDB.
demo: $(VENV)/.installed
	$(BIN)/python benchmarks/demo.py

test: $(VENV)/.dev-installed
	$(BIN)/python -m pytest -n 2 --dist loadgroup

check: $(VENV)/.dev-installed
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

# make bench SF=10 QUERIES=3,12,18 PEER=spark
bench: $(VENV)/.installed $(if $(PEER),$(VENV)/.bench-installed)
	$(BIN)/python benchmarks/tpch.py --scale $(SF) $(if $(QUERIES),--queries $(QUERIES)) $(if $(PEER),--peer $(PEER))

clean:
	rm -rf $(VENV) .data .crossdock .pytest_cache .mypy_cache .ruff_cache build dist *.egg-info

# pip reads dependency groups from 25.1 on.
$(VENV)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group data
	touch $@

$(VENV)/.dev-installed: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

$(VENV)/.bench-installed: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --group bench
	touch $@
