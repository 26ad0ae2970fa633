//! Room on the disk for a run. The compiler's incremental caches grow with every change and nobody prunes them; on a full disk
//! the kubelets of the local cluster evict pods and delete images, and tests fail for reasons that they cannot name.

use std::{fs, io::ErrorKind, path::Path};

use anyhow::{Context, Result, ensure};

use crate::progress::print;

/// From this on caches go: a build from nothing takes 12 GiB.
const CACHES_GIB_MIN: u64 = 16;
/// From this on there is no run: what tests write takes 3 GiB, and kubelets evict below 1% (`cluster/config.rs`).
const RUN_GIB_MIN: u64 = 6;
const GIB: u64 = 1 << 30;

/// Deletes the incremental caches of `root` if the disk has little room.
///
/// # Errors
/// There is too little room for a run without them, too.
pub(super) fn make_room(root: &Path) -> Result<()> {
    make_room_for(root, CACHES_GIB_MIN, RUN_GIB_MIN)
}

fn make_room_for(root: &Path, caches: u64, run: u64) -> Result<()> {
    if free_gib(root)? >= caches {
        return Ok(());
    }
    let incremental = root.join("target/debug/incremental");
    print(&format!("little room on the disk: deleting {}", incremental.display()));
    match fs::remove_dir_all(&incremental) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("deleting {}", incremental.display()))?;
        }
        _ => {}
    }
    let left = free_gib(root)?;
    ensure!(
        left >= run,
        "the disk of {} has {left} GiB left, and a run needs {run}: `cargo clean` deletes what is built, and target/removals what `cargo xtask removals` copied",
        root.display()
    );
    Ok(())
}

fn free_gib(root: &Path) -> Result<u64> {
    let disk = rustix::fs::statvfs(root).with_context(|| format!("the disk of {}", root.display()))?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize) / GIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_go_only_where_room_is_missing() {
        let root = tempfile::tempdir().unwrap();
        let cache = root.path().join("target/debug/incremental/crate");
        fs::create_dir_all(&cache).unwrap();
        make_room_for(root.path(), 0, 0).unwrap();
        assert!(cache.exists());
        for _ in 0..2 {
            let error = make_room_for(root.path(), u64::MAX, u64::MAX).unwrap_err().to_string();
            assert!(error.contains("cargo clean"), "{error}");
            assert!(!cache.exists() && root.path().join("target/debug").exists());
        }
    }
}
