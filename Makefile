# Everything here sets itself up: `make test` on a fresh Debian machine needs nothing but make and Python 3.11.

VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.ready
TRAINS  := $(VENV)/.frameworks
CLUSTER := $(VENV)/.cluster
OUT     := out
TRACES  ?= $(or $(STERNA_TRACES),../shared/traces)
RECENT  := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
# `$(TIMED) "what it does" command...` says what it does, and at its end how long it took
TIMED   := timed() { what=$$1; began=$$(date +%s); shift; echo "set-up: $$what"; "$$@" || return; \
	echo "set-up: $$what: done after $$(($$(date +%s) - began)) s"; }; timed
# One more than there are cores: tests wait for other processes half of their time
WORKERS ?= $(shell echo $$(($$(nproc) + 1)))
PYTHON  ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p $(RECENT) 2>/dev/null && { echo $$p; exit; }; done; echo python3)

.DEFAULT_GOAL := help
.PHONY: help setup lint test cluster demo compare soak mutants bench validate crds manifests docs clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## make the virtual environment, once

$(STAMP): pyproject.toml
	@$(PYTHON) $(RECENT) 2>/dev/null || { echo "Python 3.11 or newer is needed and '$(PYTHON)' is not." \
		"Try: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		$(TIMED) "installing python3-venv" sh -c 'apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null'; \
	else echo "Python's venv module is missing. As root: apt-get install python3-venv"; exit 1; fi
	@[ -x $(BIN)/python ] || { $(TIMED) "creating $(VENV) with $$($(PYTHON) --version)" $(PYTHON) -m venv $(VENV); }
	@$(TIMED) "installing sterna and its tools, about a minute" \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,kubernetes]'
	@touch $@

$(TRAINS): $(STAMP)
	@$(TIMED) "installing PyTorch and TensorFlow, which tests and examples train with, about two minutes" \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[torch,tensorflow]'
	@touch $@

# 3: something is missing that this user may not install; tests that need it are skipped, and it is looked for again
$(CLUSTER): $(STAMP) tests/cluster/packages.py tests/cluster/build-kubernetes
	@$(BIN)/python -m tests.cluster.packages && touch $@ || [ $$? = 3 ]

lint: $(STAMP) ## style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint $(TRAINS) $(CLUSTER) ## everything that must hold before a commit, the demo among it
	$(BIN)/pytest -n $(WORKERS) --durations=25

cluster: $(STAMP) $(CLUSTER) ## a Kubernetes cluster with three nodes on this machine, until Ctrl-C; needs root
	@$(BIN)/python -m tests.cluster

demo: $(STAMP) ## real training on this machine: six jobs share three virtual nodes; two minutes, ends with a report
	@mkdir -p $(OUT)
	@$(BIN)/sterna demo --report $(OUT)/demo.json --page $(OUT)/demo.html --figure $(OUT)/demo.svg
	@echo "The report: $(abspath $(OUT))/demo.html"

compare: $(STAMP) ## simulate: policies on the traces that come with the package, and draw the report
	@mkdir -p $(OUT)
	$(BIN)/sterna compare --policies fifo,srjf,elastic-fifo,elastic-tiresias,ffdl,afs-l --traces poisson-120,bursty-200 \
		--nodes 8 --gpus-per-node 4 --start-cost 30s --rescale-cost 30s --migrate-cost 30s \
		--report $(OUT)/report.html --csv $(OUT)/numbers.csv
	@echo "The report: $(abspath $(OUT))/report.html"

soak: $(TRAINS) $(CLUSTER) ## the property tests with many more worlds; takes a while
	STERNA_WORLDS=20000 $(BIN)/pytest -n auto tests/oracle/test_properties.py
	STERNA_WORLDS=10000 STERNA_SEEDS=500 $(BIN)/pytest -n auto tests/planner/test_properties.py tests/simulation
	STERNA_WORLDS=10000 $(BIN)/pytest -n auto tests/planner/test_rest.py
	STERNA_RULE_WORLDS=2000 $(BIN)/pytest -n auto tests/planner/test_neighbours.py
	STERNA_SEEDS=200 STERNA_KILLS=2000 STERNA_ENGINE_KILLS=200 $(BIN)/pytest -n auto tests/training tests/engines tests/e2e
	STERNA_PODS=5000 $(BIN)/pytest tests/kubernetes/test_scheduler_conformance.py tests/kubernetes/test_neighbour_conformance.py
	STERNA_SEEDS=45 $(BIN)/pytest -n auto tests/kubernetes/test_crash_points.py tests/kubernetes/test_trouble.py
	STERNA_SHORT_JOBS=20000 STERNA_SEEDS=200 $(BIN)/pytest -n auto tests/attack
	STERNA_STORM_S=600 $(BIN)/pytest -s tests/kubernetes/test_storm.py
	STERNA_WEEK_S=3600 $(BIN)/pytest -n 2 -s tests/soak tests/e2e/kubernetes/test_week.py
	$(BIN)/python -m benchmarks.resident --minutes 30
	$(BIN)/python -m tests.mutants

mutants: $(TRAINS) ## break the code in sixty places, one after the other: the tests must notice each
	$(BIN)/python -m tests.mutants

bench: $(STAMP) $(CLUSTER) ## decision times and simulated jobs per second; writes JSON to out/
	@mkdir -p $(OUT)
	$(BIN)/python -m benchmarks --out $(OUT)

validate: $(STAMP) ## our numbers beside published ones; rewrites docs/validation.md
	STERNA_TRACES=$(TRACES) $(BIN)/python -m benchmarks.validate docs/validation.md

crds: $(STAMP) ## rewrite deploy/crds and the chart's copy of it from the models
	$(BIN)/sterna crds --into deploy/crds
	$(BIN)/sterna crds --into deploy/helm/sterna/files/crds

manifests: crds ## rewrite deploy/sterna.yaml and the table of rights in docs/install.md
	$(BIN)/python -m tests.deploy.manifest > deploy/sterna.yaml.new
	mv deploy/sterna.yaml.new deploy/sterna.yaml
	$(BIN)/python -m tests.deploy.rbac | $(BIN)/python -m sterna.interfaces.reference --fill docs/install.md rights

.PHONY: readme-demo
readme-demo: $(STAMP) # the README's picture
	$(BIN)/sterna demo --figure docs/images/demo.svg

docs: $(STAMP) ## rewrite the generated pages and, where the traces are there, the comparison in the README
	$(BIN)/python -m sterna.interfaces.reference docs
	@if [ -f $(TRACES)/afs/tiresias240.csv ]; then $(MAKE) --no-print-directory readme-comparison; \
	else echo "docs: no traces in $(TRACES), so the README's comparison stays as it is"; fi

.PHONY: readme-comparison
readme-comparison: $(STAMP)
	@mkdir -p $(OUT)
	$(BIN)/sterna compare -p all,fifo:size=initial \
		-t $(TRACES)/afs/tiresias240.csv --model afs --profiles $(TRACES)/afs --nodes 16 --gpus-per-node 4 \
		--start-cost 30s --rescale-cost 30s --migrate-cost 30s -o markdown --figure docs/images/policies.svg \
		> $(OUT)/comparison.md
	$(BIN)/python -m sterna.interfaces.reference --fill README.md comparison < $(OUT)/comparison.md

clean: ## remove everything that was made here
	rm -rf $(VENV) $(OUT) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
