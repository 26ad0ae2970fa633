//! What is left of a test that failed: a report. Its pods go, or the tests after it would have no room on the nodes.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use crate::Cluster;

/// Under the root of the tree.
const FOLDER: &str = "target/test/e2e";
/// Lines of each container's log.
const TAIL: &str = "--tail=400";
/// A node that is cut off does not give its logs.
const PATIENCE: &str = "--request-timeout=20s";

/// Writes objects, events and logs of a namespace to a file, whose path it returns.
pub(crate) fn write(cluster: &Cluster, namespace: &str) -> std::io::Result<PathBuf> {
    let kubectl = |words: &[&str]| cluster.kubectl_says(&[&["-n", namespace, PATIENCE][..], words].concat());
    let kinds = "pods,jobs,peers,transfersessions,trustpolicies,benchmarks";
    let mut text = String::new();
    let mut part = |words: &[&str]| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# kubectl {}\n{}", words.join(" "), kubectl(words));
    };
    part(&["get", kinds, "-o", "wide"]);
    part(&["get", "events", "--sort-by=.lastTimestamp"]);
    part(&["get", kinds, "-o", "yaml"]);
    for pod in kubectl(&["get", "pods", "-o", "name"]).lines().filter(|line| line.starts_with("pod/")) {
        part(&["logs", pod, "--all-containers", "--prefix", "--timestamps", TAIL]);
        part(&["logs", pod, "--all-containers", "--prefix", "--timestamps", "--previous", TAIL]);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(FOLDER);
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{namespace}.txt"));
    std::fs::write(&path, text)?;
    path.canonicalize()
}
