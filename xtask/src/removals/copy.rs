//! A copy of the tree, which builds beside the real one.

use std::{
    collections::BTreeSet,
    fs::{self, DirEntry, File},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::process;

/// The copy and its build folder.
pub(super) struct Copy {
    folder: PathBuf,
    /// The packages of the workspace.
    own: BTreeSet<String>,
}

impl Copy {
    /// Makes it, or brings the one of the last time up to date.
    pub(super) fn make(root: &Path) -> Result<Self> {
        let copy = Self { folder: root.join("target/removals"), own: own_packages(root)? };
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
        copy.seed(root).context("taking over what is built already")?;
        Ok(copy)
    }

    pub(super) fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    fn target(&self) -> PathBuf {
        self.folder.join("target")
    }

    /// Where a test program writes.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("said.txt")
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

    /// Takes dependencies over from the real build folder, as far as they are built there. What is missing or does not
    /// fit cargo builds as ever.
    fn seed(&self, root: &Path) -> Result<()> {
        let (from, to) = (root.join("target"), self.target());
        if !from.join("debug/deps").is_dir() {
            return Ok(());
        }
        let own = &self.own;
        fs::create_dir_all(to.join("debug/deps"))?;
        for folder in ["debug/.fingerprint", "debug/build"] {
            for entry in entries(&from.join(folder))? {
                if package(&entry).is_some_and(|package| !own.contains(&package)) {
                    copy_folder(&entry.path(), &to.join(folder).join(entry.file_name()))?;
                }
            }
        }
        for entry in entries(&from.join("debug/deps"))? {
            let there = to.join("debug/deps").join(entry.file_name());
            let own = |package: String| own.iter().any(|own| own.replace('-', "_") == package);
            if library(&entry).is_some_and(|library| !own(library)) && !there.exists() {
                // Compilers put a new file in the place of an old one, so that none of the two folders changes the other.
                fs::hard_link(entry.path(), there)?;
            }
        }
        Ok(())
    }
}

/// The packages of the workspace.
fn own_packages(root: &Path) -> Result<BTreeSet<String>> {
    let told = process::text(
        Command::new("cargo").args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(root),
    )?;
    let told: serde_json::Value =
        serde_json::from_str(&told).context("reading the metadata of the workspace")?;
    let packages = told.pointer("/packages").and_then(serde_json::Value::as_array).context("no packages")?;
    let name = |package: &serde_json::Value| package.get("name")?.as_str().map(str::to_owned);
    Ok(packages.iter().filter_map(name).collect())
}

/// The package of a folder that cargo named.
fn package(entry: &DirEntry) -> Option<String> {
    let name = entry.file_name().into_string().ok()?;
    name.rsplit_once('-').map(|(package, _)| package.to_owned())
}

/// The crate of a file, if it is a library.
fn library(entry: &DirEntry) -> Option<String> {
    let name = entry.file_name().into_string().ok()?;
    let (name, kind) = name.strip_prefix("lib")?.rsplit_once('.')?;
    let (library, _) = name.rsplit_once('-')?;
    matches!(kind, "rlib" | "rmeta" | "so").then(|| library.to_owned())
}

/// Copies a folder that is not there yet. Files keep their times, by which cargo tells what is up to date.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in entries(from)? {
        let there = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &there)?;
        } else {
            fs::copy(entry.path(), &there)?;
            File::options().write(true).open(&there)?.set_modified(entry.metadata()?.modified()?)?;
        }
    }
    Ok(())
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

fn entries(folder: &Path) -> Result<Vec<DirEntry>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    Ok(entries.collect::<Result<_, _>>()?)
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

    #[test]
    fn only_libraries_are_taken_over_and_folders_once_with_their_times() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("deps");
        fs::create_dir_all(&made).unwrap();
        for name in
            ["libserde-0a1b.rlib", "libserde_core-2c.rmeta", "libderive-3d.so", "pair-4e", "serde-0a1b.d"]
        {
            fs::write(made.join(name), "built").unwrap();
        }
        let libraries: BTreeSet<_> = entries(&made).unwrap().iter().filter_map(library).collect();
        assert_eq!(libraries, ["derive", "serde", "serde_core"].map(str::to_owned).into());

        let copied = folder.path().join("copied");
        copy_folder(&made, &copied).unwrap();
        let modified = |path: PathBuf| fs::metadata(path).unwrap().modified().unwrap();
        assert_eq!(modified(made.join("pair-4e")), modified(copied.join("pair-4e")));
        fs::write(made.join("pair-4e"), "built again").unwrap();
        copy_folder(&made, &copied).unwrap();
        assert_eq!(fs::read(copied.join("pair-4e")).unwrap(), b"built");
    }
}
