# Short names for `cargo xtask`.
# What a command needs beforehand: Rust, Go, Python 3.11+, gcc, make, and root or sudo for the local cluster.

# Dependencies that another clone built need not be built here. The first time, cargo says what it builds; afterwards it
# has nothing to say.
XTASK := sh xtask/dependencies.sh && $(if $(wildcard target/debug/xtask),cargo xtask,cargo run --bin xtask --)

.DEFAULT_GOAL := help
.PHONY: help demo test gate bench model cluster cluster-down install

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## The main job, end to end: MiniLM split over two nodes (CARRIER=Udp or AfXdp for another carrier)
	@$(XTASK) demo

test: ## Every test: Rust, Python, chart, end to end (FULL=1 adds the long suites, FULL=fuzz, removals, load or long runs one)
	@$(XTASK) test

gate: ## The quick check before a submission: static checks, and the tests that a change can break
	@$(XTASK) gate

bench: ## The benchmark report of this machine (FULL=1 takes longer, OUT=DIR puts it there)
	@$(XTASK) bench

model: ## Look for attacks on the handshake with Verifpal
	@$(XTASK) model

install: ## Images built and loaded, chart installed (SIMULATED=1 for machines without a TEE)
	@$(XTASK) install

cluster: ## Bring up the two-node local cluster, and print its KUBECONFIG line
	@$(XTASK) cluster up

cluster-down: ## Take the local cluster down; nothing but the cache stays
	@$(XTASK) cluster down
