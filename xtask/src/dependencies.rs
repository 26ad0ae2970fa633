//! Built dependencies, taken from one build folder into another.
//!
//! Only crates of registries are: cargo knows them by their version, features and profile, wherever they were built, and
//! builds anew what does not fit. Our own crates it knows by the times of their files, which say nothing elsewhere.

use std::{
    collections::BTreeSet,
    fs::{self, DirEntry, File},
    path::Path,
    process::Command,
};

use anyhow::{Context, Result};
use aws_lc_rs::digest::{SHA256, digest};

use crate::{cluster, process};

/// Kept sets of dependencies: the one in use, and the one before.
const SETS_MAX: usize = 2;

/// Keeps the dependencies of `root`'s build folder for other clones: `xtask/dependencies.sh` puts them into an empty one.
///
/// # Errors
/// The file system's.
pub fn keep(root: &Path) -> Result<()> {
    let folder = cluster::cache_folder()?.join("dependencies");
    let set = folder.join(key(root)?);
    link(&root.join("target"), &set, &own_packages(root)?)?;
    File::open(&set)?.set_modified(std::time::SystemTime::now())?;
    let mut sets = entries(&folder)?;
    sets.sort_by_key(|set| std::cmp::Reverse(set.metadata().and_then(|data| data.modified()).ok()));
    sets.iter().skip(SETS_MAX).try_for_each(|old| fs::remove_dir_all(old.path()))?;
    Ok(())
}

/// What decides about dependencies; the script says the same.
fn key(root: &Path) -> Result<String> {
    let mut all = Vec::new();
    for name in ["Cargo.lock", "Cargo.toml", "rust-toolchain.toml"] {
        all.extend(fs::read(root.join(name)).with_context(|| format!("reading {name}"))?);
    }
    Ok(hex::encode(digest(&SHA256, &all))[..16].to_owned())
}

/// Takes dependencies over from the build folder `from` into `to`, as far as they are built there and missing here.
///
/// # Errors
/// The file system's.
pub(crate) fn link(from: &Path, to: &Path, own: &BTreeSet<String>) -> Result<()> {
    if !from.join("debug/deps").is_dir() {
        return Ok(());
    }
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
            // Between two file systems there are no links.
            if fs::hard_link(entry.path(), &there).is_err() && !there.exists() {
                fs::copy(entry.path(), there)?;
            }
        }
    }
    Ok(())
}

/// The packages of the workspace.
pub(crate) fn own_packages(root: &Path) -> Result<BTreeSet<String>> {
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

pub(crate) fn entries(folder: &Path) -> Result<Vec<DirEntry>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    Ok(entries.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

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

    /// What the one keeps the other has to find.
    #[test]
    fn the_script_and_this_module_agree_about_the_key() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut script = Command::new("sh");
        let said = process::text(script.args(["xtask/dependencies.sh", "key"]).current_dir(root)).unwrap();
        assert_eq!(said.trim(), key(root).unwrap());
    }
}
