//! Writes the first inputs of every target beside what fuzzing has found: `cargo run --package sealane-fuzz --example
//! seed`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool that says what it does, or fails")]

use sealane_fuzz::{TARGETS, corpus, seeds};

fn main() {
    for target in TARGETS {
        let folder = corpus::folder(target.name);
        std::fs::create_dir_all(&folder).unwrap();
        let seeds = seeds::of(target.name);
        for (number, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number:02}")), seed).unwrap();
        }
        println!("{}: {}", target.name, seeds.len());
    }
}
