//! A copy of the tree, which builds beside the real one.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{
    dependencies::{self, entries},
    process,
};

/// The copy and its build folder.
pub(super) struct Copy {
    folder: PathBuf,
    /// The packages of the workspace.
    own: BTreeSet<String>,
}

impl Copy {
    /// Makes it, or brings the one of the last time up to date.
    pub(super) fn make(root: &Path) -> Result<Self> {
        let copy = Self { folder: root.join("target/removals"), own: dependencies::own_packages(root)? };
        let listed = process::text(
            Command::new("git")
                .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
                .current_dir(root),
        )?;
        let names: BTreeSet<&Path> =
            listed.split('\0').filter(|name| !name.is_empty()).map(Path::new).collect();
        // A test that is gone from the tree must not be built here for ever.
        forget(&copy.tree(), Path::new(""), &names)?;
        for name in names {
            copy.bring(root, name).with_context(|| format!("copying {}", name.display()))?;
        }
        dependencies::link(&root.join("target"), &copy.target(), &copy.own)
            .context("taking over what is built")?;
        Ok(copy)
    }

    pub(super) fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    /// Where the programs of the tree itself are, which tests start.
    pub(super) fn programs(&self) -> PathBuf {
        self.folder.with_file_name("debug")
    }

    fn target(&self) -> PathBuf {
        self.folder.join("target")
    }

    /// Where a test program writes, of those that run at once.
    pub(super) fn log(&self, number: usize) -> PathBuf {
        self.folder.join(format!("said-{number}.txt"))
    }

    /// Cargo, in the copy. Our own crates are built as fast as can be; dependencies stay what they are in the tree.
    pub(super) fn cargo(&self) -> Command {
        let mut command = Command::new("cargo");
        for package in &self.own {
            command.args(["--config", &format!("profile.dev.package.{package}.opt-level=0")]);
        }
        command.env("CARGO_TARGET_DIR", self.target()).current_dir(self.tree());
        command
    }

    /// One file. What is unchanged keeps its time, so that it is not built again.
    fn bring(&self, root: &Path, name: &Path) -> Result<()> {
        // Deleted, and not committed yet.
        let Ok(bytes) = fs::read(root.join(name)) else { return Ok(()) };
        let to = self.tree().join(name);
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            return Ok(());
        }
        fs::create_dir_all(to.parent().unwrap_or(&to))?;
        Ok(fs::write(&to, bytes)?)
    }
}

/// Removes the files of the copy that are not among `names`. `inside` is the folder to look at, from `tree` on.
fn forget(tree: &Path, inside: &Path, names: &BTreeSet<&Path>) -> Result<()> {
    let folder = tree.join(inside);
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in entries(&folder)? {
        let name = inside.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            forget(tree, &name, names)?;
        } else if !names.contains(name.as_path()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_from_the_tree_goes_from_the_copy() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("src/inner")).unwrap();
        for name in ["kept.rs", "src/gone.rs", "src/inner/kept.rs"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let names = BTreeSet::from([Path::new("kept.rs"), Path::new("src/inner/kept.rs")]);
        forget(folder.path(), Path::new(""), &names).unwrap();
        assert!(folder.path().join("kept.rs").exists() && folder.path().join("src/inner/kept.rs").exists());
        assert!(!folder.path().join("src/gone.rs").exists());
    }
}
