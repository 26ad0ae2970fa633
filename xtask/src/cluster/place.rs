//! Where the cluster keeps things, and what it is called.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use aws_lc_rs::digest;

/// Name, pool label and address share one order: the first node is number 1.
pub(super) const NODES: [Node; 2] = [Node { name: "node1", pool: "a" }, Node { name: "node2", pool: "b" }];

/// Only a folder that holds this file is ever deleted.
const MARKER: &str = "sealane-cluster";

/// Each node mounts its own folders over these, which would hide what the cluster needs from it.
const HIDDEN: [&str; 3] = ["/run", "/var/lib", "/var/log"];

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) name: &'static str,
    pub(super) pool: &'static str,
}

/// The folders of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Programs and downloads; kept when the cluster goes.
    pub(super) cache: PathBuf,
    /// Everything of the running cluster; gone with it.
    pub(super) state: PathBuf,
}

impl Place {
    /// `SEALANE_CACHE` (default `~/.cache/sealane`) and `SEALANE_STATE` (default `cluster` in the cache).
    pub(super) fn from_env() -> Result<Self> {
        let cache = match env::var_os("SEALANE_CACHE") {
            Some(folder) => PathBuf::from(folder),
            None => {
                let home = env::var_os("HOME").filter(|home| !home.is_empty());
                PathBuf::from(home.context("neither SEALANE_CACHE nor HOME is set")?).join(".cache/sealane")
            }
        };
        let state = env::var_os("SEALANE_STATE").map_or_else(|| cache.join("cluster"), PathBuf::from);
        Self::new(cache, state)
    }

    pub(super) fn new(cache: PathBuf, state: PathBuf) -> Result<Self> {
        for folder in [&cache, &state] {
            let text = folder.to_str().with_context(|| format!("{} is not valid UTF-8", folder.display()))?;
            ensure!(
                folder.is_absolute(),
                "{text} is not an absolute path: correct SEALANE_CACHE or SEALANE_STATE"
            );
            // These paths enter shell scripts, PATH and configuration files.
            let plain = |c: char| c.is_alphanumeric() || "/._-+@".contains(c);
            ensure!(
                text.chars().all(plain),
                "{text} has unusual characters: choose other SEALANE_CACHE, SEALANE_STATE"
            );
            if let Some(hidden) = HIDDEN.iter().find(|hidden| folder.starts_with(hidden)) {
                bail!(
                    "{text} lies under {hidden}, which the nodes cannot see: choose other SEALANE_CACHE, SEALANE_STATE"
                );
            }
        }
        Ok(Self { cache, state })
    }

    pub(super) fn tools(&self) -> PathBuf {
        self.cache.join("tools")
    }

    /// The cgroup that all processes of this cluster are in. Derived from the state folder, so that clusters of
    /// different folders never meet.
    pub(super) fn group(&self) -> String {
        let hash = digest::digest(&digest::SHA256, self.state.as_os_str().as_encoded_bytes());
        format!("sealane-{}", hex::encode(&hash.as_ref()[..4]))
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.state.join("kubeconfig")
    }

    /// One command at a time works on the cluster. The lock lies beside the state folder, which comes and goes
    /// under it.
    pub(super) fn lock(&self) -> Result<File> {
        fs::create_dir_all(&self.cache).with_context(|| format!("create {}", self.cache.display()))?;
        let path = self.cache.join(format!("{}.lock", self.group()));
        let lock = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        lock.lock().with_context(|| format!("lock {}", path.display()))?;
        Ok(lock)
    }

    /// Links to everything that runs inside the cluster.
    pub(super) fn programs(&self) -> PathBuf {
        self.state.join("programs")
    }

    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.state.join("log").join(format!("{name}.log"))
    }

    /// Makes the state folder. An existing folder must be empty: it may hold anything else.
    pub(super) fn create_state(&self) -> Result<()> {
        let state = &self.state;
        fs::create_dir_all(state).with_context(|| format!("create {}", state.display()))?;
        let empty =
            fs::read_dir(state).with_context(|| format!("read {}", state.display()))?.next().is_none();
        ensure!(empty, "{} is not empty: choose another SEALANE_STATE", state.display());
        fs::write(state.join(MARKER), "made by `make cluster`, removed by `make cluster-down`\n")?;
        for folder in ["log", "pki", "cgroup"] {
            fs::create_dir(state.join(folder))?;
        }
        fs::set_permissions(state.join("pki"), std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        Ok(())
    }

    pub(super) fn has_state(&self) -> bool {
        self.state.join(MARKER).exists()
    }

    /// Deletes the state folder if it is one of ours.
    pub(super) fn remove_state(&self) -> Result<()> {
        if self.has_state() {
            remove_tree(&self.state)?;
        }
        Ok(())
    }

    /// The machine's number of a cluster process that wrote `NAME.pid`.
    pub(super) fn pid(&self, name: &str) -> Result<i32> {
        let path = self.state.join(format!("{name}.pid"));
        let text = fs::read_to_string(&path)
            .with_context(|| format!("the cluster is not running: {}", path.display()))?;
        text.trim().parse().with_context(|| format!("content of {}", path.display()))
    }
}

/// The marker goes last, so that an interrupted removal can be repeated.
fn remove_tree(state: &Path) -> Result<()> {
    let failed = || format!("delete {}", state.display());
    for entry in fs::read_dir(state).with_context(failed)? {
        let entry = entry?;
        if entry.file_name() == MARKER {
            continue;
        }
        let path = entry.path();
        let removed =
            if entry.file_type()?.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("delete {}", path.display()))?;
    }
    fs::remove_dir_all(state).with_context(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(state: &Path) -> Place {
        Place { cache: "/cache".into(), state: state.to_owned() }
    }

    #[test]
    fn folders_that_nodes_cannot_see_or_scripts_cannot_name_are_refused() {
        for bad in ["relative", "/var/lib/jenkins", "/run/user/1000", "/home/a b", "/home/$x", "/home/a:b"] {
            assert!(Place::new("/cache".into(), bad.into()).is_err(), "{bad}");
        }
        assert!(Place::new("/home/zoë/.cache".into(), "/srv/run".into()).is_ok());
    }

    #[test]
    fn each_state_folder_has_a_group_of_its_own() {
        assert_eq!(place(Path::new("/a")).group(), place(Path::new("/a")).group());
        assert_ne!(place(Path::new("/a")).group(), place(Path::new("/b")).group());
    }

    #[test]
    fn only_a_marked_folder_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let precious = folder.path().join("precious");
        fs::write(&precious, "x").unwrap();
        let foreign = place(folder.path());
        assert!(foreign.create_state().is_err());
        foreign.remove_state().unwrap();
        assert!(precious.exists());

        let own = place(&folder.path().join("own"));
        own.create_state().unwrap();
        fs::create_dir_all(own.state.join("node1/lib")).unwrap();
        own.remove_state().unwrap();
        assert!(!own.state.exists());
    }
}
