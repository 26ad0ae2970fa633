//! This program in a process of its own, or another build of it, that takes a sample whenever it is told to.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::child;
use super::dialogue::Dialogue;
use crate::contest::Sample;
use crate::sampling::Options;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Twin {
    dialogue: Dialogue,
    /// Instructions beyond the architecture's baseline that it was built for.
    pub(crate) built_for: Vec<String>,
}

impl Twin {
    /// Starts `program`, and waits until it is ready.
    pub(crate) fn start(program: &Path, options: Options) -> Result<Self> {
        let mut command = child::command(program);
        command.arg("sample").args(options.arguments());
        let mut dialogue = Dialogue::start("a build of this program", &mut command)?;
        let greeting = dialogue.greeting()?;
        let built_for = serde_json::from_str(&greeting);
        let built_for =
            built_for.with_context(|| format!("{} greeted with {greeting:?}", program.display()))?;
        Ok(Self { dialogue, built_for })
    }

    pub(crate) fn sample(&mut self) -> Result<Sample> {
        self.dialogue.tell(&())?;
        self.dialogue.hear()
    }
}
