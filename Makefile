# The commands of the house. `make help` lists them; the work is done in scripts/.
#
#   BOOTSTRAP=host:port   a real broker for the demo (default: the embedded one)
#   PYTHON=python3.12     the interpreter of the virtual environment
#   VENV=.venv            where it is
#   SEED=7                of a run of chaos or a soak (default: a random one, printed)
#   VERSION=4.4.0         of Kafka Streams in `make test-oracle` (default: the one of the vectors)
#   LISTENER=SASL_SSL_SCRAM  through which the application comes in a run of chaos (default: a broker without security)
#   NODES=3                  so many secured brokers in a run of chaos with LISTENER (default: 1)
#   VERSIONS="4.1.1 3.9.1"   of Kafka, for test-kafka-versions

SHELL := /bin/bash
VENV ?= .venv
export VENV
ifdef PYTHON
export PYTHON
endif
BOOTSTRAP ?=
SEEDS ?= 20000
ARGS ?=
KILLS ?= 200
RECORDS ?= 2100000
FAULTS ?= 50
MINUTES ?= 30
LISTENER ?=
VERSION ?=
NODES ?= 1
VERSIONS ?= 4.1.1 3.9.1 3.6.2

.DEFAULT_GOAL := help
.PHONY: help setup rocksdb wheel demo test test-rust test-python test-conformance test-oracle test-integration test-kafka-versions test-spark test-ports test-other-broker smoke lint \
	bench-queries bench-http-queries bench-spark bench-stores bench-functions \
	test-console test-recovery test-long sim-long fuzz fuzz-admin memcheck chaos chaos-cluster audit drill soak soak-commits versus bench-latency bench-restore bench-failover bench-charts bench-timers \
	bench-scaling bench-border bench-floor bench-instructions bench docs docs-check docs-site clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## check the machine, make the virtual environment
	@scripts/setup.sh build dev

rocksdb: ## compile RocksDB, once, into the cache outside the clone
	@scripts/setup.sh build
	@scripts/rocksdb.sh

wheel: rocksdb ## build the release wheel and install it into the virtual environment
	@scripts/wheel.sh

demo: ## count words, be killed in the middle, recover, prove the result (BOOTSTRAP=host:port: on a real broker)
	@scripts/setup.sh java build spark
	@scripts/rocksdb.sh
	@scripts/wheel.sh
	@$(VENV)/bin/stoatflow demo $(if $(BOOTSTRAP),--bootstrap $(BOOTSTRAP)) $(ARGS)

test: ## everything: lints, Rust, Python, conformance, a real Kafka broker, Spark
	@scripts/setup.sh java maven prometheus build dev spark sail
	@scripts/rocksdb.sh
	@scripts/test.sh

test-rust: rocksdb ## the Rust tests, simulation included; needs no Python package and no Java
	@scripts/test.sh rust

test-python: ## the Python tests and the conformance vectors
	@scripts/setup.sh build dev
	@scripts/rocksdb.sh
	@scripts/test.sh wheel python conformance

test-conformance: ## only the vectors recorded from Kafka Streams
	@scripts/setup.sh build dev
	@scripts/rocksdb.sh
	@scripts/test.sh wheel conformance

test-oracle: ## the vectors, and random topologies, beside the real Kafka Streams (VERSION=4.4.0; needs Java and Maven)
	@scripts/setup.sh java maven build dev
	@scripts/rocksdb.sh
	@$(if $(VERSION),STOATFLOW_TEST_KAFKA_STREAMS_VERSION=$(VERSION)) scripts/test.sh wheel oracle

test-integration: ## against a real Kafka broker, and a real Prometheus (needs Java and Maven)
	@scripts/setup.sh java maven prometheus build dev spark
	@scripts/rocksdb.sh
	@scripts/test.sh wheel kafka integration

test-kafka-versions: ## the tests against real brokers, on each of several versions of Kafka (VERSIONS="4.1.1 3.9.1 3.6.2")
	@scripts/setup.sh java maven prometheus build dev spark
	@scripts/rocksdb.sh
	@STOATFLOW_TEST_KAFKA_VERSIONS="$(VERSIONS)" scripts/test.sh wheel kafka-versions

test-spark: ## loading and reconciling with PySpark (needs Java), and the twin on Sail
	@scripts/setup.sh java build dev spark sail
	@scripts/rocksdb.sh
	@scripts/test.sh wheel spark

test-ports: ## install Faust, Quix Streams and Bytewax, and run their programs beside the ports (needs Java and Maven)
	@scripts/setup.sh java maven build dev
	@scripts/rocksdb.sh
	@scripts/test.sh wheel ports

test-other-broker: ## the contract suite on Nisshi, a broker with none of Kafka's code (compiles it; needs Rust 1.96 and PostgreSQL)
	@scripts/setup.sh build dev
	@scripts/rocksdb.sh
	@scripts/test.sh wheel other-broker

lint: ## rustfmt, clippy, tidy, ruff, mypy --strict, stubtest
	@scripts/setup.sh build dev
	@scripts/rocksdb.sh
	@scripts/test.sh lint-rust wheel lint-python

test-console: ## the live page in a headless Chromium (installs Debian's if there is none)
	@scripts/setup.sh chromium build dev
	@scripts/rocksdb.sh
	@scripts/test.sh wheel console

smoke: wheel ## install the wheel in empty environments of each Python here: a new project, its tests, a demo (ARGS="python3.12")
	@. scripts/env.sh && "$$PY" scripts/smoke.py "$$(ls -t "$$CACHE"/wheels/stoatflow-*.whl | head -n 1)" $(ARGS)

test-recovery: ## all vectors in all ways: lanes, batches, both back ends, a crash at every epoch; longer random searches
	@scripts/setup.sh build dev
	@scripts/rocksdb.sh
	@scripts/test.sh wheel recovery

test-long: ## kills, faults and restarts of brokers that take half a minute or more each (needs Java and Maven)
	@scripts/setup.sh java maven build dev spark
	@scripts/rocksdb.sh
	@scripts/test.sh wheel long

sim-long: rocksdb ## the simulation with many seeds (SEEDS=20000)
	@STOATFLOW_TEST_SIM_SEEDS=$(SEEDS) scripts/cargo.sh test --profile checked --locked -p stoatflow-sim -- --nocapture
	@STOATFLOW_TEST_SIM_SEEDS=$(SEEDS) scripts/cargo.sh test --profile checked --locked -p stoatflow-log --lib -- nothing_is_lost restarts_and_takeovers

fuzz: rocksdb ## damaged bytes for all that reads bytes from outside, new ones each time (MINUTES=30, SEED=)
	@STOATFLOW_TEST_FUZZ_SECONDS=$$(($(MINUTES) * 4)) $(if $(SEED),STOATFLOW_TEST_FUZZ_SEED=$(SEED)) \
		scripts/cargo.sh test --profile checked --locked -p stoatflow-core -p stoatflow-formats -p stoatflow-log -p stoatflow-engine --lib -- --nocapture fuzz

fuzz-admin: ## random requests to the admin port, by its own OpenAPI description (MINUTES=30; Python 3.11 or newer)
	@scripts/setup.sh build dev fuzz
	@scripts/rocksdb.sh
	@STOATFLOW_TEST_FUZZ_SECONDS=$$(($(MINUTES) * 60)) scripts/test.sh wheel fuzz-admin

memcheck: rocksdb ## what has `unsafe` in it, and the border to Python, under Valgrind (ten minutes; needs valgrind)
	@scripts/setup.sh build dev
	@scripts/wheel.sh
	@scripts/memcheck.sh

chaos: ## kill the engine, its broker and its disk while it works; PySpark judges (SEED= KILLS=200 RECORDS=2100000 LISTENER= NODES=)
	@scripts/setup.sh java maven build dev spark
	@scripts/rocksdb.sh
	@scripts/wheel.sh
	@$(VENV)/bin/python tests/integration/chaos/run.py $(if $(SEED),--seed $(SEED)) --kills $(KILLS) --records $(RECORDS) $(if $(LISTENER),--listener $(LISTENER) --nodes $(NODES)) $(ARGS)

chaos-cluster: ## word counts through TLS, SCRAM and mTLS on three brokers, to which 50 faults happen; PySpark judges (SEED= FAULTS=50)
	@scripts/setup.sh java maven build dev spark
	@scripts/rocksdb.sh
	@scripts/wheel.sh
	@$(VENV)/bin/python tests/integration/chaos/cluster_run.py $(if $(SEED),--seed $(SEED)) --faults $(FAULTS) --spark $(ARGS)

audit: ## W1 to W5 and W7 in the engine, 2 million records each; their batch twins judge (ARGS="--records 100000"; needs Java)
	@scripts/setup.sh java build dev spark
	@scripts/rocksdb.sh
	@scripts/wheel.sh
	@timeout 6h $(VENV)/bin/python benches/versus/audited.py $(ARGS)

drill: ## W7 in the engine, then on a Spark cluster of which a worker is killed, then in the engine (ARGS="--records 100000")
	@scripts/setup.sh java maven build dev spark
	@scripts/rocksdb.sh
	@scripts/wheel.sh
	@timeout 6h $(VENV)/bin/python benches/spark/drill.py $(ARGS)

soak: ## steady work with kills: memory, file handles and threads stay bounded (MINUTES=30)
	@scripts/setup.sh java maven build dev
	@scripts/rocksdb.sh
	@scripts/wheel.sh
	@$(VENV)/bin/python tests/integration/chaos/soak.py $(if $(SEED),--seed $(SEED)) --minutes $(MINUTES) $(ARGS)

soak-commits: ## a commit every 7 ms with kills: the epochs of both producers run out several times (MINUTES=30)
	@scripts/setup.sh java maven build dev
	@scripts/rocksdb.sh
	@scripts/wheel.sh
	@$(VENV)/bin/python tests/integration/chaos/commits.py --minutes $(MINUTES) $(ARGS)

versus: ## seven jobs on Kafka Streams and here, on one broker (needs a JDK and Maven; ARGS=--help)
	@scripts/setup.sh java maven build dev
	@scripts/rocksdb.sh
	@scripts/wheel.sh
	@$(VENV)/bin/python benches/versus/versus.py $(ARGS)

bench-latency: ## how long a record takes at fixed rates, on Kafka Streams and here (ARGS=--help)
	@scripts/setup.sh java maven build dev
	@scripts/rocksdb.sh
	@scripts/wheel.sh
	@$(VENV)/bin/python benches/versus/latency.py $(ARGS)

bench-restore: ## restore of 2 million keys, cold and after a kill, on Kafka Streams and here (ARGS=--help)
	@scripts/setup.sh java maven build dev
	@scripts/rocksdb.sh
	@scripts/wheel.sh
	@$(VENV)/bin/python benches/versus/restore.py $(ARGS)

bench-failover: ## the time to RUNNING by size of the state: empty disk, clean stop, SIGKILL (ARGS="--gigabytes 0.5,1,2,4")
	@scripts/setup.sh java maven build dev
	@scripts/rocksdb.sh
	@scripts/wheel.sh
	@$(VENV)/bin/python benches/versus/failover.py $(ARGS)

bench-floor: ## what reading, writing and committing 1 KB cost without an engine, with librdkafka and without (ARGS=--help)
	@scripts/setup.sh java maven build dev
	@scripts/rocksdb.sh
	@$(VENV)/bin/python benches/floor/floor.py $(ARGS)

RESULTS ?= $(wildcard docs/reference/figures/*.json)
CHARTS ?= docs/reference/pictures
bench-charts: ## draw results of versus and bench-latency again (RESULTS="a.json b.json" CHARTS=folder ARGS=--check)
	@scripts/setup.sh build
	@$(VENV)/bin/python benches/versus/charts.py $(RESULTS) --charts $(CHARTS) $(ARGS)

bench-functions: wheel ## CPU per record of one job as expression, Arrow batch and lambda (ARGS=--help)
	@$(VENV)/bin/python benches/functions/functions.py $(ARGS)

bench-scaling: wheel ## CPU per record as lanes, keys, state, records, stores, re-keyings grow; a model of more cores (ARGS=--help)
	@$(VENV)/bin/python benches/scaling/scaling.py $(ARGS)

bench-border: ## what crossing into Python costs: calls, views, dicts, encoding, async (ARGS="-k call")
	@scripts/setup.sh build bench
	@scripts/rocksdb.sh
	@scripts/wheel.sh
	@$(VENV)/bin/python -m pytest -q -p no:cacheprovider benches/border --benchmark-columns=min,median,iqr,rounds --benchmark-sort=name $(ARGS)

bench-timers: wheel ## CPU per timer that fires, memory with 20 million that are pending (ARGS=--help)
	@$(VENV)/bin/python benches/timers/timers.py $(ARGS)

bench-queries: wheel ## what indexes cost at ingest and restore, and how long lookups and pages take (ARGS=--help)
	@$(VENV)/bin/python benches/queries/queries.py $(ARGS)

bench-http-queries: ## point queries over HTTP while input is read, on Kafka Streams and here (ARGS=--help)
	@scripts/setup.sh java maven build dev
	@scripts/rocksdb.sh
	@scripts/wheel.sh
	@$(VENV)/bin/python benches/versus/queries.py $(ARGS)

bench-spark: ## the batch twin and Spark's SQL on 1 and 2 executors beside the engine with 1 and 2 lanes (ARGS=--help)
	@scripts/setup.sh java maven build dev spark
	@scripts/rocksdb.sh
	@scripts/wheel.sh
	@$(VENV)/bin/python benches/spark/executors.py $(ARGS)

bench-stores: wheel ## what compression, Bloom filters and compaction of RocksDBConfig do (ARGS=--help)
	@$(VENV)/bin/python benches/stores/rocksdb_options.py $(ARGS)

bench: rocksdb ## the micro benchmarks of the Rust crates: how long the hot rooms, chains and stores take
	@scripts/cargo.sh bench --locked -p stoatflow-benches --bench hot_rooms --bench word_count_chain --bench read_field \
		--bench update --bench ranges --bench limits

bench-instructions: rocksdb ## how many instructions the hot rooms take; fails if one has become dearer (needs valgrind)
	@scripts/instructions.sh

docs: wheel ## write the generated pages of docs/reference again; runs the vectors, which the table of methods counts
	@$(VENV)/bin/python scripts/reference.py
	@$(VENV)/bin/python scripts/pictures.py
	@$(VENV)/bin/python scripts/dashboard.py
	@STOATFLOW_TEST_RESULTS=write $(VENV)/bin/python -m pytest -q -p no:cacheprovider tests/conformance/test_vectors.py
	@$(VENV)/bin/python scripts/parity.py
	@$(VENV)/bin/python scripts/site/llms.py

docs-site: ## build the site of docs/ into build/site; links, anchors and pages that lead nowhere are errors
	@scripts/setup.sh build docs
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict

docs-check: ## run every code block of the pages, check links, generated pages and the site
	@scripts/setup.sh build dev examples docs
	@scripts/rocksdb.sh
	@scripts/wheel.sh
	@$(VENV)/bin/python scripts/reference.py --check
	@$(VENV)/bin/python scripts/pictures.py --check
	@$(VENV)/bin/python scripts/dashboard.py --check
	@$(VENV)/bin/python scripts/parity.py --check
	@$(VENV)/bin/python scripts/site/llms.py --check
	@$(VENV)/bin/python -m pytest -q tests/python/test_docs.py tests/python/test_site.py tests/python/test_examples.py

clean: ## remove what was built inside the clone; never the cache outside
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache $(VENV)
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
