//! A socket per pod, in a directory that the kubelet shows to the pod as a CSI volume.
//!
//! The directory is made where the kubelet wants the volume, and nothing is mounted on it: mounting would need a
//! privileged agent. The kubelet binds the directory into containers, read-only, as it does with any volume. A socket
//! belongs to the pod whose uid is in its path; who connects is found out per connection.

use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, Mode, OFlags};
use serde::Deserialize;

use crate::volume;

pub(super) const DRIVER: &str = "csi.sealane.dev";
pub(super) const SOCKET: &str = "agent.sock";
/// Every user may connect; which process it is decides.
const SOCKET_MODE: u32 = 0o666;
const DIRECTORY_MODE: u32 = 0o755;
/// A kubelet runs a few hundred pods at most, and each has one volume.
const VOLUMES_MAX: usize = 4096;
/// What the kubelet notes beside a volume.
const NOTES_BYTES_MAX: u64 = 64 * 1024;

/// A volume cannot be made or taken away.
#[derive(Debug, thiserror::Error)]
pub(super) enum VolumeError {
    #[error("the target path is not that of a CSI volume of a pod")]
    Path,
    #[error("the target path belongs to another pod than the one that the kubelet names")]
    OtherPod,
    #[error(
        "the volume has to be read-only (csi.readOnly: true), or a container could put its own socket there"
    )]
    Writable,
    #[error("the pod has a volume of this driver already: one is all that its sidecar needs")]
    Second,
    #[error("more volumes than a node has pods")]
    TooMany,
    #[error("the volume's directory or socket cannot be made")]
    Io(#[from] io::Error),
}

/// A place where the kubelet wants a volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Target {
    path: PathBuf,
    pod_uid: String,
}

impl Target {
    /// `path` in the folder `pods` of the kubelet: `UID/volumes/kubernetes.io~csi/NAME/mount`, and nothing else.
    pub(super) fn new(pods: &Path, path: &Path) -> Result<Self, VolumeError> {
        let below = path.strip_prefix(pods).map_err(|_| VolumeError::Path)?;
        let names: Option<Vec<&str>> = below
            .components()
            .map(|part| match part {
                Component::Normal(name) => name.to_str(),
                _ => None,
            })
            .collect();
        match names.as_deref() {
            Some([uid, "volumes", "kubernetes.io~csi", _, "mount"]) => {
                Ok(Self { path: path.to_owned(), pod_uid: (*uid).to_owned() })
            }
            _ => Err(VolumeError::Path),
        }
    }

    pub(super) fn pod_uid(&self) -> &str {
        &self.pod_uid
    }

    /// Makes the directory and listens in it, in the place of a socket that an earlier agent left.
    fn listen(&self) -> io::Result<UnixListener> {
        match DirBuilder::new().mode(DIRECTORY_MODE).create(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let directory = self.open()?;
        match rustix::fs::unlinkat(&directory, SOCKET, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        // By way of the descriptor: the path alone is longer than an address of a socket may be (unix(7)).
        let socket = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()));
        let listener = UnixListener::bind(&socket)?;
        fs::set_permissions(&socket, fs::Permissions::from_mode(SOCKET_MODE))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    fn open(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::open(&self.path, flags, Mode::empty())?)
    }

    fn remove(&self) -> io::Result<()> {
        let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        for removed in [fs::remove_file(self.path.join(SOCKET)), fs::remove_dir(&self.path)] {
            match removed {
                Err(error) if !gone(&error) => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// The sockets of this node's pods. `S` is what serves one; it stops when it is dropped.
#[derive(Debug)]
pub(super) struct Volumes<S> {
    pods: PathBuf,
    stop: fn(&mut S),
    serving: Mutex<HashMap<Target, S>>,
}

impl<S> Volumes<S> {
    /// Volumes below the kubelet's folder `pods`; `stop` is told of each that goes away.
    pub(super) fn new(pods: PathBuf, stop: fn(&mut S)) -> Self {
        Self { pods, stop, serving: Mutex::default() }
    }

    /// Makes the volume that the kubelet wants at `path` for the pod with `uid`. What is there already is made anew.
    ///
    /// # Errors
    /// [`VolumeError`] when the request does not fit together, or the file system refuses.
    pub(super) fn publish(
        &self,
        path: &Path,
        uid: &str,
        read_only: bool,
        serve: impl FnOnce(&Target, UnixListener) -> io::Result<S>,
    ) -> Result<(), VolumeError> {
        let target = Target::new(&self.pods, path)?;
        if target.pod_uid != uid {
            return Err(VolumeError::OtherPod);
        }
        if !read_only {
            return Err(VolumeError::Writable);
        }
        self.begin(target, serve)
    }

    fn begin(
        &self,
        target: Target,
        serve: impl FnOnce(&Target, UnixListener) -> io::Result<S>,
    ) -> Result<(), VolumeError> {
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        // What a pod may ask is counted by its volume: more volumes would be more of the node than is its share.
        if serving.keys().any(|known| known.pod_uid == target.pod_uid && *known != target) {
            return Err(VolumeError::Second);
        }
        if serving.len() >= VOLUMES_MAX && !serving.contains_key(&target) {
            return Err(VolumeError::TooMany);
        }
        if let Some(mut before) = serving.remove(&target) {
            (self.stop)(&mut before);
        }
        let socket = serve(&target, target.listen()?)?;
        serving.insert(target, socket);
        Ok(())
    }

    /// Takes the volume at `path` away; one that is gone is fine.
    ///
    /// # Errors
    /// As [`Self::publish`].
    pub(super) fn unpublish(&self, path: &Path) -> Result<(), VolumeError> {
        let target = Target::new(&self.pods, path)?;
        let before = self.serving.lock().unwrap_or_else(PoisonError::into_inner).remove(&target);
        if let Some(mut before) = before {
            (self.stop)(&mut before);
        }
        Ok(target.remove()?)
    }

    /// Listens again in the volumes that an earlier agent made, whose pods still run.
    pub(super) fn restore(&self, serve: impl Fn(&Target, UnixListener) -> io::Result<S>) -> usize {
        let mut restored = 0;
        for path in self.left_behind().into_iter().take(VOLUMES_MAX) {
            let begun = Target::new(&self.pods, &path).and_then(|target| self.begin(target, &serve));
            match begun {
                Ok(()) => restored += 1,
                Err(error) => tracing::warn!(path = %path.display(), "a volume is not served again: {error}"),
            }
        }
        restored
    }

    /// Where the kubelet noted that a volume is ours.
    fn left_behind(&self) -> Vec<PathBuf> {
        let entries =
            |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        entries(self.pods.clone())
            .flat_map(|pod| entries(pod.join("volumes").join("kubernetes.io~csi")))
            .filter(|folder| is_ours(folder))
            .map(|folder| folder.join("mount"))
            .filter(|mount| mount.is_dir())
            .collect()
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notes {
    driver_name: String,
}

fn is_ours(folder: &Path) -> bool {
    let notes = volume::read(&folder.join("vol_data.json"), NOTES_BYTES_MAX);
    let notes = notes.ok().and_then(|bytes| serde_json::from_slice::<Notes>(&bytes).ok());
    notes.is_some_and(|notes| notes.driver_name == DRIVER)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    const UID: &str = "6f1c8c0e-9d5e-4a51-8d6f-2f4f6e0c8a11";

    struct Node {
        folder: tempfile::TempDir,
        volumes: Volumes<UnixListener>,
    }

    impl Node {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let volumes = Volumes::new(folder.path().to_owned(), |_| {});
            Self { folder, volumes }
        }

        /// What the kubelet has made when it asks for the volume.
        fn volume(&self, uid: &str, driver: &str) -> PathBuf {
            self.named(uid, driver, "sealane-agent")
        }

        fn named(&self, uid: &str, driver: &str, name: &str) -> PathBuf {
            // As long as under /var/lib/kubelet/pods, and longer than an address of a socket.
            let name = format!("{name}-{}", "x".repeat(64));
            let folder = self.folder.path().join(uid).join("volumes/kubernetes.io~csi").join(name);
            fs::create_dir_all(&folder).unwrap();
            let notes = serde_json::json!({"driverName": driver, "specVolID": "sealane-agent"});
            fs::write(folder.join("vol_data.json"), notes.to_string()).unwrap();
            folder.join("mount")
        }

        fn publish(&self, path: &Path, uid: &str, read_only: bool) -> Result<(), VolumeError> {
            self.volumes.publish(path, uid, read_only, |target, listener| {
                assert_eq!(target.pod_uid(), uid);
                Ok(listener)
            })
        }
    }

    fn connects(mount: &Path) -> bool {
        let directory = fs::File::open(mount).unwrap();
        UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd())).is_ok()
    }

    #[test]
    fn a_volume_is_a_directory_with_a_socket_and_goes_away_whole() {
        let node = Node::new();
        let path = node.volume(UID, DRIVER);
        node.publish(&path, UID, true).unwrap();
        assert!(connects(&path));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join(SOCKET))), (0o755, 0o666));
        node.publish(&path, UID, true).unwrap();
        assert!(connects(&path), "the kubelet may ask twice");
        node.volumes.unpublish(&path).unwrap();
        assert!(!path.exists());
        node.volumes.unpublish(&path).unwrap();
    }

    #[test]
    fn a_volume_is_its_pods_and_read_only() {
        let node = Node::new();
        let path = node.volume(UID, DRIVER);
        let other = "00000000-9d5e-4a51-8d6f-2f4f6e0c8a11";
        assert!(matches!(node.publish(&path, other, true), Err(VolumeError::OtherPod)));
        assert!(matches!(node.publish(&path, UID, false), Err(VolumeError::Writable)));
        assert!(!path.exists());
    }

    #[test]
    fn a_pod_has_one_volume() {
        let node = Node::new();
        let [first, second] = ["first", "second"].map(|name| node.named(UID, DRIVER, name));
        node.publish(&first, UID, true).unwrap();
        assert!(matches!(node.publish(&second, UID, true), Err(VolumeError::Second)));
        assert!(connects(&first) && !second.exists());
        let other = "00000000-9d5e-4a51-8d6f-2f4f6e0c8a11";
        node.publish(&node.volume(other, DRIVER), other, true).unwrap();
        node.volumes.unpublish(&first).unwrap();
        node.publish(&second, UID, true).unwrap();
    }

    #[test]
    fn only_volumes_of_pods_are_touched() {
        let node = Node::new();
        let pods = node.folder.path();
        for path in [
            pods.to_owned(),
            pods.join("../etc"),
            pods.join(UID).join("volumes/kubernetes.io~csi/x/mount/more"),
            pods.join(UID).join("volumes/kubernetes.io~csi/../../mount"),
            pods.join(UID).join("volumes/kubernetes.io~empty-dir/x/mount"),
            PathBuf::from("/etc/volumes/kubernetes.io~csi/x/mount"),
            PathBuf::from("relative"),
        ] {
            assert!(matches!(node.publish(&path, UID, true), Err(VolumeError::Path)), "{}", path.display());
            assert!(matches!(node.volumes.unpublish(&path), Err(VolumeError::Path)), "{}", path.display());
        }
    }

    #[test]
    fn a_link_in_the_place_of_the_volume_is_not_followed() {
        let node = Node::new();
        let path = node.volume(UID, DRIVER);
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), &path).unwrap();
        assert!(matches!(node.publish(&path, UID, true), Err(VolumeError::Io(_))));
        assert!(fs::read_dir(elsewhere.path()).unwrap().next().is_none());
    }

    #[test]
    fn a_new_agent_serves_the_volumes_of_the_one_before() {
        let node = Node::new();
        let path = node.volume(UID, DRIVER);
        node.publish(&path, UID, true).unwrap();
        let foreign = node.volume("1c8c", "csi.example.org");
        fs::create_dir(&foreign).unwrap();
        let pods = node.folder.path().to_owned();
        drop(node.volumes);
        assert!(path.join(SOCKET).exists() && !connects(&path), "nobody listens");
        let next = Volumes::new(pods, |_: &mut UnixListener| {});
        assert_eq!(next.restore(|_, listener| Ok(listener)), 1);
        assert!(connects(&path));
        assert!(!foreign.join(SOCKET).exists(), "another driver's volume");
    }
}
