//! libFuzzer around one target: `SEALANE_FUZZ_TARGET` names it. `cargo xtask fuzz` builds and runs this.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sealane_fuzz::{Target, find, seeds};

static TARGET: LazyLock<&'static Target> = LazyLock::new(|| {
    let name = std::env::var("SEALANE_FUZZ_TARGET").unwrap_or_default();
    find(&name).unwrap_or_else(|| panic!("SEALANE_FUZZ_TARGET names no target: `{name}`"))
});

fuzz_target!(
    init: {
        // Keys and evidence are made once per process. That takes seconds, which are no input's.
        seeds::of(TARGET.name).iter().for_each(|seed| (TARGET.run)(seed));
    },
    |data: &[u8]| {
        (TARGET.run)(data);
    }
);
