//! Where the stages of a run leave what they found: `target/test`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// The files of one stage.
#[derive(Debug, Clone)]
pub(super) struct Files {
    folder: PathBuf,
    stage: String,
}

impl Files {
    pub(super) fn of(root: &Path, stage: &str) -> Self {
        Self { folder: root.join("target/test"), stage: stage.replace([' ', ':', ','], "-") }
    }

    /// Removes what the run before left.
    pub(super) fn clear(root: &Path) -> Result<()> {
        let folder = root.join("target/test");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("deleting {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))
    }

    /// What the stage printed.
    pub(super) fn log(&self) -> PathBuf {
        self.named("log")
    }

    /// How its tests ended, see [`super::case`].
    pub(super) fn events(&self) -> PathBuf {
        self.named("jsonl")
    }

    /// The tests that alone shall run, a line each, if it is there.
    pub(super) fn only(&self) -> PathBuf {
        self.named("only")
    }

    /// Tests that left something out: `NAME<TAB>REASON` a line, of all stages.
    pub(super) fn skips(&self) -> PathBuf {
        self.folder.join("skips.tsv")
    }

    /// What cargo-nextest needs to know about the one build.
    pub(super) fn metadata(&self) -> PathBuf {
        self.folder.join("cargo-metadata.json")
    }

    pub(super) fn binaries(&self) -> PathBuf {
        self.folder.join("binaries.json")
    }

    pub(super) fn junit(&self) -> PathBuf {
        self.folder.join("junit.xml")
    }

    fn named(&self, end: &str) -> PathBuf {
        self.folder.join(format!("{}.{end}", self.stage))
    }
}
