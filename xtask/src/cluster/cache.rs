//! Built things, each in a folder named by the hash of everything it was made from.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use aws_lc_rs::digest;

/// Asked for together before the first build of any kind: nobody should wait ten minutes for the name of the next
/// missing program.
pub(super) const BUILDERS: [&str; 4] = ["apt-get", "dpkg", "gcc", "go"];

const UNFINISHED: &str = ".unfinished-";

/// Holds a lock: two commands at once build one after the other, and the second finds what the first made.
#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    _lock: File,
}

impl Cache {
    pub(super) fn open(folder: PathBuf) -> Result<Self> {
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        let path = folder.join(".lock");
        let lock = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        lock.lock().with_context(|| format!("lock {}", path.display()))?;
        let cache = Self { folder, _lock: lock };
        cache.remove_unfinished()?;
        Ok(cache)
    }

    /// The folder made from `inputs`. If it is not there, `build` fills an empty one, which takes its name only when
    /// it is complete: an interrupted build leaves nothing that looks finished.
    pub(super) fn get(
        &self,
        name: &str,
        inputs: &[&[u8]],
        build: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let finished = self.folder.join(format!("{name}-{}", key(inputs)));
        if finished.is_dir() {
            return Ok(finished);
        }
        let unfinished = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(&self.folder)?;
        fs::set_permissions(unfinished.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        build(unfinished.path())?;
        fs::rename(unfinished.path(), &finished).with_context(|| format!("name {}", finished.display()))?;
        Ok(finished)
    }

    /// The lock is held, so whatever is unfinished was given up.
    fn remove_unfinished(&self) -> Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                fs::remove_dir_all(entry.path())
                    .with_context(|| format!("delete {}", entry.path().display()))?;
            }
        }
        Ok(())
    }
}

/// Lengths keep `["ab", "c"]` and `["a", "bc"]` apart; the architecture keeps machines apart that share a home.
pub(super) fn key(inputs: &[&[u8]]) -> String {
    let mut hash = digest::Context::new(&digest::SHA256);
    hash.update(std::env::consts::ARCH.as_bytes());
    for input in inputs {
        hash.update(&(input.len() as u64).to_le_bytes());
        hash.update(input);
    }
    hex::encode(&hash.finish().as_ref()[..8])
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn keys_depend_on_every_input_and_its_limits() {
        assert_eq!(key(&[b"a", b"b"]), key(&[b"a", b"b"]));
        assert_ne!(key(&[b"ab", b"c"]), key(&[b"a", b"bc"]));
        assert_ne!(key(&[b"a", b""]), key(&[b"a"]));
    }

    #[test]
    fn a_failed_build_leaves_nothing_and_a_finished_one_is_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path().to_owned()).unwrap();
        cache
            .get("tool", &[b"1"], |path| {
                fs::write(path.join("half"), "")?;
                bail!("no")
            })
            .unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only the lock");

        let built = cache.get("tool", &[b"1"], |path| Ok(fs::write(path.join("whole"), "")?)).unwrap();
        assert!(built.join("whole").exists());
        assert_eq!(cache.get("tool", &[b"1"], |_| bail!("built twice")).unwrap(), built);
        assert_ne!(cache.get("tool", &[b"2"], |_| Ok(())).unwrap(), built);
    }

    #[test]
    fn what_a_killed_build_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(format!("{UNFINISHED}x"));
        fs::create_dir(&left).unwrap();
        drop(Cache::open(folder.path().to_owned()).unwrap());
        assert!(!left.exists());
    }
}
