//! Images into the nodes. As root.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use anyhow::{Context, Result, anyhow, ensure};

use super::place::{NODES, Place};
use crate::{
    oci::{self, Archive},
    process::{start_error, tail, text},
};

/// Imports each archive into every node that does not have exactly that image yet, under its name and, as if it had been
/// pulled, by digest: what pods of the node agent have to ask for.
pub(super) fn run(place: &Place, archives: &[PathBuf]) -> Result<()> {
    let archives: Vec<_> =
        archives.iter().map(|path| Ok((path.as_path(), oci::inspect(path)?))).collect::<Result<_>>()?;
    thread::scope(|scope| {
        let nodes = NODES.map(|node| scope.spawn(|| load(place, node.name, &archives)));
        nodes.into_iter().try_for_each(|node| node.join().map_err(|_| anyhow!("loading images failed"))?)
    })
}

/// What stands for the namespaces of the control plane, where the network between the nodes is.
const CONTROL: &str = "control";

/// A command inside a node, or beside the control plane: its processes, mounts, network and cgroups, and the cluster's
/// programs.
pub(super) fn inside(place: &Place, node: &str) -> Result<Command> {
    let known = NODES.map(|node| node.name);
    let control = node == CONTROL;
    ensure!(
        control || known.contains(&node),
        "there is no node {node}; there are {}, and {CONTROL} for the network between them",
        known.join(", ")
    );
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("nsenter");
    let (target, own): (i32, &[&str]) =
        if control { (place.pid("init")?, &[]) } else { (place.pid(node)?, &["--uts", "--cgroup"]) };
    command.arg(format!("--target={target}"));
    command.args(["--pid", "--mount", "--net", "--ipc"]).args(own).arg("--");
    command.env("PATH", format!("{}:{path}", place.programs().display()));
    Ok(command)
}

fn load(place: &Place, node: &str, archives: &[(&Path, Archive)]) -> Result<()> {
    let mut list = inside(place, node)?;
    let present = text(list.args(["ctr", "--namespace", "k8s.io", "images", "list"]))?;
    for (path, archive) in archives.iter().filter(|(_, archive)| !lists(&present, archive)) {
        let failed = || format!("load {} into {node}", archive.name);
        import(place, node, path).with_context(failed)?;
        name(place, node, archive).with_context(failed)?;
    }
    Ok(())
}

fn name(place: &Place, node: &str, archive: &Archive) -> Result<()> {
    let mut command = inside(place, node)?;
    command.args(["ctr", "--namespace", "k8s.io", "images", "tag", "--force", &archive.name]);
    text(command.arg(by_digest(archive)))?;
    Ok(())
}

/// `localhost/app:1` by the digest of its manifest.
fn by_digest(archive: &Archive) -> String {
    let repository = match archive.name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => &archive.name,
    };
    format!("{repository}@{}", archive.digest)
}

/// The archive goes through standard input, as a node does not see all of the machine's folders.
fn import(place: &Place, node: &str, path: &Path) -> Result<()> {
    let mut command = inside(place, node)?;
    command.args(["ctr", "--namespace", "k8s.io", "images", "import", "-"]).stdin(File::open(path)?);
    let output = command.output().map_err(|error| start_error(&command, error))?;
    ensure!(output.status.success(), "ctr failed:\n{}", tail(&String::from_utf8_lossy(&output.stderr)));
    Ok(())
}

/// Lines read `NAME TYPE DIGEST SIZE PLATFORMS LABELS`.
fn lists(output: &str, archive: &Archive) -> bool {
    [archive.name.clone(), by_digest(archive)].iter().all(|name| {
        output.lines().any(|line| {
            let mut fields = line.split_whitespace();
            fields.next() == Some(name) && fields.nth(1) == Some(archive.digest.as_str())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_present_only_with_the_same_digest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image.tar");
        let write = |text: &str| {
            let layer = oci::Layer::new().file("content", 0o644, text);
            oci::Image::new("localhost/app:1").layer(layer).write(&path).unwrap();
            oci::inspect(&path).unwrap()
        };
        let old = write("old");
        let line = |name: &str| {
            format!("{name} application/vnd.oci.image.manifest.v1+json {} 3 KiB linux/amd64 -\n", old.digest)
        };
        let head = "REF TYPE DIGEST SIZE PLATFORMS LABELS\n";
        let by_name = line("localhost/app:1");
        let both = format!("{head}{by_name}{}", line(&format!("localhost/app@{}", old.digest)));
        assert!(lists(&both, &old));
        assert!(!lists(&format!("{head}{by_name}"), &old), "pods could not ask for it by digest");
        assert!(!lists(&both, &write("new")));
    }

    #[test]
    fn a_port_of_a_registry_is_no_tag() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image.tar");
        oci::Image::new("localhost/app:1")
            .layer(oci::Layer::new().file("a", 0o644, "a"))
            .write(&path)
            .unwrap();
        let archive = |name: &str| Archive { name: name.to_owned(), ..oci::inspect(&path).unwrap() };
        assert!(by_digest(&archive("host:5000/app:1")).starts_with("host:5000/app@sha256:"));
        assert!(by_digest(&archive("host:5000/app")).starts_with("host:5000/app@sha256:"));
    }
}
