# Everything a developer types. `make` alone lists the targets.

CARGO ?= cargo
# The workspace is built whole in each target, with one profile: nothing is built twice.
ALL := --workspace

.DEFAULT_GOAL := help
.PHONY: help build demo demo-wedge test cases soak explore check fmt lint doc rules deny rows bench bench-peers layout-bench bench-instructions valgrind redis clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build every binary into target/debug
	$(CARGO) build $(ALL) --bins

demo: ## see the main job on real files: crashes, aborts, retries, a verdict
	@test -x target/debug/leasehold || echo "Building first: about 4 minutes on 2 cores, the first time only."
	@$(MAKE) --no-print-directory build
	target/debug/leasehold demo

demo-wedge: build ## see a lane go on by itself: its worker killed, frozen, a task aborted, a verdict
	target/debug/leasehold demo --wedge

test: redis build ## run all tests against private Redis servers
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
		echo "$(CARGO) nextest run $(ALL)"; $(CARGO) nextest run $(ALL); \
	else \
		echo "cargo-nextest is not installed: using cargo test, slower and without time limits"; \
		$(CARGO) test $(ALL) --lib --bins --tests; \
	fi
	$(CARGO) test $(ALL) --doc

cases: redis build ## run the cases with their whole loops and times (long)
	LEASEHOLD_CASES=full $(CARGO) nextest run $(ALL) --profile cases -E 'test(case_)'

# What `make soak` is told: the seed of its tasks and faults, and for how long it breaks things.
SEED ?= 1
MINUTES ?= 10

soak: redis build ## break everything at once for MINUTES (10) by SEED (1), and judge what came of it
	LEASEHOLD_SOAK_SEED=$(SEED) LEASEHOLD_SOAK_MINUTES=$(MINUTES) \
		$(CARGO) nextest run $(ALL) --profile soak --no-capture -E 'test(heavy_soak_)'

# What `make explore` is told: `make explore EXPLORE='--world lane --pairs 1000000'` goes further into one world.
EXPLORE ?=

explore: redis ## take every step from every state of small worlds on the real scripts (up to an hour)
	$(CARGO) build --package leasehold-proof --bins
	target/debug/leasehold-explore $(EXPLORE)

check: ## what must be clean before a commit, tests apart
	$(CARGO) fmt --all --check
	@$(MAKE) --no-print-directory lint doc rules deny

fmt: ## format the code
	$(CARGO) fmt --all

lint: ## clippy, every warning an error
	$(CARGO) clippy $(ALL) --all-targets -- -D warnings

doc: ## build the API docs, every warning an error
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(ALL) --no-deps

rules: build ## check the repository's own rules
	$(CARGO) test $(ALL) --test it repo_rules

deny: ## licences, bans and sources of dependencies (where cargo-deny is installed)
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny check bans licenses sources; \
	else echo "cargo-deny is not installed: dependencies were not checked"; fi

rows: ## list requirement rows and cases with their tests; fails where one of tests/rows.txt has none
	@mkdir -p target
	@grep -rhoE 'fn [a-z0-9_]*(r[0-9]{2}|case_[0-9]{2})_[a-z0-9_]+' --include='*.rs' --exclude-dir=target . \
		| sed -E 's/^fn //' | awk '{ name = $$1; rest = name; while (match(rest, /(^|_)(r|case_)[0-9][0-9]_/)) { \
			id = substr(rest, RSTART, RLENGTH); gsub(/^_|_$$/, "", id); print id, name; \
			rest = "_" substr(rest, RSTART + RLENGTH) } }' | sort -u > target/rows.list
	@awk '$$1 != last { print $$1; last = $$1 } { print "    " $$2 }' target/rows.list
	@bare=; for id in $$(grep -v '^#' tests/rows.txt); do grep -q "^$$id " target/rows.list || bare="$$bare $$id"; done; \
		if [ -n "$$bare" ]; then echo "without a test:$$bare" >&2; exit 1; fi

# What `make bench` is told: `make bench BENCH='--rows cpu'` measures one row and writes nothing.
BENCH ?= --update docs/performance.md

bench: redis ## measure Leasehold beside raw streams, and write docs/performance.md
	$(CARGO) build --release --package leasehold
	target/release/leasehold bench --private $(BENCH)

# What `make bench-peers` is told: `make bench-peers PEERS=` writes nothing.
PEERS ?= --update docs/performance.md

bench-peers: redis ## measure Leasehold beside two queues of crates.io, and write docs/performance.md
	$(CARGO) run --release --manifest-path bench/peers/Cargo.toml -- $(PEERS)

layout-bench: ## measure the record layouts (docs/decisions)
	python3 bench/layout/run.py

# What `make bench-instructions` is told: `INSTRUCTIONS=--update` makes the figures of now the baseline.
INSTRUCTIONS ?=

bench-instructions: redis valgrind ## count what the scripts cost Redis, against a stored baseline
	python3 bench/instructions/run.py $(INSTRUCTIONS)

valgrind: ## make sure that there is a valgrind to count with
	@if command -v callgrind_control >/dev/null; then \
		: ; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing valgrind"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends valgrind; \
	elif [ "$$(id -u)" = 0 ] && command -v apk >/dev/null; then apk add valgrind; \
	elif [ "$$(id -u)" = 0 ] && command -v dnf >/dev/null; then dnf install -y valgrind; \
	else \
		echo "No valgrind is on the PATH: install it (apt-get install valgrind)." >&2; \
		exit 1; \
	fi

redis: ## make sure that there is a Redis server to test with
	@if [ -n "$$REDIS_SERVER" ] || command -v redis-server >/dev/null || command -v valkey-server >/dev/null; then \
		: ; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing redis-server"; \
		made=; if [ ! -e /usr/sbin/policy-rc.d ]; then \
			printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d && made=yes; fi; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server; \
		code=$$?; [ -z "$$made" ] || rm -f /usr/sbin/policy-rc.d; exit $$code; \
	elif [ "$$(id -u)" = 0 ] && command -v apk >/dev/null; then apk add redis; \
	elif [ "$$(id -u)" = 0 ] && command -v dnf >/dev/null; then dnf install -y valkey || dnf install -y redis; \
	else \
		echo "No redis-server or valkey-server (7.0 or later) is on the PATH." >&2; \
		echo "Install one (apt-get install redis-server, brew install redis) or point REDIS_SERVER at a binary." >&2; \
		exit 1; \
	fi

clean: ## remove what was built
	$(CARGO) clean
