//! Cgroups of the cluster: one per node and one for the control plane, under one group of this cluster.
//!
//! The group is also the record of what belongs to the cluster: taking it down ends every process found in it.
//! Version 1 (one hierarchy per controller) and version 2 (one for all) differ in everything but the idea. Layout
//! and generated text are pure functions of `/proc/self/mountinfo`; only `create`, `members` and `remove` touch the
//! machine.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use super::place::{NODES, Place};

/// The control plane's subgroup, beside those named like the nodes.
const CONTROL: &str = "control";
const ROOT: &str = "/sys/fs/cgroup";

/// Version 1 controllers that the nodes get. `hugetlb` is left out: runc then needs limits for page sizes that
/// differ from machine to machine.
const CONTROLLERS_V1: [&str; 12] = [
    "blkio",
    "cpu",
    "cpuacct",
    "cpuset",
    "devices",
    "freezer",
    "memory",
    "net_cls",
    "net_prio",
    "perf_event",
    "pids",
    "rdma",
];
const CONTROLLERS_V2: [&str; 5] = ["cpu", "cpuset", "io", "memory", "pids"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    V1(Vec<Hierarchy>),
    V2 { root: PathBuf },
}

/// A version 1 hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    pub(super) path: PathBuf,
    /// Mount options that name it: `cpu,cpuacct` or `none,name=systemd`.
    pub(super) options: String,
}

impl Layout {
    pub(super) fn of_this_machine() -> Result<Self> {
        Self::parse(&fs::read_to_string("/proc/self/mountinfo")?)
    }

    /// A machine with both versions mounted keeps its controllers in version 1.
    pub(super) fn parse(mountinfo: &str) -> Result<Self> {
        let mut hierarchies = Vec::new();
        let mut unified = None;
        for line in mountinfo.lines() {
            // proc_pid_mountinfo(5): … root mount-point options [optional…] - type source super-options
            let Some((mount, super_block)) = line.split_once(" - ") else { continue };
            let Some(path) = mount.split(' ').nth(4).filter(|path| path.starts_with(ROOT)) else { continue };
            let mut fields = super_block.split(' ');
            match (fields.next(), fields.nth(1)) {
                (Some("cgroup"), Some(options)) => hierarchies.extend(hierarchy(path, options)),
                (Some("cgroup2"), _) => unified = Some(PathBuf::from(path)),
                _ => {}
            }
        }
        if hierarchies.iter().any(|h| h.options == "memory") {
            return Ok(Self::V1(hierarchies));
        }
        match unified {
            Some(root) if root == Path::new(ROOT) => Ok(Self::V2 { root }),
            _ => bail!("no usable cgroups under {ROOT}: the local cluster needs the memory controller"),
        }
    }

    pub(super) fn version(&self) -> u8 {
        match self {
            Self::V1(_) => 1,
            Self::V2 { .. } => 2,
        }
    }

    /// The cluster's folder in each hierarchy.
    pub(super) fn folders(&self, group: &str) -> Vec<PathBuf> {
        match self {
            Self::V1(hierarchies) => hierarchies.iter().map(|h| h.path.join(group)).collect(),
            Self::V2 { root } => vec![root.join(group)],
        }
    }

    /// The files a process writes itself to in order to join `group`/`name`, one per line.
    fn join_list(&self, group: &str, name: &str) -> String {
        let files = self.folders(group).into_iter().map(|folder| folder.join(name).join("cgroup.procs"));
        files.map(|file| format!("{}\n", file.display())).collect()
    }

    /// Shell commands that give a node its own view of the cgroups; it already is in its cgroup namespace.
    fn mount_script(&self) -> String {
        match self {
            Self::V1(hierarchies) => {
                let mut script = format!("mount -t tmpfs -o mode=755 tmpfs {ROOT}\n");
                for Hierarchy { path, options } in hierarchies {
                    let path = path.display();
                    script += &format!("mkdir -p {path}\nmount -t cgroup -o {options} cgroup {path}\n");
                    // containerd looks for each controller under its own name.
                    if options.contains(',') && !options.starts_with("none") {
                        for name in options.split(',') {
                            script += &format!("[ -e {ROOT}/{name} ] || ln -s {path} {ROOT}/{name}\n");
                        }
                    }
                }
                script
            }
            // A version 2 group with processes of its own cannot hand controllers to subgroups, so the node's
            // processes move down first. Newly started ones follow their parent.
            Self::V2 { .. } => format!(
                "mount -t cgroup2 cgroup2 {ROOT}\n\
                 mkdir {ROOT}/init\n\
                 echo 0 > {ROOT}/init/cgroup.procs\n\
                 while read -r process; do echo \"$process\" > {ROOT}/init/cgroup.procs || true; done \
                 < {ROOT}/cgroup.procs\n\
                 for controller in $(cat {ROOT}/cgroup.controllers); do \
                 echo \"+$controller\" > {ROOT}/cgroup.subtree_control || true; done\n"
            ),
        }
    }

    /// Makes all groups, and writes the files that the init scripts read.
    pub(super) fn create(&self, place: &Place) -> Result<()> {
        let group = place.group();
        let names = || NODES.iter().map(|node| node.name).chain([CONTROL]);
        for folder in self.folders(&group) {
            make(&folder)?;
            if let Self::V2 { root } = self {
                delegate(root)?;
                delegate(&folder)?;
            }
            for name in names() {
                make(&folder.join(name))?;
            }
        }
        for name in names() {
            fs::write(place.state.join("cgroup").join(name), self.join_list(&group, name))?;
        }
        fs::write(place.state.join("cgroup/mounts.sh"), self.mount_script())?;
        Ok(())
    }

    /// Every process in the cluster's groups, by the machine's numbers.
    pub(super) fn members(&self, group: &str) -> BTreeSet<i32> {
        let mut found = BTreeSet::new();
        for folder in self.folders(group) {
            for folder in tree(&folder) {
                let list = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
                // A process of a foreign pid namespace reads as 0.
                found.extend(list.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0));
            }
        }
        found
    }

    /// Removes the groups; the error is the first that could not be removed, normally because it is still in use.
    pub(super) fn remove(&self, group: &str) -> io::Result<()> {
        for folder in self.folders(group) {
            for folder in tree(&folder).iter().rev() {
                match fs::remove_dir(folder) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

fn hierarchy(path: &str, options: &str) -> Option<Hierarchy> {
    let named = options.split(',').find(|option| *option == "name=systemd");
    let options = match named {
        Some(name) => format!("none,{name}"),
        None => {
            let known: Vec<_> = options.split(',').filter(|option| CONTROLLERS_V1.contains(option)).collect();
            known.join(",")
        }
    };
    (!options.is_empty()).then(|| Hierarchy { path: path.into(), options })
}

/// A new version 1 cpuset is empty, and no process can join it until it has processors and memory.
fn make(folder: &Path) -> Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        result => result.with_context(|| format!("create cgroup {}", folder.display()))?,
    }
    let Some(parent) = folder.parent() else { return Ok(()) };
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let own = folder.join(file);
        if fs::read_to_string(&own).is_ok_and(|value| value.trim().is_empty()) {
            let value = fs::read_to_string(parent.join(file)).unwrap_or_default();
            if !value.trim().is_empty() {
                fs::write(&own, value).with_context(|| format!("write {}", own.display()))?;
            }
        }
    }
    Ok(())
}

/// Lets the subgroups of a version 2 group use its controllers.
fn delegate(folder: &Path) -> Result<()> {
    let offered = fs::read_to_string(folder.join("cgroup.controllers"))?;
    let control = folder.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&control)?;
    for controller in offered.split_whitespace().filter(|c| CONTROLLERS_V2.contains(c)) {
        if !enabled.split_whitespace().any(|name| name == controller) {
            fs::write(&control, format!("+{controller}")).with_context(|| {
                format!(
                    "{} does not pass on the {controller} controller; inside a container, start that container \
                     with its own cgroup namespace and without processes in its top group",
                    folder.display()
                )
            })?;
        }
    }
    Ok(())
}

/// A folder and all below it, parents first.
fn tree(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        let entries = entries.filter_map(io::Result::ok);
        pending.extend(entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
        found.push(folder);
    }
    found
}
