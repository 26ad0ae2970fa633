//! Folders of the cache that hold one image layer each, made once per content key.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use aws_lc_rs::digest;

/// Names what a cached thing was made of; equal keys mean equal content.
pub(super) struct Key(digest::Context);

impl Key {
    /// `recipe` is the source text of the code that decides on the content, so that changing the code remakes it.
    pub(super) fn new(recipe: &[&str]) -> Self {
        recipe.iter().fold(Self(digest::Context::new(&digest::SHA256)), |key, text| key.with(text))
    }

    /// Lengths are hashed too: no two lists of parts give the same key.
    pub(super) fn with(mut self, part: impl AsRef<[u8]>) -> Self {
        self.0.update(&(part.as_ref().len() as u64).to_be_bytes());
        self.0.update(part.as_ref());
        self
    }

    /// The content of a file of any size.
    pub(super) fn with_file(self, path: &Path) -> Result<Self> {
        Ok(self.with(file_hash(path)?))
    }

    pub(super) fn finish(self) -> String {
        hex::encode(self.0.finish())
    }
}

/// SHA-256 of a file, in hex.
pub(super) fn file_hash(path: &Path) -> Result<String> {
    let mut hash = Hash(digest::Context::new(&digest::SHA256));
    let mut file = fs::File::open(path).with_context(|| format!("open {}", path.display()))?;
    io::copy(&mut file, &mut hash).with_context(|| format!("read {}", path.display()))?;
    Ok(hex::encode(hash.0.finish()))
}

struct Hash(digest::Context);

impl io::Write for Hash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Removes what interrupted builds left in `folder`: all temporary names begin with a dot. Only for who holds the
/// lock, which is the one such name that stays.
pub(super) fn sweep(folder: &Path, lock: &str) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with('.') || name == lock {
            continue;
        }
        let path = entry.path();
        let removed =
            if entry.file_type()?.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("remove {}", path.display()))?;
    }
    Ok(())
}

/// The folder `NAME-<key>` under `trees`, made by `make` unless it is there. It appears under its name only when it
/// is complete, and replaces those of other keys.
pub(super) fn cached(
    trees: &Path,
    name: &str,
    key: Key,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let key = key.finish();
    let path = trees.join(format!("{name}-{}", &key[..16]));
    if path.is_dir() {
        return Ok(path);
    }
    fs::create_dir_all(trees).with_context(|| format!("create {}", trees.display()))?;
    let staging = tempfile::Builder::new().prefix(".staging-").tempdir_in(trees)?;
    make(staging.path()).with_context(|| format!("make the {name} layer"))?;
    for entry in fs::read_dir(trees)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().strip_prefix(name).is_some_and(|rest| rest.starts_with('-')) {
            fs::remove_dir_all(entry.path()).with_context(|| format!("remove {}", entry.path().display()))?;
        }
    }
    fs::rename(staging.keep(), &path).with_context(|| format!("name {}", path.display()))?;
    Ok(path)
}

/// Makes the folders above `path` in `root` and returns the full path. No part above it may be a link: what one
/// package links to must not decide where another package's file is written.
pub(super) fn place(root: &Path, path: &str) -> Result<PathBuf> {
    let full = root.join(path);
    let mut folder = root.to_owned();
    let parents = path.rsplit_once('/').map_or("", |(parents, _)| parents);
    for part in parents.split('/').filter(|part| !part.is_empty()) {
        folder.push(part);
        match fs::symlink_metadata(&folder) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => bail!("{path}: {} is not a folder", folder.display()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir(&folder).with_context(|| format!("create {}", folder.display()))?;
            }
            Err(error) => return Err(error).with_context(|| format!("look at {}", folder.display())),
        }
    }
    Ok(full)
}

/// A symbolic link at `path` in `root`.
pub(super) fn link(root: &Path, path: &str, target: impl AsRef<Path>) -> Result<()> {
    symlink(target, place(root, path)?).with_context(|| format!("link {path}"))
}

pub(super) fn write(root: &Path, path: &str, bytes: impl AsRef<[u8]>) -> Result<()> {
    fs::write(place(root, path)?, bytes).with_context(|| format!("write {path}"))
}

/// All files below `folder`, links not followed, sorted.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                pending.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Bytes in all files below `folder`.
pub(super) fn size(folder: &Path) -> Result<u64> {
    files(folder)?.iter().map(|file| Ok(fs::symlink_metadata(file)?.len())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_separate_their_parts() {
        let key = |parts: &[&str]| parts.iter().fold(Key::new(&[]), |key, part| key.with(part)).finish();
        assert_eq!(key(&["ab", "c"]), key(&["ab", "c"]));
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
    }

    #[test]
    fn a_tree_is_made_once_per_key_and_never_seen_half_done() {
        let trees = tempfile::tempdir().unwrap();
        let make = |key: &str, text: &'static str| {
            cached(trees.path(), "os", Key::new(&[key]), |root| write(root, "a/b", text))
        };
        let first = make("1", "one").unwrap();
        assert_eq!(make("1", "ignored").unwrap(), first);
        assert_eq!(fs::read_to_string(first.join("a/b")).unwrap(), "one");

        cached(trees.path(), "os", Key::new(&["2"]), |_| bail!("no")).unwrap_err();
        assert_eq!(fs::read_dir(trees.path()).unwrap().count(), 1);

        let second = make("2", "two").unwrap();
        assert!(second.is_dir() && !first.exists());
    }

    #[test]
    fn only_leftovers_are_swept() {
        let folder = tempfile::tempdir().unwrap();
        for path in [".lock", ".layer-1", ".staging-1/a", "sealane-demo.json"] {
            write(folder.path(), path, "").unwrap();
        }
        sweep(folder.path(), ".lock").unwrap();
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".lock", "sealane-demo.json"]);
    }

    #[test]
    fn a_link_never_decides_where_a_file_goes() {
        let root = tempfile::tempdir().unwrap();
        link(root.path(), "etc", "/tmp").unwrap();
        assert!(write(root.path(), "etc/passwd", "x").is_err());
    }
}
