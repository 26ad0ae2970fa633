//! How the programs that were measured came about. Whoever builds them leaves the facts beside them.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The file beside the program.
pub const FILE: &str = "sealane-bench.build.json";

const UNKNOWN: &str = "unknown";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Build {
    /// Of the programs.
    pub version: String,
    pub rustc: String,
    /// Cargo profile and what it stands for.
    pub profile: String,
    pub commit: String,
    /// Whether the tree had changes beyond the commit; null when nobody knows.
    pub dirty: Option<bool>,
    /// `name version features…` of every crate that was linked.
    pub crates: Vec<String>,
}

impl Build {
    /// The facts beside the running program; unknown ones where nobody left any.
    ///
    /// # Errors
    /// A file that is there and is not what it should be.
    pub fn beside(program: &Path) -> Result<Self> {
        let path = program.with_file_name(FILE);
        let Ok(text) = fs::read_to_string(&path) else { return Ok(Self::unknown()) };
        serde_json::from_str(&text).with_context(|| format!("{} is not of this release", path.display()))
    }

    /// What a program knows of itself without them.
    #[must_use]
    pub fn unknown() -> Self {
        let profile =
            if cfg!(debug_assertions) { "with debug assertions: figures mean nothing" } else { UNKNOWN };
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            rustc: UNKNOWN.to_owned(),
            profile: profile.to_owned(),
            commit: UNKNOWN.to_owned(),
            dirty: None,
            crates: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_from_beside_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("sealane-bench");
        assert_eq!(Build::beside(&program).unwrap(), Build::unknown());
        let build = Build { commit: "0123abc".to_owned(), dirty: Some(true), ..Build::unknown() };
        fs::write(folder.path().join(FILE), serde_json::to_string(&build).unwrap()).unwrap();
        assert_eq!(Build::beside(&program).unwrap(), build);
        fs::write(folder.path().join(FILE), "{}").unwrap();
        assert!(Build::beside(&program).is_err());
    }
}
