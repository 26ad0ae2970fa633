#!/bin/sh
# Stands before rustc: our crates report which edges they take, everything else is built as ever. That is faster, and
# coverage means ours.
rustc="$1"
shift
case " $* " in
*" --crate-name sealane_"*)
    exec "$rustc" "$@" \
        -Cpasses=sancov-module \
        -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
        -Cllvm-args=-sanitizer-coverage-pc-table \
        -Cllvm-args=-sanitizer-coverage-trace-compares
    ;;
*) exec "$rustc" "$@" ;;
esac
