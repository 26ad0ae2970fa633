//! Finding and ending what belongs to a cluster. Nothing here trusts a pid file: processes are found by the cgroup
//! and the mounts they are in, which no unrelated process shares.

use std::{
    collections::BTreeSet,
    fs,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::{cgroup::Layout, place::Place};

const END_WITHIN: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);

/// Ends every process of the group, then removes the group.
pub(super) fn end_all(layout: &Layout, group: &str) -> Result<()> {
    let started = Instant::now();
    loop {
        let members = layout.members(group);
        for pid in members.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            // It may have ended since it was listed.
            let _ = kill_process(pid, Signal::KILL);
        }
        match layout.remove(group) {
            Ok(()) => return Ok(()),
            Err(error) if started.elapsed() > END_WITHIN => {
                bail!("processes of the cluster do not end: {members:?} ({error})")
            }
            Err(_) => sleep(PAUSE),
        }
    }
}

/// Waits until no keeper of this cluster is left, ending it if it does not end by itself.
pub(super) fn end_keepers(place: &Place) -> Result<()> {
    let started = Instant::now();
    loop {
        let keepers = keepers(place);
        if keepers.is_empty() {
            return Ok(());
        }
        // A keeper normally ends with its cluster, within milliseconds.
        if started.elapsed() > END_WITHIN / 4 {
            for pid in keepers.iter().filter_map(|pid| Pid::from_raw(*pid)) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        if started.elapsed() > END_WITHIN {
            bail!("the cluster's keeper does not end: {keepers:?}");
        }
        sleep(PAUSE);
    }
}

/// Everything that a cluster which was taken down should not have left behind, in words.
pub(super) fn leftovers(place: &Place, layout: &Layout) -> Vec<String> {
    let group = place.group();
    let state = place.state.display().to_string();
    let mut found: Vec<_> = keepers(place).iter().map(|pid| format!("keeper process {pid}")).collect();
    found.extend(
        layout.folders(&group).iter().filter(|f| f.exists()).map(|f| format!("cgroup {}", f.display())),
    );
    for pid in all() {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        if read("cgroup").lines().any(|line| line.split('/').any(|part| part == group)) {
            found.push(format!("process {pid} in cgroup {group}"));
        }
        // Also true of every process in a mount namespace that the cluster made.
        if read("mountinfo").lines().any(|line| mentions(line, &state)) {
            found.push(format!("process {pid} sees a mount of {state}"));
        }
    }
    if place.state.exists() {
        found.push(format!("folder {state}"));
    }
    found
}

/// Whether a line of mountinfo has the folder, or something in it, as mount point or as the root of a bind mount.
fn mentions(line: &str, folder: &str) -> bool {
    let paths = line.split(' ').skip(3).take(2);
    paths
        .into_iter()
        .any(|path| path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

fn keepers(place: &Place) -> BTreeSet<i32> {
    let state = place.state.as_os_str().as_encoded_bytes();
    let is_keeper = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).skip(1).collect();
        matches!(words.as_slice(), [b"cluster", b"keep", folder, ..] if *folder == state)
    };
    all().filter(is_keeper).collect()
}

fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_a_folder_are_told_from_those_beside_it() {
        let bind = "61 40 254:0 /cache/cluster/node1/lib /var/lib rw - ext4 /dev/vda rw";
        let mount = "62 40 0:50 / /cache/cluster/etcd rw - tmpfs etcd rw";
        assert!(mentions(bind, "/cache/cluster") && mentions(mount, "/cache/cluster"));
        assert!(!mentions(bind, "/cache/clus") && !mentions(mount, "/cache/cluster/etc"));
    }

    #[test]
    fn nothing_is_left_of_a_cluster_that_never_was() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place { cache: folder.path().to_owned(), state: folder.path().join("state") };
        let layout = Layout::V2 { root: folder.path().join("cgroup") };
        assert_eq!(leftovers(&place, &layout), Vec::<String>::new());
        end_all(&layout, &place.group()).unwrap();
        end_keepers(&place).unwrap();

        fs::create_dir_all(&place.state).unwrap();
        assert_eq!(leftovers(&place, &layout).len(), 1);
    }
}
