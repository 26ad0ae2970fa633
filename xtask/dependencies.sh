#!/bin/sh
# Puts the dependencies that another clone built into an empty target folder, before cargo looks for them. What does not
# fit cargo builds anew. `xtask/src/dependencies.rs` keeps them; `key` as the argument prints how they are named.
set -eu
cd "$(dirname "$0")/.."
key=$(cat Cargo.lock Cargo.toml rust-toolchain.toml | sha256sum | cut -c 1-16)
if [ "${1:-}" = key ]; then
    echo "$key"
    exit
fi
kept=${SEALANE_CACHE:-$HOME/.cache/sealane}/dependencies/$key/debug
if [ -d target/debug ] || [ ! -d "$kept" ]; then
    exit
fi
# Under another name until it is complete.
rm -rf target/unfinished
mkdir -p target/unfinished
# Libraries are never changed in place, so that links do; cargo writes into the others.
cp -al "$kept/deps" target/unfinished/deps 2>/dev/null || cp -a "$kept/deps" target/unfinished/deps
cp -a "$kept/.fingerprint" "$kept/build" target/unfinished/
mv target/unfinished target/debug
