# Everything sets itself up: a fresh Debian needs only git, make, Python 3.11 and venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS ?= test,bench,pipeline
SEEDS ?= 200
WORKERS ?= 3
QUICK ?= $(addprefix tests/,api client config events ha log runtime storage wire) $(wildcard tests/test_*.py)
FIRST ?= 0
MODE ?= classic
SECONDS ?= 60
ROUNDS ?= 1
BENCH ?= mailbox api catchup appends async memory

.DEFAULT_GOAL := help
.PHONY: help run test quick check sim replay shrink mutations fuzz bench compare audit kills interop long diagrams dist clean

help:
	@echo "make run       three nodes, a feed of real lines, a live view; Ctrl-C stops in order"
	@echo "make test      all tests, three at a time: WORKERS=3 (interop needs Maven and Java)"
	@echo "make quick     those that take a minute or two: no Java, Spark, processes or whole clusters"
	@echo "make check     ruff and mypy --strict"
	@echo "make sim       a sweep of simulated clusters: SEEDS=200 FIRST=0 MODE=classic|dledger|autoswitch"
	@echo "make replay    one simulated cluster again: SEED=7"
	@echo "make shrink    a failing one, cut to a few lines: SEED=7"
	@echo "make mutations our own code broken on purpose: which checker notices, at which seed"
	@echo "make fuzz      every reader of bytes under a coverage-guided fuzzer: SECONDS=60 SEED=0"
	@echo "make bench     the measurements, quick: BENCH=catchup ARGS='--bytes 2GB --java' for one"
	@echo "make compare   classic beside DLedger, one load, one script of faults: ARGS='--parts sim'"
	@echo "make audit     three nodes, killed again and again; then Spark judges and reports: SECONDS=60"
	@echo "make kills     three nodes under kills, full disks, wipes and promotions, judged: SECONDS=600"
	@echo "make dist      sdist and wheel in dist/, each tried in a clean environment"
	@echo "make diagrams  rooms and states as Mermaid pictures, drawn from the code"
	@echo "make interop   only the tests beside real brokers and members (Maven, Java 17): PEER_VERSION=5.4.0"
	@echo "make long      what of that takes minutes for each: every party killed, a copy killed: ROUNDS=3"

# Two stamps: who only runs the cluster needs no test tools.
$(VENV)/.run: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 2; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt $(VENV)/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

run: $(VENV)/.run
	$(BIN)/python -m actors.cluster examples/3node.toml

test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(WORKERS)

# Those without real processes, sockets, Java and Spark, but for whole simulated clusters and scripts.
quick: $(VENV)/.test
	$(BIN)/python -m pytest -q -n 2 -m "not real_io and not spark and not interop" $(QUICK)

check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p actors -p wire
	$(BIN)/mypy examples

# PEER_VERSION="5.4.0,dledger-0.3.2": only beside those, RocketMQ's by their numbers alone.
interop: $(VENV)/.test
	PEER_VERSION="$(PEER_VERSION)" $(BIN)/python -m pytest tests/interop

# A round takes some 12 minutes: a slave of 5.x asks its master for metadata once a minute.
long: $(VENV)/.test
	@for round in $$(seq $(ROUNDS)); do echo "round $$round of $(ROUNDS)"; \
	  PEER_VERSION="$(PEER_VERSION)" $(BIN)/python -m pytest -n $(WORKERS) --durations=0 \
	  tests/interop/long_pairings.py tests/interop/long_copy.py tests/interop/long_mixed_sets.py \
	  $(ARGS) || exit; done

diagrams: $(VENV)/.test
	@$(BIN)/python tests/diagrams.py

dist: $(VENV)/.run
	@$(BIN)/python tests/dist.py

clean:
	rm -rf $(VENV) var build dist *.egg-info

# BENCH=catchup ARGS="--bytes 2GB --java" is one of them with other sizes; ARGS=--help says which.
bench: $(VENV)/.test
	@for one in $(BENCH); do $(BIN)/python tests/bench/bench_$$one.py $(ARGS) || exit; done

# Some 20 minutes; ARGS=--help says what each part is, and how to have less of it, or more.
compare: $(VENV)/.test
	@$(BIN)/python tests/bench/compare.py $(ARGS)

# ARGS="--kills 8 --folder DIR" and others: tests/audit.py --help.
audit: $(VENV)/.test
	@$(BIN)/python tests/audit.py --seconds $(SECONDS) $(ARGS)

# Ten minutes: SECONDS=600. In a mount namespace of its own.
kills: $(VENV)/.test
	@$(BIN)/python tests/kills/kills_run.py --seconds $(SECONDS) $(ARGS)

sim: $(VENV)/.test
	$(BIN)/python -m actors.sim sweep --mode $(MODE) --seeds $(SEEDS) --first $(FIRST)

replay: $(VENV)/.test
	$(BIN)/python -m actors.sim replay --mode $(MODE) --seed $(SEED)

shrink: $(VENV)/.test
	@[ -n "$(SEED)" ] || { echo "which one? make shrink SEED=7"; exit 2; }
	@$(BIN)/python -m actors.sim shrink --mode $(MODE) --seed $(SEED)

mutations: $(VENV)/.test
	$(BIN)/python tests/dledger/core_mutations.py
	$(BIN)/python tests/namesrv/namesrv_mutations.py
	$(BIN)/python tests/sim/sim_mutations.py --seeds $(SEEDS) --first $(FIRST)
	$(BIN)/python tests/sim/sim_mutations.py --mode dledger --seeds 500 --first $(FIRST)
	$(BIN)/python tests/sim/sim_mutations.py --mode autoswitch --seeds $(SEEDS) --first $(FIRST)

fuzz: $(VENV)/.test
	$(BIN)/python tests/fuzz/fuzz.py --seconds $(SECONDS) --seed $(or $(SEED),0)
