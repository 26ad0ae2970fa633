//! The examples of POLICY.md are documents.

use sealane_policy::{canonical, parse};

#[test]
fn examples_of_the_manual_are_valid() {
    let manual = include_str!("../../POLICY.md");
    let examples: Vec<&str> =
        manual.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(!examples.is_empty());
    for example in examples {
        parse(&canonical(example.as_bytes()).unwrap()).unwrap();
    }
}
