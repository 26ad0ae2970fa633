//! `cargo xtask`: see `lib.rs`.

fn main() {}
