# Short names for `cargo xtask`.
# What a command needs beforehand: Rust, Go, Python 3.11+, gcc, make, and root or sudo for the local cluster.

XTASK := cargo xtask

.DEFAULT_GOAL := help
.PHONY: help cluster cluster-down

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

cluster: ## Bring up the two-node local cluster, and print its KUBECONFIG line
	@$(XTASK) cluster up

cluster-down: ## Take the local cluster down; nothing but the cache stays
	@$(XTASK) cluster down
